"""Audits: many measurements of one network, step by step, with the files they write."""

from . import _surgery_steps as _surgery_steps  # registers its steps
from ._audit import Audit as Audit
from ._audit import audit as audit
from ._files import read_audit as read_audit
from ._reading import Gate as Gate
from ._reading import Reading as Reading
