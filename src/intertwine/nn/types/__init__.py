"""Layers without weights that change the field type."""

from ._irreps import FromIrreps as FromIrreps
from ._irreps import ToIrreps as ToIrreps
from ._restrict import Restrict as Restrict
