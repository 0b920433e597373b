"""Plots of an experiment: published numbers next to ours, and learning curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...experiments import Comparison, Experiment, Metric
from ..draw._pieces import (
    DASHES,
    LETTER,
    MARGIN,
    MARKERS,
    POINT,
    PUBLISHED_DASHES,
    TEXT,
    WIDTH,
    key_entry,
    label_axis,
    plain_ticks,
    shortened,
    tick_letters,
    value_axis,
)
from ..draw._svg import INK, PAPER, RULE, SERIES
from ._text import NOT_RUN, cell_of, direction, metric_label, spread_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._run_summary import RunSummary

MAX_CURVES = len(SERIES)
_ROW = 45.0
_TITLE_LETTERS, _KEY_LETTERS = 54, 36  # characters per line in a wide font


@dataclass(frozen=True)
class Curve:
    """The values of one row during training, over its seeds.

    Attributes:
        row: the row's name.
        title: its name in the legend.
        steps: the measured steps.
        mean: the mean over seeds with a value at that step.
        low: the smallest of these values.
        high: the largest.
        seeds: the number of seeds.
    """

    row: str
    title: str
    steps: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    seeds: int


def comparison_figure(experiment: Experiment, comparison: Comparison, metric: Metric) -> Figure:
    """The published number and ours for every row, as dots with intervals; every seed as a small dot."""
    from matplotlib.figure import Figure

    cells = [cell_of(comparison, row, metric) for row in experiment.rows]
    ends = [
        end
        for cell in cells
        for mean, spread in (
            (cell.mean, spread_of(cell) or 0.0),
            (cell.published.mean, cell.published.spread or 0.0) if cell.published is not None else (None, 0.0),
        )
        if mean is not None
        for end in (mean - spread, mean + spread)
    ]
    top, bottom = 26.0, 42.0
    height = top + _ROW * len(cells) + bottom
    figure = Figure(figsize=(WIDTH * POINT, height * POINT))
    axes = figure.add_axes(
        (MARGIN / WIDTH, bottom / height, 1 - 2 * MARGIN / WIDTH, 1 - (top + bottom) / height),
    )
    axes.set_ylim(_ROW * len(cells), 0)  # points from above
    axes.set_yticks([])
    value_axis(axes, "x", [*ends, *(value for cell in cells for value in cell.values)])
    for k, (row, cell) in enumerate(zip(experiment.rows, cells, strict=True)):
        if k:
            axes.axhline(k * _ROW, color=RULE, linewidth=0.7)
        title = shortened(row.title, _TITLE_LETTERS)
        _row_title(axes, k * _ROW + 14.0, title if cell.values else f"{title} — {NOT_RUN}")
        if cell.published is not None:
            _interval(axes, k * _ROW + 23.5, cell.published.mean, cell.published.spread, published=True)
        if cell.mean is not None:
            _interval(axes, k * _ROW + 33.0, cell.mean, spread_of(cell), published=False)
        seeds = [value for value in cell.values if math.isfinite(value)]
        axes.plot(seeds, [k * _ROW + 40.0] * len(seeds), ".", color=SERIES[0], markersize=4.5, alpha=0.8, mew=0)
    label_axis(axes, "x", f"{metric_label(metric)}, {direction(metric)}")
    _key(figure, height - top / 2, height)
    return figure


def learning_curves(experiment: Experiment, runs: Iterable[RunSummary], key: str, *, max_points: int) -> list[Curve]:
    """The curves of one logged quantity, in row order, without rows that never logged it."""
    by_row: dict[str, list[dict[float, float]]] = {}
    for run in runs:
        values = {
            float(entry["step"]): float(entry[key])
            for entry in run.history
            if "step" in entry and _is_number(entry.get(key))
        }
        if len(values) > 1:
            by_row.setdefault(run.row, []).append(values)
    logs = [values for seeds in by_row.values() for values in seeds]
    longest = max((step for values in logs for step in values), default=0.0)
    dense = any(len(values) > max_points for values in logs)
    curves = []
    for row in experiment.rows:
        seeds = [_thinned(values, longest / max_points) if dense else values for values in by_row.get(row.name, ())]
        if seeds:
            steps = sorted(set().union(*seeds))
            columns = [[values[step] for values in seeds if step in values] for step in steps]
            mean, low, high = ([f(column) for column in columns] for f in (statistics.fmean, min, max))
            curves.append(Curve(row.name, row.title, steps, mean, low, high, len(seeds)))
    return curves


def curve_figure(curves: Sequence[Curve], every: Sequence[Curve], label: str) -> Figure:
    """At most six curves. The axes have room for ``every`` curve, which makes figures of one quantity comparable."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    ends = [end for curve in every for values in (curve.low, curve.high) for end in values]
    line = 15.0
    left, top, body = 27.0 + LETTER * tick_letters(ends), 10.0, 190.0
    bottom = 40.0 + line * len(curves)
    height = top + body + bottom
    figure = Figure(figsize=(WIDTH * POINT, height * POINT))
    axes = figure.add_axes(
        (left / WIDTH, bottom / height, 1 - (left + MARGIN + 4) / WIDTH, body / height),
    )
    value_axis(axes, "y", ends)
    axes.set_xlim(0, 1.02 * max(curve.steps[-1] for curve in every))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(plain_ticks())
    for k, curve in enumerate(curves):
        color = SERIES[k]
        if curve.seeds > 1:
            axes.fill_between(curve.steps, curve.low, curve.high, color=color, alpha=0.18, linewidth=0)
        marks = max(1, len(curve.steps) // 6)
        axes.plot(
            curve.steps,
            curve.mean,
            color=color,
            linestyle=DASHES[k],
            linewidth=1.5,
            marker=MARKERS[k],
            markersize=4,
            markevery=(min(k * marks // len(curves), len(curve.steps) - 1), marks),
        )
        handle = {"color": color, "linestyle": DASHES[k], "marker": MARKERS[k], "markersize": 4, "linewidth": 1.5}
        y = bottom - 40.0 - line * (k + 0.5)
        key_entry(figure, left, y, height, f"{shortened(curve.title, _KEY_LETTERS)} (n = {curve.seeds})", handle)
    label_axis(axes, "x", "training step")
    label_axis(axes, "y", label)
    return figure


# -- parts -----------------------------------------------------------------------------------------------------


def _row_title(axes: Axes, y: float, text: str) -> None:
    axes.text(
        0, y, text, transform=axes.get_yaxis_transform(), fontsize=TEXT, color=INK, va="baseline", parse_math=False
    )


def _interval(axes: Axes, y: float, mean: float, spread: float | None, *, published: bool) -> None:
    """Published: an open diamond on a dashed line. Ours: a filled circle on a solid line."""
    if not math.isfinite(mean):
        return
    color = SERIES[1] if published else SERIES[0]
    if spread is not None:
        ends = [mean - spread, mean + spread]
        axes.plot(ends, [y, y], color=color, linewidth=1.6, linestyle=PUBLISHED_DASHES if published else "-")
        axes.plot(ends, [y, y], "|", color=color, markersize=6, markeredgewidth=1.4)
    axes.plot([mean], [y], **_mark(published))


def _mark(published: bool) -> dict[str, Any]:
    if published:
        return {"marker": "D", "color": SERIES[1], "mfc": PAPER, "mew": 1.5, "markersize": 5.5, "linestyle": "none"}
    return {"marker": "o", "color": SERIES[0], "markersize": 6, "linestyle": "none", "mew": 0}


def _key(figure: Figure, y: float, height: float) -> None:
    """The legend in one line above the axes."""
    entries = (
        (MARGIN, "published ± spread", {**_mark(True), "linestyle": PUBLISHED_DASHES, "linewidth": 1.6}),
        (MARGIN + 140, "ours ± std. dev.", {**_mark(False), "linestyle": "-", "linewidth": 1.6}),
        (MARGIN + 268, "each seed", {"marker": ".", "color": SERIES[0], "markersize": 4.5, "mew": 0}),
    )
    for x, text, style in entries:
        key_entry(figure, x, y, height, text, style, wide=text != "each seed")


def _thinned(values: dict[float, float], interval: float) -> dict[float, float]:
    """The means over equal intervals of training, each at the middle of its interval."""
    groups: dict[int, list[float]] = {}
    for step, value in values.items():
        groups.setdefault(math.ceil(step / interval - 1e-9), []).append(value)
    return {max(k - 0.5, 0.0) * interval: statistics.fmean(group) for k, group in sorted(groups.items())}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
