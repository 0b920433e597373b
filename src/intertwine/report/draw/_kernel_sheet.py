"""How to draw each kind of kernel: the contents of a panel, and the text next to it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...errors import InputError, SizeLimitError
from ...kernels import DoubleCoset, KernelBasis, LatticeKernelBasis, OrbitKernels, Shell, SteerableKernelBasis
from ...spaces import Grid2d, HomogeneousSpace
from .._numbers import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kernels = OrbitKernels | SteerableKernelBasis
Coset = DoubleCoset | Shell

CELL = "0.88"
"""The gray of cell edges."""

_MAX_CELLS = 1000


@dataclass(frozen=True)
class Axis:
    """One side of a panel: its length in cells, the ends of blocks and slices, and its labels."""

    length: float
    label: str
    ticks: tuple[tuple[float, str], ...]
    lines: tuple[float, ...]
    faint: tuple[float, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """How to draw one kind of kernel.

    Attributes:
        rows: the left side of a panel.
        columns: its lower side.
        values: maps a kernel ``(points, d2, d1)`` to the numbers that ``draw`` shows.
        draw: draws the numbers on a panel, given the keywords of the color scale.
        cells: whether the panel consists of unit squares with visible edges.
        heading: what was solved for, for the title.
        where: the name of a double coset, for a header.
        detail: the line below it.
        reading: how to read a panel.
    """

    rows: Axis
    columns: Axis
    values: Callable[[Tensor], Tensor]
    draw: Callable[[Axes, Tensor, dict[str, Any]], None]
    cells: bool
    heading: str
    where: Callable[[Coset], str]
    detail: Callable[[Coset], str]
    reading: str


def sheet_for(basis: Kernels) -> Sheet:
    """The sheet for this kind of kernel."""
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
        )
    if max(sheet.rows.length, sheet.columns.length) > _MAX_CELLS:
        raise SizeLimitError(
            "kernel_figure",
            expected=f"panels of at most {_MAX_CELLS} x {_MAX_CELLS} numbers, to stay readable",
            got=f"{sheet.rows.length:.0f} x {sheet.columns.length:.0f}",
            fix="Draw a basis with fewer copies in the field types; it shows the same kernels.",
        )
    return sheet


def _plane_sheet(basis: LatticeKernelBasis | SteerableKernelBasis) -> Sheet:
    height, width = basis.kernel_size
    d2, d1 = basis.out_type.dim, basis.in_type.dim
    return Sheet(
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


def _volume_sheet(basis: LatticeKernelBasis | SteerableKernelBasis) -> Sheet:
    depth, height, width = basis.kernel_size
    d2, d1 = basis.out_type.dim, basis.in_type.dim
    block = depth * width
    slices = [f"{z:g}" for z in (k - (depth - 1) / 2 for k in range(depth))]
    columns = _channels("input channel", d1, block)
    if d1 == 1:  # there is room to label the slices instead
        columns = Axis(block, "slice z", tuple(((k + 0.5) * width, z) for k, z in enumerate(slices)), ())
    inner = tuple(float(x) for x in range(width, d1 * block, width) if x % block)
    return Sheet(
        rows=_channels("output channel", d2, height),
        columns=Axis(columns.length, columns.label, columns.ticks, columns.lines, inner),
        values=lambda kappa: torch.einsum("abzyx->aybzx", basis.filters(kappa)).reshape(d2 * height, d1 * block),
        draw=_draw_cells,
        cells=True,
        heading=f"Equivariant {depth} × {height} × {width} filters of {basis.group.name}",
        where=_tap_orbit,
        detail=_stabilized("tap"),
        reading=f"{_pairs(d2, d1)} the taps in slices z = {', '.join(slices)} from left to right; in a slice x runs to "
        "the right and y downward.",
    )


def _hexagonal_sheet(basis: LatticeKernelBasis) -> Sheet:
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

        cells = PolyCollection(list(outlines.reshape(-1, 6, 2).numpy()), edgecolors=CELL, linewidths=0.3, **scale)
        cells.set_array(values.flatten().numpy())
        axes.add_collection(cells)

    sizes = " × ".join(map(str, basis.kernel_size))
    return Sheet(
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


def _operator_sheet(basis: KernelBasis) -> Sheet:
    source, target = basis.in_type.space, basis.out_type.space
    if not isinstance(source, HomogeneousSpace) or not isinstance(target, HomogeneousSpace):
        raise InputError("kernel_figure", expected="finite spaces", got=source.name, fix="Use HomogeneousSpace(G, H).")
    d2, d1 = basis.out_type.dim, basis.in_type.dim
    rows, columns = target.points * d2, source.points * d1

    def values(kappa: Tensor) -> Tensor:
        return torch.einsum("axby->xayb", basis.operator(kappa)).reshape(rows, columns)

    inside = f" Lines separate the points, with {count(d2, 'output channel')} and {count(d1, 'input channel')} each."
    return Sheet(
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


def _channels(label: str, count: int, block: float) -> Axis:
    ticks = tuple(((k + 0.5) * block, str(k)) for k in range(count))
    return Axis(count * block, label, ticks, tuple(k * block for k in range(1, count)))


def _points(label: str, space: HomogeneousSpace, channels: int) -> Axis:
    names = [_pretty(space.group.label(int(g))) for g in space.subgroup.coset_representatives]
    if max(map(len, names)) > 4:  # numbers are shorter than cycles and pairs
        names = [str(x) for x in range(space.points)]
    ticks = tuple(((x + 0.5) * channels, name) for x, name in enumerate(names))
    lines = tuple(float(x * channels) for x in range(1, space.points)) if channels > 1 else ()
    return Axis(space.points * channels, f"{label} of {space.name}", ticks, lines)


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
        return f"{count(coset.points, place)}, stabilizer order {coset.stabilizer_order}"

    return detail


def _element(space: HomogeneousSpace, coset: Coset) -> str:
    g = coset.representative if isinstance(coset, DoubleCoset) else None
    return _pretty(space.group.label(g)) if isinstance(g, int) else str(g)


def _pretty(label: str) -> str:
    return re.sub(r"\^(\d+)", lambda power: power[1].translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")), label)


def share(sizes: Sequence[int], total: int) -> list[int]:
    """How many items to take from groups of these sizes, at most ``total`` together, taking turns."""
    taken = [0] * len(sizes)
    left = min(total, sum(sizes))
    while left:
        for k, size in enumerate(sizes):
            if left and taken[k] < size:
                taken[k] += 1
                left -= 1
    return taken


def chosen_kernels(basis: Kernels, sheet: Sheet, shown: Sequence[int]) -> list[list[Tensor]]:
    """The numbers of the first ``shown[k]`` kernels of double coset k, as the sheet draws them."""
    if isinstance(basis, SteerableKernelBasis):
        kernels, starts = basis.on_cosets(), [sum(basis.ring_dims[:o]) for o in range(len(shown))]
        return [[sheet.values(kernels[start + k]) for k in range(n)] for start, n in zip(starts, shown, strict=True)]
    at_representatives = basis.on_double_cosets()
    nothing = tuple(torch.zeros(basis.out_type.dim, basis.in_type.dim, dtype=torch.float64) for _ in shown)
    out: list[list[Tensor]] = []
    for o, kernels_shown in enumerate(shown):
        alone = [(*nothing[:o], at_representatives[o][k], *nothing[o + 1 :]) for k in range(kernels_shown)]
        out.append([sheet.values(basis.double_cosets_to_cosets(values)) for values in alone])
    return out


def _draw_cells(axes: Axes, values: Tensor, scale: dict[str, Any]) -> None:
    rows, columns = values.shape
    axes.imshow(values.numpy(), extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest", **scale)
