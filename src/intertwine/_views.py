"""Views: how ``report`` shows a result that a room below it computed.

``print(audit)`` and ``audit.save(folder)`` belong to ``measure``, but tables and pages are drawn in ``report``, on a
higher floor. So ``report`` registers its views here, and :func:`view` imports ``report`` when one is first needed.
This is the only import in the package that goes up.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ._registry import Registry

VIEWS = Registry[Callable[..., Any]]("view")
"""Functions that show a result, by name. Add to it in ``report``, read it with :func:`view`."""


def view(name: str) -> Callable[..., Any]:
    """The function that shows a result as this kind of text or page.

    >>> view("audit page").__name__
    'write_audit_page'
    """
    import_module("intertwine.report")
    return VIEWS[name]
