"""A picture of a basis of equivariant kernels, one panel a kernel, grouped by double coset."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError, MissingExtraError, SizeLimitError
from ...kernels import DoubleCoset, KernelBasis, LatticeKernelBasis, OrbitKernels, Shell, SteerableKernelBasis
from ...spaces import Grid2d, HomogeneousSpace
from ._layout import HEADER, PANEL_TITLE, Chunk, Group, arrange, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kernels = OrbitKernels | SteerableKernelBasis
Coset = DoubleCoset | Shell

MAX_PANELS = 25
_MIN_PANELS = 6
_PAPER = 150.0  # square inches for all panels together: more than that is a poster
_MAX_CELLS = 1000
_BELOW = 0.45  # inches below a panel, for its ticks and label
_TITLE, _SMALL_TITLE, _TEXT, _TICK = 11.0, 8.5, 8.0, 7.0
_LINE, _FAINT, _CELL = "0.35", "0.65", "0.88"
_COLORS = ("#1f5f9e", "#86b6d8", "#ffffff", "#ee9a83", "#b3202c")  # zero is the white of the paper


@dataclass(frozen=True)
class _Axis:
    """One side of a panel: its length in cells, where blocks and slices end, and what is written beside it."""

    length: float
    label: str
    ticks: tuple[tuple[float, str], ...]
    lines: tuple[float, ...]
    faint: tuple[float, ...] = ()


@dataclass(frozen=True)
class _Sheet:
    """How one kind of kernel is drawn.

    Attributes:
        rows: the left side of a panel.
        columns: its lower side.
        values: from a kernel ``(points, d2, d1)`` to the numbers that ``draw`` shows.
        draw: puts the numbers on a panel, with the keywords of the color scale.
        cells: whether the panel is made of unit squares, whose edges help the eye.
        heading: what is solved, for the title.
        where: what a double coset is called in a header.
        detail: the line below it.
        reading: how to read a panel.
    """

    rows: _Axis
    columns: _Axis
    values: Callable[[Tensor], Tensor]
    draw: Callable[[Axes, Tensor, dict[str, Any]], None]
    cells: bool
    heading: str
    where: Callable[[Coset], str]
    detail: Callable[[Coset], str]
    reading: str


@checked
def kernel_figure(basis: Kernels) -> Figure:
    """Draw the basis: one panel a kernel, grouped by double coset, all on one color scale centered at zero.

    A filter on the plane is drawn as a matrix of small images, one for each pair of an output and an input channel; a
    filter in space likewise, each image cut into slices; a kernel between finite homogeneous spaces as the matrix of
    its operator, from the points and channels of G/H1 to those of G/H2. At most 25 kernels are drawn, fewer where each
    is large, taken evenly from the double cosets; the caption says how many are left out.

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
    groups = [Group(_header(sheet, coset), len(group)) for coset, group in drawn]
    cell = _cell_size(sheet, sum(shown))
    panel_width, panel_height = sheet.columns.length * cell, sheet.rows.length * cell
    slot = max(panel_width, text_width("25 of 25", _TICK)) + 0.14
    left = 0.42 + max((text_width(label, _TICK) for _, label in sheet.rows.ticks), default=0.0)
    row_height = HEADER + PANEL_TITLE + panel_height + _BELOW
    layout = arrange(groups, slot=slot, row_height=row_height, header_size=_TEXT)

    width = max(left + layout.width + 1.15, 5.8)
    title = wrapped(_title(basis, sheet), width=width - 0.4, size=_TITLE)
    subtitle = wrapped(_subtitle(basis), width=width - 0.4, size=_SMALL_TITLE)
    caption = wrapped(_caption(basis, sheet, shown), width=width - 0.4, size=_TEXT)
    top = 0.16 + 0.19 * _lines(title) + 0.05 + 0.16 * _lines(subtitle) + 0.16
    foot = 0.12 + 0.155 * _lines(caption) + 0.12
    bar_height = min(max(panel_height, 1.2), 2.6)
    height = top + max(layout.height, HEADER + PANEL_TITLE + bar_height + 0.2) + foot

    figure = Figure(figsize=(width, height), dpi=150, facecolor="white")
    page = _Page(figure, width, height)
    page.text(0.2, 0.16, title, size=_TITLE, weight="bold")
    page.text(0.2, 0.16 + 0.19 * _lines(title) + 0.05, subtitle, size=_SMALL_TITLE)
    page.text(0.2, height - foot + 0.12, caption, size=_TEXT, color="0.25")
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
                _dress(axes, sheet, cell, labeled=chunk is row[0] and k == 0)
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


