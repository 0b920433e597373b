"""A bar chart of the demo's networks: accuracy on upright and on rotated digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...experiments import DemoNetwork
from ..draw._pieces import MARGIN, POINT, SMALL, TEXT, WIDTH, shortened
from ..draw._svg import INK, QUIET, RULE, SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BAR, _GAP, _NAME, _GROUP, _FOOT = 12.0, 3.0, 16.0, 12.0, 34.0
_RIGHT = 46.0  # room for a number after the longest bar


def accuracy_chart(networks: Sequence[DemoNetwork]) -> Figure:
    """Per network: its name, and below it bars for upright and rotated digits, in percent."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    block = _NAME + 2 * _BAR + _GAP + _GROUP
    height = MARGIN + block * len(networks) + _FOOT
    figure = Figure(figsize=(WIDTH * POINT, height * POINT))
    full = WIDTH - MARGIN - _RIGHT

    def box(x: float, top: float, width: float, tall: float, color: str) -> None:
        place = (x / WIDTH, 1 - (top + tall) / height)
        figure.add_artist(Rectangle(place, width / WIDTH, tall / height, facecolor=color, linewidth=0))

    def text(x: float, base: float, words: str, *, size: float = SMALL, color: str = INK) -> None:
        figure.text(x / WIDTH, 1 - base / height, words, fontsize=size, color=color, parse_math=False)

    top = MARGIN / 2
    for network in networks:
        text(MARGIN, top + 11, shortened(network.name, 48), size=TEXT)
        for k, share in enumerate((network.upright, network.turned)):
            y = top + _NAME + k * (_BAR + _GAP)
            box(MARGIN, y, full, _BAR, RULE)
            box(MARGIN, y, full * share, _BAR, SERIES[k])
            text(MARGIN + full + 5, y + _BAR - 2.5, f"{share:.0%}")
        top += block
    for k, (x, words) in enumerate(((MARGIN, "upright digits"), (MARGIN + 120, "rotated by quarter turns"))):
        box(x, top + 6, 10, 10, SERIES[k])
        text(x + 15, top + 15, words, color=QUIET)
    return figure
