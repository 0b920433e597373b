"""Plots that an experiment asks for: one quantity against another, for several series."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..._figures import Plot, Series
from ...errors import InputError
from ._pieces import (
    DASHES,
    LETTER,
    MARGIN,
    MARKERS,
    POINT,
    PUBLISHED_DASHES,
    WIDTH,
    key_entry,
    label_axis,
    needs_logarithm,
    shortened,
    tick_letters,
    value_axis,
)
from ._svg import PAPER, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BODY, _LINE, _KEY_LINE = 190.0, 13.0, 15.0
_ACROSS, _UP = 46, 30  # letters in a line of the labels of the axes
_KEY_LETTERS = 46


@dataclass(frozen=True)
class _Points:
    """The finite points of a series, sorted by x: where, mean, least and greatest."""

    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    counts: frozenset[int]


def plot_figure(plot: Plot) -> Figure:
    """The means of all series with bands from the least to the greatest value, and the key below the axes.

    Bands become bars where points are not joined. Published series have open marks on dashed lines; one with the title
    of another series takes its color. Values that are not finite are left out; a series that has no others is named in
    the key.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    points = [_finite(series) for series in plot.series]
    xs = [x for found in points for x in found.x]
    ys = [y for found in points for values in (found.low, found.high) for y in values]
    if not xs:
        raise InputError(
            f"figure {plot.title!r}", expected="finite points", got="none", fix="Run rows that the figure shows."
        )
    log = plot.x_scale == "log" and min(xs) > 0  # a logarithmic axis has no place for zero: then all is shown, linearly
    across, up = _lines(plot.x, _ACROSS, log=log), _lines(plot.y, _UP, log=needs_logarithm(ys))
    left = 27.0 + LETTER * tick_letters(ys) + _LINE * (up - 1)
    bottom = 40.0 + _LINE * (across - 1) + _KEY_LINE * len(plot.series)
    height = MARGIN + _BODY + bottom
    figure = Figure(figsize=(WIDTH * POINT, height * POINT))
    axes = figure.add_axes((left / WIDTH, bottom / height, 1 - (left + MARGIN + 4) / WIDTH, _BODY / height))
    value_axis(axes, "x", xs, log=log)
    if not log and all(x == int(x) for x in xs):
        fitting = 9 if max(map(abs, xs)) < 100 else 6 if max(map(abs, xs)) < 1000 else 4
        axes.xaxis.set_major_locator(MaxNLocator(fitting, integer=True))
    value_axis(axes, "y", ys)
    axes.grid(visible=False, axis="x")
    several = any(count > 1 for found in points for count in found.counts)
    for k, (series, found) in enumerate(zip(plot.series, points, strict=True)):
        style = _style(plot.series, k)
        _draw(axes, series, found, style)
        y = bottom - 40.0 - _LINE * (across - 1) - _KEY_LINE * (k + 0.5)
        key_entry(figure, left, y, height, _key_text(series, found, several=several), style)
    label_axis(axes, "x", plot.x, letters=_ACROSS)
    label_axis(axes, "y", plot.y, letters=_UP)
    return figure


def _finite(series: Series) -> _Points:
    columns: dict[float, list[float]] = {}
    for x, values in series.points:
        kept = [float(value) for value in values if math.isfinite(value)]
        if math.isfinite(x) and kept:
            columns.setdefault(float(x), []).extend(kept)
    where = sorted(columns)
    mean, low, high = ([f(columns[at]) for at in where] for f in (statistics.fmean, min, max))
    return _Points(where, mean, low, high, frozenset(map(len, columns.values())))


def _style(every: Sequence[Series], k: int) -> dict[str, Any]:
    """Color, shape and dashes of a series; beyond six the colors come again with other shapes."""
    series, at = every[k], k
    if series.published:  # beside what it is to be compared with
        at = next((j for j, other in enumerate(every) if other.title == series.title and not other.published), k)
    color, marker = SERIES[at % len(SERIES)], MARKERS[(at + at // len(SERIES)) % len(MARKERS)]
    style: dict[str, Any] = {"color": color, "marker": marker, "markersize": 4.5, "linewidth": 1.5}
    if series.published:
        style |= {"markerfacecolor": PAPER, "markersize": 5.5, "markeredgewidth": 1.3}
    if not series.joined:
        return style | {"linestyle": "none"}
    return style | {"linestyle": PUBLISHED_DASHES if series.published else DASHES[at % len(DASHES)]}


def _draw(axes: Axes, series: Series, found: _Points, style: dict[str, Any]) -> None:
    if not found.x:
        return
    if max(found.counts) > 1:
        if series.joined and len(found.x) > 1:
            axes.fill_between(found.x, found.low, found.high, color=style["color"], alpha=0.18, linewidth=0)
        else:
            axes.vlines(found.x, found.low, found.high, color=style["color"], linewidth=1.4)
    axes.plot(found.x, found.mean, **style)


def _key_text(series: Series, found: _Points, *, several: bool) -> str:
    """The title; that it is published; and, where seeds are shown at all, of how many."""
    notes = []
    if series.published:
        notes.append("published")
    elif several and found.counts:
        least, most = min(found.counts), max(found.counts)
        notes.append(f"n = {least}" if least == most else f"n = {least} to {most}")
    if not found.x:
        notes.append("no values")
    note = f" ({', '.join(notes)})" if notes else ""
    return shortened(series.title, _KEY_LETTERS - len(note)) + note


def _lines(text: str, letters: int, *, log: bool = False) -> int:
    """How many lines a label takes; room for the words that a logarithmic axis adds, where it may be one."""
    return max(1, len(textwrap.wrap(text + (", log scale" if log else ""), letters)))
