"""File formats and folder layouts, read into an ``ImageData``."""