# -- what is drawn ---------------------------------------------------------------------------------------------


def sheet_for(basis: Kernels) -> _Sheet:
    """How kernels of this kind are drawn."""
    if isinstance(basis, KernelBasis):
        sheet = _operator_sheet(basis)
    elif isinstance(basis, LatticeKernelBasis | SteerableKernelBasis) and len(basis.kernel_size) == 3:
        sheet = _volume_sheet(basis)
    elif isinstance(basis, SteerableKernelBasis):
        sheet = _plane_sheet(basis)
    elif isinstance(basis, LatticeKernelBasis) and isinstance(basis.space, Grid2d):
        sheet = _hexagonal_sheet(basis) if basis.space.lattice == "hexagonal" else _plane_sheet(basis)
    else:
        raise InputError(
            "kernel_figure",
            expected="kernels on finite spaces, or filters on a lattice of the plane or of space",
            got=type(basis).__name__,
            fix="Solve for such a basis with kernels.solve.",
        )
    if max(sheet.rows.length, sheet.columns.length) > _MAX_CELLS:
        raise SizeLimitError(
            "kernel_figure",
            expected=f"panels of at most {_MAX_CELLS} x {_MAX_CELLS} numbers, more than which nobody can read",
            got=f"{sheet.rows.length:.0f} x {sheet.columns.length:.0f}",
            fix="Draw a basis with fewer copies in the field types: it shows the same kernels.",
        )
    return sheet


def _plane_sheet(basis: LatticeKernelBasis | SteerableKernelBasis) -> _Sheet:
    height, width = basis.kernel_size
    d2, d1 = basis.out_type.dim, basis.in_type.dim
    return _Sheet(
        rows=_channels("output channel", d2, height),
        columns=_channels("input channel", d1, width),
        values=lambda kappa: torch.einsum("abyx->aybx", basis.filters(kappa)).reshape(d2 * height, d1 * width),
        draw=_draw_cells,
        cells=True,
        heading=f"Equivariant {height} × {width} filters of {basis.group.name}",
        where=_tap_orbit,
        detail=_stabilized("tap"),
        reading=f"{_pairs(d2, d1)} the {height} × {width} taps, x to the right, y upward, the origin in the middle.",
    )


def _volume_sheet(basis: LatticeKernelBasis | SteerableKernelBasis) -> _Sheet:
    depth, height, width = basis.kernel_size
    d2, d1 = basis.out_type.dim, basis.in_type.dim
    block = depth * width
    slices = [f"{z:g}" for z in (k - (depth - 1) / 2 for k in range(depth))]
    columns = _channels("input channel", d1, block)
    if d1 == 1:  # room to name the slices, and nothing else to name
        columns = _Axis(block, "slice z", tuple(((k + 0.5) * width, z) for k, z in enumerate(slices)), ())
    inner = tuple(float(x) for x in range(width, d1 * block, width) if x % block)
    return _Sheet(
        rows=_channels("output channel", d2, height),
        columns=_Axis(columns.length, columns.label, columns.ticks, columns.lines, inner),
        values=lambda kappa: torch.einsum("abzyx->aybzx", basis.filters(kappa)).reshape(d2 * height, d1 * block),
        draw=_draw_cells,
        cells=True,
        heading=f"Equivariant {depth} × {height} × {width} filters of {basis.group.name}",
        where=_tap_orbit,
        detail=_stabilized("tap"),
        reading=f"{_pairs(d2, d1)} the taps in slices z = {', '.join(slices)} from left to right; in a slice x runs to "
        "the right and y downward.",
    )


