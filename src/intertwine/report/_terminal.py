"""What tables for the terminal are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def heading(text: str) -> RenderableType:
    """A title above a table."""
    from rich.text import Text

    return Text(text, style="bold")


def plain_table(*columns: tuple[str, bool]) -> Table:
    """A table without lines; columns with a label and whether they hold numbers. Long names are folded."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for label, number in columns:
        table.add_column(label, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return table


def console_width() -> int:
    """The width of the terminal, or 140 if the output goes to a file or a notebook."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else 140
