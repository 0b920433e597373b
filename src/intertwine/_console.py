"""The console that prints tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def wide_console(*, columns: int = 140, **options: Any) -> Console:
    """A rich console for standard output: as wide as the terminal, or ``columns`` wide in a file, pipe or notebook.

    Without a terminal rich assumes 80 columns, and breaks the lines of most of our tables.

    Args:
        columns: the width if there is no terminal.
        options: other options of ``rich.console.Console``.

    >>> wide_console(columns=100).width
    100
    """
    from rich.console import Console

    console = Console(**options)
    return console if console.is_terminal else Console(width=columns, **options)
