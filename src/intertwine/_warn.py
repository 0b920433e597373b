"""Warnings that point to the user's line of code."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the nearest line outside this package as the location, however deep inside the cause is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
