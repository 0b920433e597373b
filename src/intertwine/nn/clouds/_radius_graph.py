"""All pairs of points within a radius, in time that grows with the number of points and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import torch
from torch import Tensor

from ..._checked import Matrix, Vector, checked
from ...errors import InputError

_MAX_CELLS = 2**62
"""Cell numbers must fit in 64 bits."""


@checked
def radius_graph(
    positions: Matrix,
    radius: float,
    batch: Vector | None = None,
    box: Tensor | Sequence[float] | None = None,
) -> Tensor:
    """The edges between all points at most ``radius`` apart, without edges from a point to itself.

    Points are sorted into cells as wide as the radius, and each point looks only at its own cell and the neighboring
    ones, so the cost is linear in the number of points at a given density.

    Args:
        positions: ``(points, d)``, d from 1 to 3.
        radius: the largest distance.
        batch: ``(points,)`` whole numbers; only points with the same number are joined.
        box: for points that repeat periodically, the lengths of the box ``(d,)`` or its edges as rows ``(d, d)``. The
            box must be at least twice as wide as the radius, so that each pair has one nearest image.

    Returns:
        ``(2, edges)``, in each column the source and the target, sorted by target and then source.

    >>> radius_graph(torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]), 1.5)
    tensor([[1, 0],
            [0, 1]])
    >>> radius_graph(torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.5, 0.0]]), 1.2, box=[4.0, 4.0])
    tensor([[1, 2, 0, 0],
            [0, 0, 1, 2]])
    """
    cell = _require_geometry(positions, radius, batch, box)
    with torch.no_grad():
        return _pairs(positions.detach(), radius, batch, cell)


def edge_vectors(positions: Tensor, edges: Tensor, box: Tensor | None) -> Tensor:
    """x_source − x_target for each edge; with a box, to the nearest image."""
    vectors = positions[edges[0]] - positions[edges[1]]
    if box is None:
        return vectors
    # Within half of the box, the nearest image is the one whose fractional coordinates round to zero.
    return vectors - (vectors.detach() @ torch.linalg.inv(box)).round() @ box


@checked
def as_box(box: Tensor | Sequence[float], positions: Tensor, radius: float, *, caller: str) -> Tensor:
    """The box as a matrix with its edges as rows, at least twice as wide as the radius in every direction."""
    d = positions.shape[1]
    matrix = torch.as_tensor(box).to(positions)
    matrix = torch.diag(matrix) if matrix.ndim == 1 else matrix
    if torch.compiler.is_compiling() or matrix.device.type == "meta":  # what follows looks at values
        return matrix
    if matrix.shape != (d, d) or not bool(matrix.isfinite().all()) or not float(torch.linalg.det(matrix)):
        raise InputError(caller, expected=f"a box with {d} lengths or {d} independent edges", got=str(box))
    width = float(_widths(matrix).min())
    if width < 2 * radius:
        raise InputError(
            caller,
            expected=f"a box at least twice as wide as the radius, {2 * radius:g}",
            got=f"a width of {width:g}",
            fix="Repeat the points in a larger box, or use a smaller radius.",
        )
    return matrix


def _widths(box: Tensor) -> Tensor:
    """The distances between opposite faces."""
    return 1 / torch.linalg.inv(box).norm(dim=0)


def _require_geometry(
    positions: Tensor, radius: float, batch: Tensor | None, box: Tensor | Sequence[float] | None
) -> Tensor | None:
    caller = "radius_graph"
    if not positions.is_floating_point() or not 1 <= positions.shape[1] <= 3:
        raise InputError(
            caller,
            expected="positions (points, d) as floating point numbers, with d from 1 to 3",
            got=f"{positions.dtype} of shape {tuple(positions.shape)}",
        )
    if not bool(positions.isfinite().all()):
        bad = int((~positions.isfinite().all(1)).nonzero()[0])
        raise InputError(caller, expected="finite positions", got=f"{positions[bad].tolist()} at point {bad}")
    if not 0 < radius < float("inf"):
        raise InputError(caller, expected="a radius above 0", got=str(radius))
    if batch is not None and (batch.shape != positions.shape[:1] or batch.is_floating_point()):
        raise InputError(
            caller,
            expected=f"batch of {len(positions)} whole numbers, one per point",
            got=f"{batch.dtype} of shape {tuple(batch.shape)}",
        )
    return None if box is None else as_box(box, positions, radius, caller=caller)


def _pairs(x: Tensor, radius: float, batch: Tensor | None, box: Tensor | None) -> Tensor:
    if not len(x):
        return torch.zeros(2, 0, dtype=torch.int64, device=x.device)
    cells, counts = _cells(x, radius, box)
    if batch is not None:
        groups = batch.unique(return_inverse=True)[1]
        cells, counts = torch.cat([groups[:, None], cells], 1), [int(groups.max()) + 1, *counts]
    scale = torch.tensor([prod(counts[axis + 1 :]) for axis in range(len(counts))], device=x.device)
    numbers = (cells * scale).sum(1)
    ordered, order = numbers.sort()
    sources, targets = [], []
    point = torch.arange(len(x), device=x.device)
    for step in _steps(counts, batched=batch is not None, periodic=box is not None):
        near = cells + torch.tensor(step, device=x.device)
        extent = torch.tensor(counts, device=x.device)
        if box is not None:
            spatial = torch.arange(len(counts), device=x.device) >= len(counts) - x.shape[1]
            near = torch.where(spatial, near % extent, near)
        inside = ((near >= 0) & (near < extent)).all(1)
        number = (near * scale).sum(1)
        first, last = torch.searchsorted(ordered, number), torch.searchsorted(ordered, number, right=True)
        count = torch.where(inside, last - first, 0)
        target = point.repeat_interleave(count)
        rank = torch.arange(len(target), device=x.device) - (count.cumsum(0) - count)[target]
        source = order[first[target] + rank]
        edges = torch.stack([source, target])
        keep = (source != target) & (edge_vectors(x, edges, box).square().sum(1) <= radius * radius)
        sources.append(source[keep])
        targets.append(target[keep])
    source, target = torch.cat(sources), torch.cat(targets)
    by_target = (target * len(x) + source).argsort()
    return torch.stack([source[by_target], target[by_target]])


def _cells(x: Tensor, radius: float, box: Tensor | None) -> tuple[Tensor, list[int]]:
    """The cell of each point and the number of cells along each axis; no cell is narrower than the radius."""
    if box is not None:
        fraction = x @ torch.linalg.inv(box)
        fraction = fraction - fraction.floor()
        per_axis = (_widths(box) / radius).floor().clamp(1, 2**20).long()
        return torch.minimum((fraction * per_axis).long(), per_axis - 1), per_axis.tolist()
    low, high = x.min(0).values, x.max(0).values
    width = radius
    while True:  # points far apart get wider cells, so that their numbers fit
        counts = [int(n) + 1 for n in ((high - low) / width).floor().tolist()]
        if prod(counts) * len(x) < _MAX_CELLS:
            break
        width *= 2
    return ((x - low) / width).floor().long(), counts


def _steps(counts: Sequence[int], *, batched: bool, periodic: bool) -> list[tuple[int, ...]]:
    """The steps to the neighboring cells. In a periodic row of two cells, left and right are the same cell."""
    ranges: list[Sequence[int]] = []
    for axis, count in enumerate(counts):
        if batched and axis == 0:
            ranges.append((0,))
        elif periodic and count < 3:
            ranges.append(range(count))
        else:
            ranges.append((-1, 0, 1))
    return list(product(*ranges))
