"""Figures as plain values: they say what to draw, and ``report`` draws it.

They stand on the ground floor because every room above may describe one. An experiment returns its figures from
``Experiment.figures``, and users find the classes in ``experiments``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ._checked import checked


@checked
@dataclass(frozen=True)
class Series:
    """One line of a plot.

    Attributes:
        title: what the key says.
        points: x, and what each seed found there; the mean is drawn, with a band from the least to the greatest.
        published: numbers of the paper, drawn as such.
        joined: whether the points are joined by a line.
    """

    title: str
    points: Sequence[tuple[float, Sequence[float]]]
    published: bool = False
    joined: bool = True


@checked
@dataclass(frozen=True)
class Plot:
    """One quantity against another.

    Attributes:
        title: what it shows.
        x: label of the horizontal axis, with its unit.
        y: label of the vertical axis, with its unit.
        series: its lines.
        caption: how to read it, in a sentence or two.
        x_scale: ``log`` for quantities that are compared by ratios.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    caption: str = ""
    x_scale: Literal["linear", "log"] = "linear"


@checked
@dataclass(frozen=True)
class Panel:
    """One image: numbers ``(height, width)``, or colors ``(3, height, width)`` in [0, 1].

    Attributes:
        values: the image.
        title: what stands above it; may be empty.
        quiet: drawn as held out: greyed.
    """

    values: Tensor
    title: str = ""
    quiet: bool = False


@checked
@dataclass(frozen=True)
class Panels:
    """Images side by side, in rows.

    Attributes:
        title: what they show.
        rows: label of each row, and its images.
        colors: ``diverging`` for signed numbers, zero in the middle; ``amount`` for numbers from zero; ``gray``.
        caption: how to read them.
        shared: whether all images share one range of values; otherwise each has its own, and the caption should say so.
    """

    title: str
    rows: Sequence[tuple[str, Sequence[Panel]]]
    colors: Literal["diverging", "amount", "gray"] = "gray"
    caption: str = ""
    shared: bool = True


@checked
@dataclass(frozen=True)
class Table:
    """Numbers that are no metric of a row.

    Attributes:
        title: what it shows.
        columns: their names, with units.
        rows: texts and numbers.
        caption: how to read it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]
    caption: str = ""


Figure = Plot | Panels | Table