def _hexagonal_sheet(basis: LatticeKernelBasis) -> _Sheet:
    d2, d1 = basis.out_type.dim, basis.in_type.dim
    centers = basis.coordinates @ basis.space.lattice_basis.T * torch.tensor([1.0, -1.0], dtype=torch.float64)
    angles = torch.arange(6, dtype=torch.float64) * math.pi / 3 + math.pi / 6
    corner = torch.stack([angles.cos(), angles.sin()], -1) / 3**0.5
    hexagons = centers[:, None, :] + corner  # (taps, 6, 2), the cells of the lattice
    low, high = hexagons.amin((0, 1)) - 0.25, hexagons.amax((0, 1)) + 0.25
    width, height = (high - low).tolist()
    corners = torch.tensor([[[i * width, j * height] for i in range(d1)] for j in range(d2)], dtype=torch.float64)
    outlines = (hexagons - low)[None, None] + corners[:, :, None, None, :]

    def draw(axes: Axes, values: Tensor, scale: dict[str, Any]) -> None:
        from matplotlib.collections import PolyCollection

        cells = PolyCollection(list(outlines.reshape(-1, 6, 2).numpy()), edgecolors=_CELL, linewidths=0.3, **scale)
        cells.set_array(values.flatten().numpy())
        axes.add_collection(cells)

    sizes = " × ".join(map(str, basis.kernel_size))
    return _Sheet(
        rows=_channels("output channel", d2, height),
        columns=_channels("input channel", d1, width),
        values=lambda kappa: torch.einsum("xab->abx", kappa),
        draw=draw,
        cells=False,
        heading=f"Equivariant {sizes} hexagonal filters of {basis.group.name}",
        where=_tap_orbit,
        detail=_stabilized("tap"),
        reading=f"{_pairs(d2, d1)} the {len(basis.coordinates)} taps of the {sizes} array whose orbits stay inside it; "
        "a tap (a, b) is a steps to the right and b steps 60° upward.",
    )


def _operator_sheet(basis: KernelBasis) -> _Sheet:
    source, target = basis.in_type.space, basis.out_type.space
    if not isinstance(source, HomogeneousSpace) or not isinstance(target, HomogeneousSpace):
        raise InputError("kernel_figure", expected="finite spaces", got=source.name, fix="Use HomogeneousSpace(G, H).")
    d2, d1 = basis.out_type.dim, basis.in_type.dim
    rows, columns = target.points * d2, source.points * d1

    def values(kappa: Tensor) -> Tensor:
        return torch.einsum("axby->xayb", basis.operator(kappa)).reshape(rows, columns)

    inside = f" Lines separate the points, with {_count(d2, 'output channel')} and {_count(d1, 'input channel')} each."
    return _Sheet(
        rows=_points("output point", target, d2),
        columns=_points("input point", source, d1),
        values=values,
        draw=_draw_cells,
        cells=True,
        heading=f"Equivariant kernels from {source.name} to {target.name}",
        where=lambda coset: f"double coset of {_element(source, coset)}",
        detail=_stabilized("point"),
        reading=f"A panel is the matrix of the map from fields on {source.name} ({basis.in_type.rho.name}) to fields "
        f"on {target.name} ({basis.out_type.rho.name}).{inside if d1 * d2 > 1 else ''}",
    )


def _channels(label: str, count: int, block: float) -> _Axis:
    ticks = tuple(((k + 0.5) * block, str(k)) for k in range(count))
    return _Axis(count * block, label, ticks, tuple(k * block for k in range(1, count)))


