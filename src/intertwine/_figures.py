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
        title: its name in the legend.
        points: pairs of x and one value per seed. The mean is drawn, with a band from the smallest value to the
            largest.
        published: whether the numbers are from a paper; they are drawn differently.
        joined: whether a line joins the points.
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
        caption: one or two sentences on how to read it.
        x_scale: ``log`` for quantities that readers compare by ratio.
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
    """One image: numbers ``(height, width)`` or colors ``(3, height, width)`` in [0, 1].

    Attributes:
        values: the image.
        title: the text above it; may be empty.
        quiet: whether to gray it out, as an image that was held out.
    """

    values: Tensor
    title: str = ""
    quiet: bool = False


@checked
@dataclass(frozen=True)
class Panels:
    """Rows of images.

    Attributes:
        title: what they show.
        rows: pairs of a label and the images of that row.
        colors: ``diverging`` for signed numbers, with zero in the middle; ``amount`` for numbers from zero up;
            ``gray``.
        caption: how to read them.
        shared: whether all images share one range of values. If each has its own, the caption should say so.
    """

    title: str
    rows: Sequence[tuple[str, Sequence[Panel]]]
    colors: Literal["diverging", "amount", "gray"] = "gray"
    caption: str = ""
    shared: bool = True


@checked
@dataclass(frozen=True)
class Table:
    """Numbers that are not metrics of a row.

    Attributes:
        title: what it shows.
        columns: the names of the columns, with units.
        rows: the texts and numbers of each row.
        caption: how to read it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]
    caption: str = ""


Figure = Plot | Panels | Table
