"""Figures as blocks of a page, and as numbers for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._figures import Figure, Panels, Plot, Table
from ...errors import InputError, IntertwineError
from .._html import Block, Column, DataTable, Gallery, Heading, Note, Picture, Prose, TableCell
from .._numbers import measured_places, number

NO_PLOTS = "There are no plots, because matplotlib is not installed: pip install 'intertwine[plot]'."


def figure_blocks(figures: Sequence[Figure], *, plots: bool) -> list[Block]:
    """Galleries of consecutive pictures, with tables between them; a note in place of a figure that fails.

    Args:
        figures: the figures.
        plots: whether matplotlib is installed; without it, only tables are shown.
    """
    blocks: list[Block] = []
    pictures: list[Picture] = []
    reading = ""

    def close() -> None:
        if pictures:
            blocks.append(Gallery(tuple(pictures)))
            pictures.clear()

    for index, figure in enumerate(figures, 1):
        try:
            if isinstance(figure, Table):
                close()
                blocks += _table(figure)
            elif plots:
                pictures.append(_picture(figure, index))
                reading = reading or spread_note(figure)
        except Exception as error:
            close()
            title = getattr(figure, "title", "") or f"number {index}"
            blocks.append(Note(reason(error), heading=f"The figure “{title}” could not be drawn.", warning=True))
    close()
    return [Prose(reading, quiet=True), *blocks] if reading else blocks


def figure_data(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The numbers of plots and tables, and the titles of images; the error of a malformed figure."""
    numbers = []
    for figure in figures:
        try:
            numbers.append(_numbers(figure))
        except Exception as error:  # the page has a note in place of the figure
            numbers.append({"kind": type(figure).__name__.lower(), "error": reason(error)})
    return numbers


def _numbers(figure: Figure) -> dict[str, Any]:
    about: dict[str, Any] = {"kind": type(figure).__name__.lower(), "title": figure.title}
    if isinstance(figure, Plot):
        about |= {"x": figure.x, "y": figure.y}
        about["series"] = [
            {
                "title": series.title,
                "published": series.published,
                "points": [[float(x), [float(value) for value in values]] for x, values in series.points],
            }
            for series in figure.series
        ]
    elif isinstance(figure, Table):
        about |= {"columns": list(figure.columns), "rows": [list(row) for row in figure.rows]}
    return about


def _picture(figure: Plot | Panels, index: int) -> Picture:
    from ._svg import inline_svg

    if not isinstance(figure, Plot | Panels):
        raise InputError("figures", expected="Plot, Panels or Table", got=type(figure).__name__)
    name, caption = f"figure-{index}", " ".join(filter(None, (_sentence(figure.title), figure.caption)))
    if isinstance(figure, Plot):
        from ._plot import plot_figure

        return Picture(inline_svg(plot_figure(figure), name=name, title=figure.title), caption)
    from ._panels import panels_figure

    # The colors of images have a meaning, so they stay on white in dark mode.
    return Picture(inline_svg(panels_figure(figure), name=name, title=figure.title), caption, card=True)


def _table(table: Table) -> list[Block]:
    numeric = [
        bool(column) and all(value is None or _is_number(value) for value in column)
        for column in zip(*table.rows, strict=True)
    ] or [False] * len(table.columns)
    places = [
        measured_places([float(v) for v in column if _is_number(v)], (), None) if right else 0
        for column, right in zip(zip(*table.rows, strict=True), numeric, strict=True)
    ] or [0] * len(table.columns)
    blocks: list[Block] = [
        Heading(capital(table.title)),
        DataTable(
            table.title,
            [
                Column(label, align="right" if right else "left")
                for label, right in zip(table.columns, numeric, strict=True)
            ],
            [[_cell(value, n) for value, n in zip(row, places, strict=True)] for row in table.rows],
        ),
    ]
    return [*blocks, Prose(table.caption, quiet=True)] if table.caption else blocks


def _cell(value: str | float | int | None, places: int) -> TableCell:
    if value is None:
        return TableCell("–", value=math.nan, tone="quiet")
    if isinstance(value, str):
        return TableCell(value)
    if isinstance(value, int):
        return TableCell(number(value, 0), value=float(value))
    return TableCell(number(value, places), value=value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def spread_note(figure: Figure) -> str:
    """How to read the bands of a plot; empty if it has none."""
    if not isinstance(figure, Plot) or all(len(values) < 2 for each in figure.series for _, values in each.points):
        return ""
    return "Markers are means over n seeds; bands and bars span the lowest to the highest seed."


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    text = capital(text)
    return text if text.endswith((".", "?", "!")) else text + "."


def reason(error: Exception) -> str:
    """The reason that a figure failed: our errors explain themselves, others get the name of their class."""
    return str(error) if isinstance(error, IntertwineError) else f"{type(error).__name__}: {error}"
