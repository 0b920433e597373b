"""``python -m intertwine`` is the command ``intertwine``."""

import os
import sys

# `python -m` puts the current folder first on sys.path, where a file could shadow any package imported from here on.
# Modules named as MODEL are still found, see measure/load.
if __name__ == "__main__" and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from .cli import main

if __name__ == "__main__":  # importing this file, as test collectors do, must not start the program
    main()
