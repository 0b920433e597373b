"""Where models, data and measurements meet: one file a paper."""

from ._theory import Check as Check
from ._theory import Row as Row
from ._theory import classification as classification
