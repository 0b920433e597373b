"""Shared by all plots: sizes, axes, ticks, legends.

Plots are 360 points wide, which keeps text readable on a phone.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ._svg import INK, QUIET, RULE, xml_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

WIDTH = 360.0
POINT = 1 / 72
TEXT, SMALL = 11.5, 10.5
MARGIN = 10.0
LETTER = 0.6 * SMALL  # width of a letter in a wide font
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)), (0, (3, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P")
PUBLISHED_DASHES: Any = (0, (2.5, 1.5))
_LOG_RATIO = 10.0
_FEW_RATIO = 5.0


def value_axis(axes: Axes, which: str, values: Sequence[float], *, log: bool | None = None) -> None:
    """Set up an axis: limits with a margin, a logarithmic scale if needed, faint ticks and rules.

    Args:
        axes: the axes.
        which: ``x`` or ``y``.
        values: all values along this axis.
        log: whether the scale is logarithmic; default: :func:`needs_logarithm` decides.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    values = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(values), max(values)
    axis = axes.xaxis if which == "x" else axes.yaxis
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    if needs_logarithm(values) if log is None else log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        room = (high / low) ** 0.06 if high > low else 1.5
        set_limits(low / room, high * room)
        subs = (1.0, 2.0, 5.0) if high / low < 200 else (1.0,)
        few = high / low < _FEW_RATIO  # LogLocator could place fewer than two ticks
        axis.set_major_locator(MaxNLocator(4) if few else LogLocator(subs=subs, numticks=12))
        axis.set_major_formatter(plain_ticks())
        axis.set_minor_locator(NullLocator())
    else:
        room = 0.06 * (high - low) or 0.05 * abs(high) or 0.5
        set_limits(low - room, high + room)
        fitting = int(WIDTH / (LETTER * tick_letters(values) + 16))
        axis.set_major_locator(MaxNLocator(max(2, min(6, fitting)) if which == "x" else 5))
        axis.set_major_formatter(plain_ticks())
    axes.tick_params(length=0, pad=5, labelsize=SMALL, labelcolor=INK)
    axes.grid(axis="x" if which == "x" else "y", color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set(color=QUIET, linewidth=0.8, visible=side == "bottom")


def plain_ticks() -> FuncFormatter:
    """A formatter for plain numbers."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value + 0.0:,.9g}".replace("-", "−"))  # + 0.0 turns -0.0 into 0.0


def tick_letters(values: Iterable[float]) -> int:
    """The approximate length of tick labels for these values, in characters."""
    sizes = [abs(value) for value in values]
    small = 6 if any(0 < size < 0.01 for size in sizes) else 4  # 0.0001; smaller ones are shorter: 1e-05
    return max((len(f"{size:,.0f}") for size in sizes if size >= 100), default=small)


def needs_logarithm(values: Iterable[float]) -> bool:
    """Whether a linear axis would squeeze the small values together."""
    values = [value for value in values if math.isfinite(value)]
    return bool(values) and min(values) > 0 and max(values) / min(values) > _LOG_RATIO


def label_axis(axes: Axes, which: str, text: str, *, letters: int = 0) -> None:
    """Label an axis, and say if its scale is logarithmic; wrap lines after ``letters`` characters."""
    scale = axes.get_xscale() if which == "x" else axes.get_yscale()
    if scale == "log":
        text += ", log scale"
    if letters:
        text = textwrap.fill(text, letters)
    set_label = axes.set_xlabel if which == "x" else axes.set_ylabel
    set_label(xml_text(text), fontsize=SMALL, color=INK, labelpad=5, parse_math=False)


def shortened(text: str, length: int) -> str:
    """One line of at most ``length`` characters, without those that XML does not allow."""
    text = xml_text(" ".join(text.split()))
    return text if len(text) <= length else text[: length - 1] + "…"


def key_entry(
    figure: Figure, x: float, y: float, height: float, text: str, style: dict[str, Any], *, wide: bool = True
) -> None:
    """One legend entry, at this many points from the lower left: a marker, on a line if ``wide``, and its meaning."""
    from matplotlib.lines import Line2D

    length = 22.0 if wide else 6.0
    across = [x, x + length / 2, x + length] if wide else [x + length / 2]
    figure.add_artist(
        Line2D([a / WIDTH for a in across], [y / height] * len(across), markevery=[len(across) // 2], **style)
    )
    figure.text((x + length + 5) / WIDTH, (y - 3.4) / height, text, fontsize=SMALL, color=INK, parse_math=False)
