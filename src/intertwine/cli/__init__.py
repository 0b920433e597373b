"""The command line: parse, call, print; no mathematics."""

from ._app import main as main
from ._app import program as program
