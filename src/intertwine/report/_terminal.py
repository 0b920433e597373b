"""Parts of tables for the terminal."""

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
    """A table without rules. Each column has a label and says whether it holds numbers; long texts are wrapped."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for label, number in columns:
        table.add_column(label, justify="right" if number else "left", overflow="fold", no_wrap=number)
    return table
