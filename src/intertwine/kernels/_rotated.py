"""Free filters, rotated by interpolation: a second basis for groups that do not map the lattice to itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from .._checked import checked
from .._devices import OnCPU
from .._numerics import require_memory
from ..errors import InputError, TypeMismatchError
from ..groups import Element, FiniteGroup, Representation
from ..spaces import FieldType, Grid
from ._checks import common_grid, require_residual, require_some
from ._lattice import filter_sizes

_NODES = {"linear": 2, "cubic": 4}


class RotatedKernelBasis(OnCPU):
    """Filters with free taps for one orientation, rotated to the others by interpolation (Zhou 2017, Bekkers 2018).

    For fields whose channels the group permutes. H permutes the pairs (a, b) of an output and an input channel. The
    first pair of each orbit has free weights w on the taps y. The filter of the pair h(a, b) sees the field at the
    rotated taps, Σ_y w(y) f(x + hy). If elements s fix the first pair, the filter is the mean over all hs.

    It is the field at hy that is interpolated, from samples inside the window, and not the filter: fields are smooth,
    free weights are not. Taps count up to half the kernel size from the center; a rotation moves those in the corners
    out of the window, and seeing them would be an extrapolation.

    The kernels have no band limit: between regular fields of C8, there are 168 of them on 5 x 5 taps, and 88 in a
    :class:`SteerableKernelBasis`. A layer commutes exactly with rotations that map the lattice to itself, and up to the
    error of the interpolation with the others.

    Args:
        in_type: fields on a grid, with a finite group that permutes their channels: trivial, regular, quotient.
        out_type: fields on the same grid.
        kernel_size: k, the same along all axes.
        interpolation: from 2 or 4 samples along each axis.
        radius: the largest distance of a tap from the center, in samples; default k/2.

    >>> from intertwine.spaces import Grid2d
    >>> plane = Grid2d("C8")
    >>> RotatedKernelBasis(plane.field("regular"), plane.field("regular"), 5)
    RotatedKernelBasis(dim=168, orbits=8, residual=0e+00)
    """

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        interpolation: Literal["linear", "cubic"] = "cubic",
        radius: float | None = None,
    ) -> None:
        self.in_type, self.out_type, self.interpolation = in_type, out_type, interpolation
        self.space, self.group = _grid_of_finite(in_type, out_type)
        self.kernel_size = filter_sizes(kernel_size, self.space.dimension)
        if len(set(self.kernel_size)) > 1:
            raise InputError("kernels.solve", expected="a filter of one size along all axes", got=f"{self.kernel_size}")
        self.radius = self.kernel_size[0] / 2 if radius is None else radius
        self._in, self._out = _permutations(in_type.rho), _permutations(out_type.rho)
        taps = torch.Size(self.kernel_size).numel()
        require_memory(
            self.group.order * taps**2 + len(self.orbits) * out_type.dim * in_type.dim * taps**2,
            caller="kernels.solve",
            what=f"{len(self.orbits)} x {taps} kernels of size {out_type.dim} x {in_type.dim} on {taps} taps",
            fix="Use fewer copies in the field types, or a smaller filter.",
        )
        require_some(self.dim, in_type, out_type, why=f"no tap lies within {radius}", fix="Use a larger radius.")
        require_residual(self.residual, caller=f"kernels {in_type} → {out_type}")

    @cached_property
    def orbits(self) -> tuple[tuple[int, int], ...]:
        """The first pair (a, b) of every orbit of pairs of channels."""
        columns = self._in.shape[1]
        images = self._out[:, :, None] * columns + self._in[:, None, :]  # the image of each pair under each element
        return tuple(divmod(int(pair), columns) for pair in torch.unique(images.amin(0)))

    @cached_property
    def coordinates(self) -> Tensor:
        """The positions of the free taps, ``(n, d)``, in lattice coordinates."""
        points = self.space.coordinates(self.kernel_size).reshape(-1, self.space.dimension)
        near = torch.linalg.vector_norm(points @ self.space.lattice_basis.T, dim=1) <= self.radius + 1e-9
        return points[near]

    @cached_property
    def _turned(self) -> Tensor:
        """T[h, y, x]: the share of the sample x in the value of a field at the tap hy."""
        return torch.stack([self._seen(self.coordinates, h) for h in range(self.group.order)])

    def _seen(self, points: Tensor, h: Element) -> Tensor:
        """The weights ``(points, taps)`` that interpolate a field at the points, moved by h."""
        size, dimension = self.kernel_size[0], self.space.dimension
        index = self.space.point_to_index(points @ self.space.matrices(h).mT) + (size - 1) / 2
        nearest = index.round()  # elements that map the lattice to itself should not be off by rounding
        index = torch.where((index - nearest).abs() < 1e-9, nearest, index)
        nodes = min(_NODES[self.interpolation], size)
        weights = _lagrange(index[:, 0], size, nodes)
        for axis in range(1, dimension):
            weights = (weights[:, :, None] * _lagrange(index[:, axis], size, nodes)[:, None]).flatten(1)
        return weights

    @cached_property
    def _free(self) -> list[Tensor]:
        """The free weights of each orbit, ``(n, free taps)``.

        They are single taps, or sums of taps that elements exchange which fix the pair and map the lattice to itself.
        If other elements fix the pair, the mean over them can make some of these dependent; one of each is enough.
        """
        exact = self._lattice_elements
        number = {tuple(point): n for n, point in enumerate(self.coordinates.tolist())}
        moved = [self.coordinates @ self.space.matrices(h).mT + 0.0 for h in exact]  # + 0.0 turns -0.0 into 0.0
        places = {
            h: torch.tensor([number[tuple(x)] for x in points.tolist()]) for h, points in zip(exact, moved, strict=True)
        }
        free = []
        for a, b in self.orbits:
            fixing = [h for h in range(self.group.order) if int(self._out[h, a]) == a and int(self._in[h, b]) == b]
            names = torch.stack([places[h] for h in fixing if h in places]).amin(0)
            each = (names == torch.unique(names)[:, None]).to(torch.float64)
            if len(each) and any(h not in places for h in fixing):
                each = each[_independent(self._orbit(a, b, each).flatten(1))]
            free.append(each)
        return free

    def _orbit(self, a: int, b: int, free: Tensor) -> Tensor:
        """The kernels ``(n, d2, d1, taps)`` with these weights for the pair (a, b)."""
        out = torch.zeros(len(free), self.out_type.dim, self.in_type.dim, self._turned.shape[2], dtype=torch.float64)
        pairs = len(torch.unique(self._out[:, a] * self.in_type.dim + self._in[:, b]))
        for h in range(self.group.order):  # as many elements lead to each pair as fix the first
            out[:, self._out[h, a], self._in[h, b]] += free @ self._turned[h] * (pairs / self.group.order)
        return out

    @property
    def _lattice_elements(self) -> list[int]:
        return [h for h in range(self.group.order) if self.space.preserves_lattice(h)]

    @cached_property
    def dim(self) -> int:
        """The number of kernels: per orbit of pairs, the number of taps that can be chosen freely."""
        return sum(map(len, self._free))

    @cached_property
    def residual(self) -> float:
        """The largest violation of κ(hx) = ρ2(h) κ(x) ρ1(h)⁻¹ under the elements that map the lattice to itself."""
        taps = self.space.coordinates(self.kernel_size).reshape(-1, self.space.dimension)
        worst = 0.0
        for h in self._lattice_elements:
            moved = self._kernels @ self._seen(taps, h)
            there = self._kernels[:, self._out[h]][:, :, self._in[h]]
            worst = max(worst, float((moved - there).abs().max()))
        return worst

    @cached_property
    def _kernels(self) -> Tensor:
        """All kernels, ``(dim, d2, d1, taps)``."""
        return torch.cat([self._orbit(a, b, free) for (a, b), free in zip(self.orbits, self._free, strict=True)])

    @checked
    def filters(self, weights: Tensor | None = None) -> Tensor:
        """The kernels as convolution filters ``(dim, d2, d1, *kernel_size)``, or their sum with these weights.

        >>> from intertwine.spaces import Grid2d
        >>> plane = Grid2d("C8")
        >>> RotatedKernelBasis(plane.field("trivial"), plane.field("regular"), 3).filters().shape
        torch.Size([9, 8, 1, 3, 3])
        """
        if weights is None:
            return self._kernels.unflatten(-1, self.kernel_size)
        if weights.shape != (self.dim,):
            raise InputError(
                "RotatedKernelBasis.filters", expected=f"{self.dim} weights", got=f"shape {tuple(weights.shape)}"
            )
        return torch.tensordot(weights.to(torch.float64), self._kernels, 1).unflatten(-1, self.kernel_size)

    def __repr__(self) -> str:
        return f"RotatedKernelBasis(dim={self.dim}, orbits={len(self.orbits)}, residual={self.residual:.0e})"


def _permutations(rho: Representation) -> Tensor:
    """Where each element sends each channel, ``(|H|, d)``; an error if the group does not permute them."""
    parts = []
    for atom in rho.atoms:
        table = atom.permutation_table
        if table is None and atom.dim == 1 and atom == rho.group.trivial:
            table = torch.zeros(rho.group.order, 1, dtype=torch.int64)  # type: ignore[attr-defined]
        if table is None:
            raise TypeMismatchError(
                "kernels.solve",
                expected="fields whose channels the group permutes (trivial, regular, quotient) for free filters",
                got=atom.name,
                fix="Steerable filters take every representation.",
            )
        parts.append(table)
    starts = torch.tensor([0, *(part.shape[1] for part in parts)]).cumsum(0)
    return torch.cat([part + start for part, start in zip(parts, starts[:-1], strict=True)], 1)


def _independent(rows: Tensor) -> list[int]:
    """The rows that do not depend on those before them. Unlike singular vectors, they are the same on every machine."""
    chosen: list[int] = []
    basis = rows.new_zeros(0, rows.shape[1])
    for number, row in enumerate(rows):
        rest = row
        for _ in range(2):  # twice: one pass of Gram-Schmidt loses digits
            rest = rest - basis.T @ (basis @ rest)
        if float(rest.norm()) > 1e-6 * float(row.norm()):
            chosen.append(number)
            basis = torch.cat([basis, rest[None] / rest.norm()])
    return chosen


def _lagrange(position: Tensor, size: int, nodes: int) -> Tensor:
    """The weights ``(points, size)`` of the polynomial through the nearest ``nodes`` of ``size`` samples."""
    start = (position.floor() - (nodes // 2 - 1)).clamp(0, size - nodes)
    offset = position - start
    weights = torch.zeros(len(position), size, dtype=torch.float64)
    for i in range(nodes):
        factors = [(offset - j) / (i - j) for j in range(nodes) if j != i]
        share = torch.stack(factors).prod(0) if factors else torch.ones_like(offset)
        weights.scatter_(1, (start.long() + i)[:, None], share[:, None])
    return weights


def _grid_of_finite(in_type: FieldType, out_type: FieldType) -> tuple[Grid, FiniteGroup]:
    space = common_grid(in_type, out_type)
    if not isinstance(space.stabilizer, FiniteGroup):
        raise TypeMismatchError(
            "kernels.solve",
            expected="a finite group for free filters, which have one orientation per element",
            got=space.name,
            fix="Use a cyclic or dihedral group such as C8, or steerable filters.",
        )
    return space, space.stabilizer
