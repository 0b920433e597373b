"""Pictures of the demo: bars with the range over seeds, and a digit that turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ...demo import Scores
from ..draw._pieces import MARGIN, POINT, SMALL, TEXT, WIDTH, shortened
from ..draw._svg import INK, QUIET, RULE, SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAR, _GAP, _NAME, _GROUP, _FOOT = 12.0, 3.0, 16.0, 12.0, 34.0
_RIGHT = 46.0  # room for a number after the longest bar
_WIDE, _TALL = 500.0, 200.0
_DIGIT = 40.0


def score_bars(rows: Sequence[Scores], metrics: Mapping[str, str]) -> Figure:
    """Per row: its name, and below it one bar per metric, in percent; a line spans the seeds.

    Args:
        rows: what to compare.
        metrics: metric → its name in the legend.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    block = _NAME + len(metrics) * (_BAR + _GAP) - _GAP + _GROUP
    height = MARGIN + block * len(rows) + _FOOT
    figure = Figure(figsize=(WIDTH * POINT, height * POINT))
    full = WIDTH - MARGIN - _RIGHT

    def box(x: float, top: float, width: float, tall: float, color: str) -> None:
        place = (x / WIDTH, 1 - (top + tall) / height)
        figure.add_artist(Rectangle(place, width / WIDTH, tall / height, facecolor=color, linewidth=0))

    def text(x: float, base: float, words: str, *, size: float = SMALL, color: str = INK) -> None:
        figure.text(x / WIDTH, 1 - base / height, words, fontsize=size, color=color, parse_math=False)

    top = MARGIN / 2
    for row in rows:
        text(MARGIN, top + 11, shortened(row.name, 48), size=TEXT)
        for k, metric in enumerate(metrics):
            y = top + _NAME + k * (_BAR + _GAP)
            low, high = row.range(metric)
            box(MARGIN, y, full, _BAR, RULE)
            box(MARGIN, y, full * row.mean(metric), _BAR, SERIES[k])
            if high > low:
                box(MARGIN + full * low, y + _BAR / 2 - 0.75, full * (high - low), 1.5, INK)
            text(MARGIN + full + 5, y + _BAR - 2.5, f"{row.mean(metric):.1%}")
        top += block
    x = MARGIN
    for k, words in enumerate(metrics.values()):
        box(x, top + 6, 10, 10, SERIES[k])
        text(x + 15, top + 15, words, color=QUIET)
        x += 30 + 6.2 * len(words)
    return figure


def turning_picture(digit: Tensor, rows: Sequence[Scores]) -> Figure:
    """A digit in four poses, and below each the accuracy of the networks on all test digits in this pose."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(_WIDE * POINT, _TALL * POINT))
    metrics = ["upright", "turned by 90", "turned by 180", "turned by 270"]
    column = (_WIDE - 2 * MARGIN) / len(metrics)
    bars, floor = 90.0, _TALL - 42.0
    width = min(46.0, (column - 24) / len(rows) - 6)
    for k, metric in enumerate(metrics):
        middle = MARGIN + (k + 0.5) * column
        image = figure.add_axes(
            ((middle - _DIGIT / 2) / _WIDE, 1 - (8 + _DIGIT) / _TALL, _DIGIT / _WIDE, _DIGIT / _TALL)
        )
        image.imshow(digit.rot90(k).numpy(), cmap="gray_r", interpolation="nearest")
        image.set_axis_off()
        begin = middle - (len(rows) * (width + 6) - 6) / 2
        for j, row in enumerate(rows):
            share = row.mean(metric)
            tall, x = bars * share, begin + j * (width + 6)
            place = (x / _WIDE, 1 - floor / _TALL)
            figure.add_artist(Rectangle(place, width / _WIDE, tall / _TALL, facecolor=SERIES[j], linewidth=0))
            words: dict[str, Any] = {"fontsize": TEXT, "color": INK, "ha": "center", "parse_math": False}
            figure.text((x + width / 2) / _WIDE, 1 - (floor - tall - 4) / _TALL, f"{share:.0%}", **words)
        label: dict[str, Any] = {"fontsize": SMALL, "color": QUIET, "ha": "center", "parse_math": False}
        figure.text(middle / _WIDE, 1 - (floor + 13) / _TALL, f"{90 * k}°" if k else "upright", **label)
    x = MARGIN
    for j, row in enumerate(rows):
        place = (x / _WIDE, 8 / _TALL)
        figure.add_artist(Rectangle(place, 10 / _WIDE, 10 / _TALL, facecolor=SERIES[j], linewidth=0))
        figure.text((x + 15) / _WIDE, 9.5 / _TALL, row.name, fontsize=SMALL, color=QUIET, parse_math=False)
        x += 40 + 6.2 * len(row.name)
    return figure