def _points(label: str, space: HomogeneousSpace, channels: int) -> _Axis:
    names = [_pretty(space.group.label(int(g))) for g in space.subgroup.coset_representatives]
    if max(map(len, names)) > 4:  # numbers take less room than cycles and pairs
        names = [str(x) for x in range(space.points)]
    ticks = tuple(((x + 0.5) * channels, name) for x, name in enumerate(names))
    lines = tuple(float(x * channels) for x in range(1, space.points)) if channels > 1 else ()
    return _Axis(space.points * channels, f"{label} of {space.name}", ticks, lines)


def _pairs(d2: int, d1: int) -> str:
    return "A panel shows" if d1 == d2 == 1 else "A panel holds, for each pair of an output and an input channel,"


def _tap_orbit(coset: Coset) -> str:
    if isinstance(coset, Shell):
        return f"ring of radius {coset.ring.radius:g}"
    point = coset.representative if isinstance(coset.representative, tuple) else (coset.representative,)
    return f"orbit of ({', '.join(f'{c:g}' for c in point)})"


def _stabilized(place: str) -> Callable[[Coset], str]:
    def detail(coset: Coset) -> str:
        if isinstance(coset, Shell):
            return f"width {coset.ring.sigma:g}, degrees 0 to {coset.ring.band_limit}"
        return f"{_count(coset.points, place)}, stabilizer order {coset.stabilizer_order}"

    return detail


def _element(space: HomogeneousSpace, coset: Coset) -> str:
    g = coset.representative if isinstance(coset, DoubleCoset) else None
    return _pretty(space.group.label(g)) if isinstance(g, int) else str(g)


