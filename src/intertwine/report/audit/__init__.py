"""An audit, for the terminal and as a page."""
