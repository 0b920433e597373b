"""The command line: parses options, calls the package and prints; no mathematics."""

from ._app import main as main
from ._app import program as program
