"""File formats and folder layouts, read into an ``ImageData``."""

from ._class_folder import SkippedImagesWarning as SkippedImagesWarning
