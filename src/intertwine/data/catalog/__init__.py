"""Looking up datasets by name or path."""

from ._load import load as load
from ._names import describe as describe
from ._names import names as names
