"""Views: how ``report`` shows a result that a room below it computed.

``print(audit)`` and ``audit.save(folder)`` belong to ``measure``, but tables and pages are drawn in ``report``, on a
higher floor. So a room below asks for the function by name when it is first needed. This is the only import in the
package that goes up.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def view(name: str) -> Callable[..., Any]:
    """The function of ``report`` that shows a result.

    >>> view("write_audit_page").__name__
    'write_audit_page'
    """
    function: Callable[..., Any] = getattr(import_module("intertwine.report"), name)
    return function