def _pretty(label: str) -> str:
    return re.sub(r"\^(\d+)", lambda power: power[1].translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")), label)


# -- which kernels ---------------------------------------------------------------------------------------------


def share(sizes: Sequence[int], most: int) -> list[int]:
    """How many of each size to take, at most ``most`` together, one after the other in turn."""
    taken = [0] * len(sizes)
    left = min(most, sum(sizes))
    while left:
        for k, size in enumerate(sizes):
            if left and taken[k] < size:
                taken[k] += 1
                left -= 1
    return taken


def chosen_kernels(basis: Kernels, sheet: _Sheet, shown: Sequence[int]) -> list[list[Tensor]]:
    """The numbers of so many kernels of each double coset, as the sheet draws them."""
    if isinstance(basis, SteerableKernelBasis):
        kernels, starts = basis.on_cosets(), [sum(basis.ring_dims[:o]) for o in range(len(shown))]
        return [[sheet.values(kernels[at + k]) for k in range(n)] for at, n in zip(starts, shown, strict=True)]
    at_representatives = basis.on_double_cosets()
    nothing = tuple(torch.zeros(basis.out_type.dim, basis.in_type.dim, dtype=torch.float64) for _ in shown)
    out: list[list[Tensor]] = []
    for o, count in enumerate(shown):
        alone = [(*nothing[:o], at_representatives[o][k], *nothing[o + 1 :]) for k in range(count)]
        out.append([sheet.values(basis.double_cosets_to_cosets(values)) for values in alone])
    return out


# -- texts -----------------------------------------------------------------------------------------------------


def _title(basis: Kernels, sheet: _Sheet) -> str:
    return f"{sheet.heading}: {basis.in_type.rho.name} → {basis.out_type.rho.name}"


def _subtitle(basis: Kernels) -> str:
    return (
        f"dimension {basis.dim} · Mackey's formula predicts {basis.mackey_dim} · "
        f"{_count(len(basis.double_cosets), 'ring' if isinstance(basis, SteerableKernelBasis) else 'double coset')} · "
        f"residual {basis.residual:.1e}"
    )


def _header(sheet: _Sheet, coset: Coset) -> str:
    return f"{sheet.where(coset)}\n{sheet.detail(coset)}"


def _panel_title(number: int, of: int, room: float) -> str:
    long = f"kernel {number} of {of}"
    return long if text_width(long, _TICK) + 0.1 < room else f"{number} of {of}"


def _caption(basis: Kernels, sheet: _Sheet, shown: Sequence[int]) -> str:
    if not basis.dim:
        return "No kernel but zero commutes with the group: there is nothing to draw."
    parts = [sheet.reading]
    if basis.dim > sum(shown):
        parts.append(f"{sum(shown)} of {basis.dim} kernels are drawn, and {basis.dim - sum(shown)} more are not.")
    empty = [sheet.where(coset) for coset in basis.double_cosets if not coset.dim]
    if empty:
        named = ", ".join(empty[:4]) + (f" and {len(empty) - 4} more" if len(empty) > 4 else "")
        parts.append(f"No kernel lives on: {named}.")
    return " ".join(parts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _lines(text: str) -> int:
    return text.count("\n") + 1


# -- drawing ---------------------------------------------------------------------------------------------------


def _cell_size(sheet: _Sheet, panels: int) -> float:
    """Inches of a cell: large for few panels, and never so large that a cell is a poster."""
    side = 2.8 if panels <= 4 else 2.3 if panels <= 9 else 1.8
    across, down = sheet.columns.length, sheet.rows.length
    # Panels of many numbers get more room, strips of blocks more height than width.
    width = max(side, min(3.0, 0.085 * across))
    height = max(side + 1.8, min(5.0, 0.03 * down))
    return min(0.36 if panels <= 4 else 0.28, width / across, height / down)


def _panel_limit(sheet: _Sheet, kernels: int) -> int:
    """How many panels to draw: fewer where each is large."""
    cell = _cell_size(sheet, min(kernels, MAX_PANELS))
    area = (sheet.columns.length * cell + 0.14) * (sheet.rows.length * cell + HEADER + PANEL_TITLE + _BELOW)
    return min(MAX_PANELS, max(_MIN_PANELS, int(_PAPER / area)))


def _draw_cells(axes: Axes, values: Tensor, scale: dict[str, Any]) -> None:
    rows, columns = values.shape
    axes.imshow(values.numpy(), extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest", **scale)


def _dress(axes: Axes, sheet: _Sheet, cell: float, *, labeled: bool) -> None:
    """Limits, separators and, on the first panel of a row, labels."""
    rows, columns = sheet.rows, sheet.columns
    axes.set_xlim(0, columns.length)
    axes.set_ylim(rows.length, 0)
    if sheet.cells and cell >= 0.05:
        _rule(axes, range(1, round(rows.length)), range(1, round(columns.length)), _CELL, 0.3)
    _rule(axes, (), _visible(columns.faint, cell), _FAINT, 0.6)
    _rule(axes, _visible(rows.lines, cell), _visible(columns.lines, cell), _LINE, 0.8)
    for spine in axes.spines.values():
        spine.set(linewidth=0.7, color=_LINE)
    axes.tick_params(length=0, pad=2, labelsize=_TICK)
    across = _thinned(columns.ticks, cell, lambda label: text_width(label, _TICK) + 0.05)
    down = _thinned(rows.ticks, cell, lambda label: 0.11)
    axes.set_xticks([at for at, _ in across], [label if labeled else "" for _, label in across])
    axes.set_yticks([at for at, _ in down], [label if labeled else "" for _, label in down])
    if labeled:
        axes.set_ylabel(rows.label, fontsize=_TICK, labelpad=3)
        axes.set_xlabel(columns.label, fontsize=_TICK, labelpad=2, loc="left")


def _rule(axes: Axes, rows: Sequence[float], columns: Sequence[float], color: str, width: float) -> None:
    for at in rows:
        axes.axhline(at, color=color, linewidth=width)
    for at in columns:
        axes.axvline(at, color=color, linewidth=width)


def _visible(lines: Sequence[float], cell: float) -> Sequence[float]:
    """The separators, or none where they would stand closer than they are readable."""
    return lines if not lines or lines[0] * cell >= 0.04 else ()


def _thinned(
    ticks: Sequence[tuple[float, str]], cell: float, room: Callable[[str], float]
) -> Sequence[tuple[float, str]]:
    """Every tick, or every n-th where the labels would touch."""
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
