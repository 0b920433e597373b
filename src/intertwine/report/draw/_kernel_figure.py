"""A picture of a basis of equivariant kernels: one panel per kernel, grouped by double coset."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..._checked import checked
from ...errors import MissingExtraError
from ._kernel_sheet import CELL, Coset, Kernels, Sheet, chosen_kernels, share, sheet_for
from ._kernel_text import caption, header, subtitle, title
from ._layout import HEADER, PANEL_TITLE, Chunk, Group, arrange, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 25
_MIN_PANELS = 6
_PAPER = 150.0  # square inches for all panels together
_BELOW = 0.45  # inches below a panel, for its ticks and label
_TITLE, _SMALL_TITLE, _TEXT, _TICK = 11.0, 8.5, 8.0, 7.0
_LINE, _FAINT = "0.35", "0.65"
_COLORS = ("#1f5f9e", "#86b6d8", "#ffffff", "#ee9a83", "#b3202c")  # zero is white


@checked
def kernel_figure(basis: Kernels) -> Figure:
    """Draw the basis: one panel per kernel, grouped by double coset, all on one color scale centered at zero.

    A filter in the plane is drawn as a matrix of small images, one per pair of an output and an input channel. A filter
    in space is too, with each image cut into slices. A kernel between finite homogeneous spaces is drawn as the matrix
    of its operator, from the points and channels of G/H1 to those of G/H2. At most 25 kernels are drawn, and fewer if
    they are large, taken evenly from the double cosets; the caption says how many are left out.

    Needs matplotlib, which the extra ``plot`` installs. The figure belongs to no window: save it with ``savefig``.
    """
    try:
        from matplotlib.colors import LinearSegmentedColormap, Normalize
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "kernel_figure",
            expected="matplotlib, which draws the picture",
            got="an installation without it",
            fix="Install the extra plot: pip install 'intertwine[plot]'.",
        ) from error

    sheet = sheet_for(basis)
    shown = share([coset.dim for coset in basis.double_cosets], _panel_limit(sheet, basis.dim))
    kernels = chosen_kernels(basis, sheet, shown)
    largest = max((float(values.abs().max()) for group in kernels for values in group), default=0.0) or 1.0
    colors = LinearSegmentedColormap.from_list("kernel", _COLORS)
    scale = {"cmap": colors, "norm": Normalize(-largest, largest)}

    cosets: Sequence[Coset] = basis.double_cosets
    drawn = [(coset, group) for coset, group in zip(cosets, kernels, strict=True) if group]
    groups = [Group(header(sheet, coset), len(group)) for coset, group in drawn]
    cell = _cell_size(sheet, sum(shown))
    panel_width, panel_height = sheet.columns.length * cell, sheet.rows.length * cell
    slot = max(panel_width, text_width("25 of 25", _TICK)) + 0.14
    left = 0.42 + max((text_width(label, _TICK) for _, label in sheet.rows.ticks), default=0.0)
    row_height = HEADER + PANEL_TITLE + panel_height + _BELOW
    layout = arrange(groups, slot=slot, row_height=row_height, header_size=_TEXT)

    width = max(left + layout.width + 1.15, 5.8)
    heading = wrapped(title(basis, sheet), width=width - 0.4, size=_TITLE)
    below = wrapped(subtitle(basis), width=width - 0.4, size=_SMALL_TITLE)
    reading = wrapped(caption(basis, sheet, shown), width=width - 0.4, size=_TEXT)
    top = 0.16 + 0.19 * _lines(heading) + 0.05 + 0.16 * _lines(below) + 0.16
    foot = 0.12 + 0.155 * _lines(reading) + 0.12
    bar_height = min(max(panel_height, 1.2), 2.6)
    height = top + max(layout.height, HEADER + PANEL_TITLE + bar_height + 0.2) + foot

    figure = Figure(figsize=(width, height), dpi=150, facecolor="white")
    page = _Page(figure, width, height)
    page.text(0.2, 0.16, heading, size=_TITLE, weight="bold")
    page.text(0.2, 0.16 + 0.19 * _lines(heading) + 0.05, below, size=_SMALL_TITLE)
    page.text(0.2, height - foot + 0.12, reading, size=_TEXT, color="0.25")
    for number, row in enumerate(layout.rows):
        for chunk in row:
            coset, group = drawn[chunk.group]
            x, y = left + chunk.left, top + number * row_height
            _draw_header(page, groups[chunk.group].header, chunk, x, y)
            for k in range(chunk.panels):
                axes = page.axes(x + k * slot, y + HEADER + PANEL_TITLE, panel_width, panel_height)
                which = chunk.first + k
                sheet.draw(axes, group[which], scale)
                axes.set_title(_panel_title(which + 1, coset.dim, slot), fontsize=_TICK, pad=2.5)
                _decorate(axes, sheet, cell, labeled=chunk is row[0] and k == 0)
    bar = page.axes(left + layout.width + 0.2, top + HEADER + PANEL_TITLE, 0.13, bar_height)
    _draw_scale(figure, bar, scale)
    return figure


@dataclass(frozen=True)
class _Page:
    """A figure addressed in inches from its upper left corner."""

    figure: Figure
    width: float
    height: float

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        bottom = self.height - top - height
        place = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(place)

    def text(self, left: float, top: float, text: str, **options: Any) -> None:
        self.figure.text(left / self.width, 1 - top / self.height, text, ha="left", va="top", **options)

    def line(self, left: float, top: float, width: float) -> None:
        from matplotlib.lines import Line2D

        y = 1 - top / self.height
        ends = [left / self.width, (left + width) / self.width]
        self.figure.add_artist(Line2D(ends, [y, y], color=_LINE, linewidth=0.7))


def _cell_size(sheet: Sheet, panels: int) -> float:
    """The side of a cell in inches: larger if there are few panels, with an upper bound."""
    side = 2.8 if panels <= 4 else 2.3 if panels <= 9 else 1.8
    across, down = sheet.columns.length, sheet.rows.length
    # Panels with many numbers get more room, tall ones more height than width.
    width = max(side, min(3.0, 0.085 * across))
    height = max(side + 1.8, min(5.0, 0.03 * down))
    return min(0.36 if panels <= 4 else 0.28, width / across, height / down)


def _panel_limit(sheet: Sheet, kernels: int) -> int:
    """The number of panels to draw: fewer if they are large."""
    cell = _cell_size(sheet, min(kernels, MAX_PANELS))
    area = (sheet.columns.length * cell + 0.14) * (sheet.rows.length * cell + HEADER + PANEL_TITLE + _BELOW)
    return min(MAX_PANELS, max(_MIN_PANELS, int(_PAPER / area)))


def _decorate(axes: Axes, sheet: Sheet, cell: float, *, labeled: bool) -> None:
    """Limits, separators and, on the first panel of a row, labels."""
    rows, columns = sheet.rows, sheet.columns
    axes.set_xlim(0, columns.length)
    axes.set_ylim(rows.length, 0)
    if sheet.cells and cell >= 0.05:
        _rule(axes, range(1, round(rows.length)), range(1, round(columns.length)), CELL, 0.3)
    _rule(axes, (), _visible(columns.faint, cell), _FAINT, 0.6)
    _rule(axes, _visible(rows.lines, cell), _visible(columns.lines, cell), _LINE, 0.8)
    for spine in axes.spines.values():
        spine.set(linewidth=0.7, color=_LINE)
    axes.tick_params(length=0, pad=2, labelsize=_TICK)
    across = _thinned(columns.ticks, cell, lambda label: text_width(label, _TICK) + 0.05) if labeled else ()
    down = _thinned(rows.ticks, cell, lambda label: 0.11) if labeled else ()
    axes.set_xticks([x for x, _ in across], [label for _, label in across])
    axes.set_yticks([y for y, _ in down], [label for _, label in down])
    if labeled:
        axes.set_ylabel(rows.label, fontsize=_TICK, labelpad=3)
        axes.set_xlabel(columns.label, fontsize=_TICK, labelpad=2, loc="left")


def _rule(axes: Axes, rows: Sequence[float], columns: Sequence[float], color: str, width: float) -> None:
    from matplotlib.lines import Line2D

    # One line with gaps. With axhline and axvline, hundreds of lines take more than half of the time of a figure.
    style: dict[str, Any] = {"color": color, "linewidth": width}
    if rows:
        ends = [0, 1, math.nan] * len(rows)
        places = [value for y in rows for value in (y, y, math.nan)]
        axes.add_artist(Line2D(ends, places, transform=axes.get_yaxis_transform(which="grid"), **style))
    if columns:
        ends = [0, 1, math.nan] * len(columns)
        places = [value for x in columns for value in (x, x, math.nan)]
        axes.add_artist(Line2D(places, ends, transform=axes.get_xaxis_transform(which="grid"), **style))


def _visible(lines: Sequence[float], cell: float) -> Sequence[float]:
    """The separators, or none if they would be too close together."""
    return lines if not lines or lines[0] * cell >= 0.04 else ()


def _thinned(
    ticks: Sequence[tuple[float, str]], cell: float, room: Callable[[str], float]
) -> Sequence[tuple[float, str]]:
    """Every tick, or every n-th if the labels would touch."""
    if len(ticks) < 2:
        return ticks
    spacing = (ticks[1][0] - ticks[0][0]) * cell
    needed = max(room(label) for _, label in ticks)
    return ticks[:: max(1, math.ceil(needed / spacing - 1e-9))]


def _draw_header(page: _Page, header: str, chunk: Chunk, left: float, top: float) -> None:
    first, _, second = header.partition("\n")
    page.text(left, top, f"{first} (continued)" if chunk.first else first, size=_TEXT, weight="bold")
    page.text(left, top + 0.155, second, size=_TICK, color="0.25")
    page.line(left, top + HEADER - 0.045, chunk.width - 0.14)


def _draw_scale(figure: Figure, axes: Axes, scale: dict[str, Any]) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(ScalarMappable(**scale), cax=axes)
    bar.set_label("value of the kernel", fontsize=_TEXT)
    bar.ax.tick_params(labelsize=_TICK, length=2)
    bar.outline.set_linewidth(0.6)


def _panel_title(number: int, of: int, room: float) -> str:
    long = f"kernel {number} of {of}"
    return long if text_width(long, _TICK) + 0.1 < room else f"{number} of {of}"


def _lines(text: str) -> int:
    return text.count("\n") + 1
