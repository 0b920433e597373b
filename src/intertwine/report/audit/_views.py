"""What ``print(audit)`` shows and ``audit.save`` draws."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ..._views import VIEWS
from .._terminal import console_width
from ._page import write_audit_page
from ._table import audit_table

if TYPE_CHECKING:
    from ...measure import Audit


def audit_text(audit: Audit) -> str:
    """The table of an audit as plain text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=console_width())
    with console.capture() as capture:
        console.print(audit_table(audit))
    # rich pads every line to the width of the table
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip()


VIEWS.add("audit text", audit_text)
VIEWS.add("audit page", write_audit_page)
