"""One row per candidate: how well moved samples are told apart, and what each network gains or loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...discovery import Finding
from ..draw._pieces import MARGIN, POINT, SMALL, TEXT, WIDTH, shortened
from ..draw._svg import INK, QUIET, RULE, SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAR, _LINE, _NAME, _GROUP, _FOOT = 10.0, 15.0, 18.0, 12.0, 24.0
_NETWORKS = ("invariant", "local", "relaxed")
_LABEL = 62.0  # room for the name of a network


def auc_chart(findings: Sequence[Finding]) -> Figure:
    """Bars from ½ to 1, with a darker band for chance and a tick for resampling alone."""
    rows = [each for each in findings if each.auc is not None]
    block = _NAME + _BAR + _GROUP
    paper = _Paper(MARGIN + block * len(rows) + _FOOT)
    full = WIDTH - 2 * MARGIN - 34
    top = MARGIN / 2

    def at(value: float) -> float:
        return MARGIN + full * (min(max(value, 0.4), 1.0) - 0.4) / 0.6

    for each in rows:
        if each.auc is None:
            continue
        paper.text(MARGIN, top + 11, shortened(each.symmetry, 30), size=TEXT)
        y = top + _NAME
        paper.box(at(0.4), y, full, _BAR, RULE)
        left, right = sorted((at(0.5), at(each.auc.value)))
        paper.box(left, y, right - left, _BAR, SERIES[0])
        low, high = each.auc.null
        paper.box(at(low), y + _BAR - 3, at(high) - at(low), 3, QUIET)
        if each.auc.floor is not None:
            paper.box(at(each.auc.floor) - 1, y - 3, 2, _BAR + 6, INK)
        paper.text(at(1.0) + 5, y + _BAR - 1.5, f"{each.auc.value:.2f}")
        top += block
    for value in (0.5, 0.75, 1.0):
        paper.text(at(value) - 8, top + 8, f"{value:g}", color=QUIET)
    return paper.figure


def gain_chart(findings: Sequence[Finding]) -> Figure:
    """Intervals around zero, in points, averaged over the learning curve."""
    rows = [each for each in findings if each.curve_gains]
    ends = [abs(end) for each in rows for gain in each.curve_gains.values() for end in gain.interval]
    reach = max([*ends, 0.01])
    heights = [_NAME + _LINE * len(each.curve_gains) + _GROUP for each in rows]
    paper = _Paper(MARGIN + sum(heights) + _FOOT)
    start, full = MARGIN + _LABEL, WIDTH - 2 * MARGIN - _LABEL

    def at(value: float) -> float:
        return start + full * (value / reach + 1) / 2

    top = MARGIN / 2
    for each, height in zip(rows, heights, strict=True):
        paper.text(MARGIN, top + 11, shortened(each.symmetry, 30), size=TEXT)
        paper.box(at(0) - 0.5, top + _NAME, 1, height - _NAME - _GROUP, QUIET)
        y = top + _NAME
        for k, network in enumerate(_NETWORKS):
            gain = each.curve_gains.get(network)  # type: ignore[call-overload]
            if gain is None:
                continue
            low, high = gain.interval
            paper.text(MARGIN, y + 10, network, color=QUIET)
            paper.box(at(low), y + 5.5, at(high) - at(low), 3, SERIES[k])
            paper.box(at(gain.mean) - 2.5, y + 3, 5, 8, SERIES[k])
            y += _LINE
        top += height
    for value in (-reach, 0.0, reach):
        words = f"{100 * value:+.0f} points".replace("-", "−") if value else "0"
        place = at(value) - (0 if value < 0 else 4 if not value else 48)
        paper.text(place, top + 8, words, color=QUIET)
    return paper.figure


class _Paper:
    """A figure that is drawn on in points, from its top left corner."""

    def __init__(self, height: float) -> None:
        from matplotlib.figure import Figure

        self.height = height
        self.figure = Figure(figsize=(WIDTH * POINT, height * POINT))

    def box(self, x: float, top: float, width: float, tall: float, color: str) -> None:
        """A filled rectangle."""
        from matplotlib.patches import Rectangle

        place = (x / WIDTH, 1 - (top + tall) / self.height)
        self.figure.add_artist(Rectangle(place, width / WIDTH, tall / self.height, facecolor=color, linewidth=0))

    def text(self, x: float, base: float, words: str, *, size: float = SMALL, color: str = INK) -> None:
        """A line of text."""
        self.figure.text(x / WIDTH, 1 - base / self.height, words, fontsize=size, color=color, parse_math=False)
