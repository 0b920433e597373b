"""An audit, for the terminal and as a page."""

from . import _views as _views  # registers them
