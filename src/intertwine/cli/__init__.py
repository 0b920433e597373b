<<<<<<< HEAD
"""The command line: parses options, calls the package and prints; no mathematics."""
=======
"""The command line: parse, call, print; no mathematics."""
>>>>>>> docs

from ._app import main as main
from ._app import program as program
