"""The classification of published equivariant networks, with a checked instance of each row."""

from ._table import Check as Check
from ._table import Row as Row
from ._table import classification as classification
