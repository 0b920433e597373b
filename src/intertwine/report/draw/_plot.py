"""Plots: one quantity against another, for several series."""

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
_ACROSS, _UP = 46, 30  # characters per line of the axis labels
_KEY_LETTERS = 46


@dataclass(frozen=True)
class _Points:
    """The finite points of a series, sorted by x: mean, smallest and largest value."""

    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    counts: frozenset[int]


def plot_figure(plot: Plot) -> Figure:
    """Draw the means of all series, with bands from the smallest to the largest value, and a legend below.

    If points are not joined, bands become bars. Published series have open markers on dashed lines, and the color of
    the series with the same title, if there is one. Values that are not finite are left out; the legend says if a
    series has no others.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    points = [_finite(series) for series in plot.series]
    xs = [x for line in points for x in line.x]
    ys = [y for line in points for values in (line.low, line.high) for y in values]
    if not xs:
        raise InputError(f"figure {plot.title!r}", expected="finite points", got="none")
    log = plot.x_scale == "log" and min(xs) > 0  # a logarithmic axis cannot show zero
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
    several = any(count > 1 for line in points for count in line.counts)
    for k, (series, line) in enumerate(zip(plot.series, points, strict=True)):
        style = _style(plot.series, k)
        _draw(axes, series, line, style)
        y = bottom - 40.0 - _LINE * (across - 1) - _KEY_LINE * (k + 0.5)
        key_entry(figure, left, y, height, _key_text(series, line, several=several), style)
    label_axis(axes, "x", plot.x, letters=_ACROSS)
    label_axis(axes, "y", plot.y, letters=_UP)
    return figure


def _finite(series: Series) -> _Points:
    columns: dict[float, list[float]] = {}
    for x, values in series.points:
        kept = [float(value) for value in values if math.isfinite(value)]
        if math.isfinite(x) and kept:
            columns.setdefault(float(x), []).extend(kept)
    xs = sorted(columns)
    mean, low, high = ([f(columns[x]) for x in xs] for f in (statistics.fmean, min, max))
    return _Points(xs, mean, low, high, frozenset(map(len, columns.values())))


def _style(every: Sequence[Series], k: int) -> dict[str, Any]:
    """Color, marker and dashes of a series; after six series the colors repeat with other markers."""
    series, slot = every[k], k
    if series.published:  # looks like the series that it is compared with
        slot = next((j for j, other in enumerate(every) if other.title == series.title and not other.published), k)
    color, marker = SERIES[slot % len(SERIES)], MARKERS[(slot + slot // len(SERIES)) % len(MARKERS)]
    style: dict[str, Any] = {"color": color, "marker": marker, "markersize": 4.5, "linewidth": 1.5}
    if series.published:
        style |= {"markerfacecolor": PAPER, "markersize": 5.5, "markeredgewidth": 1.3}
    if not series.joined:
        return style | {"linestyle": "none"}
    return style | {"linestyle": PUBLISHED_DASHES if series.published else DASHES[slot % len(DASHES)]}


def _draw(axes: Axes, series: Series, points: _Points, style: dict[str, Any]) -> None:
    if not points.x:
        return
    if max(points.counts) > 1:
        if series.joined and len(points.x) > 1:
            axes.fill_between(points.x, points.low, points.high, color=style["color"], alpha=0.18, linewidth=0)
        else:
            axes.vlines(points.x, points.low, points.high, color=style["color"], linewidth=1.4)
    axes.plot(points.x, points.mean, **style)


def _key_text(series: Series, points: _Points, *, several: bool) -> str:
    """The title, whether it is published, and the number of seeds if the plot shows several."""
    notes = []
    if series.published:
        notes.append("published")
    elif several and points.counts:
        fewest, most = min(points.counts), max(points.counts)
        notes.append(f"n = {fewest}" if fewest == most else f"n = {fewest} to {most}")
    if not points.x:
        notes.append("no values")
    note = f" ({', '.join(notes)})" if notes else ""
    return shortened(series.title, _KEY_LETTERS - len(note)) + note


def _lines(text: str, letters: int, *, log: bool = False) -> int:
    """The number of lines of an axis label, with the words that a logarithmic axis adds."""
    return max(1, len(textwrap.wrap(text + (", log scale" if log else ""), letters)))
