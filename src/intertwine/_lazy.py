"""Rooms that import a sub-package when one of its names is first used.

``experiments`` and ``report`` stand on top of everything else. Importing all of their sub-packages would import the
whole package for somebody who only writes the page of an audit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_face(room: str, exports: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a room, given the public names that each file in a sub-package defines.

    The room must import the same names under ``if TYPE_CHECKING``, for type checkers and editors.

    >>> import intertwine.report
    >>> load, names = lazy_face("intertwine.report", {"audit._page": ["audit_page"]})
    >>> load("audit_page").__module__
    'intertwine.report.audit._page'
    >>> "audit_page" in names()
    True
    """
    home_of = {name: file for file, names in exports.items() for name in names}
    packages = {file.partition(".")[0] for file in exports}
    module = sys.modules[room]  # half imported: it is calling this function

    def load(name: str) -> Any:
        if name in packages:
            return import_module(f"{room}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{home_of[name]}"), name)
        setattr(module, name, value)  # Python calls __getattr__ only for names that are missing
        return value

    def names() -> list[str]:
        tools = {"TYPE_CHECKING", lazy_face.__name__}  # what the room needs to call this function
        return sorted({*vars(module), *packages, *home_of} - tools)

    return load, names
