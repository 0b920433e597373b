"""Parts of tables for the terminal, and the console that prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._checked import checked

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


def heading(text: str) -> RenderableType:
    """A title above a table."""
    from rich.text import Text

    return Text(text, style="bold")


def plain_table(*columns: tuple[str, bool]) -> Table:
    """A table without rules. Each column has a label and says whether it holds numbers; long texts are wrapped."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for label, number in columns:
        table.add_column(label, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return table


@checked
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
