"""Published numbers against ours, for the terminal and as a page."""
