"""``python -m intertwine`` is the command ``intertwine``."""

from .cli import main

if __name__ == "__main__":  # importing this file, as test collectors do, must not start the program
    main()
