"""Filters on a lattice: kernels of Z^d ⋊ H on k^d taps, where H is finite and maps the lattice to itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._checked import checked
from .._numerics import require_memory
from ..errors import InputError, TypeMismatchError
from ..groups import FiniteGroup
from ..spaces import FieldType, Grid
from ._checks import common_grid
from ._orbit_kernels import OrbitKernels
from ._orbits import OrbitProblem


class LatticeKernelBasis(OrbitKernels):
    """An orthonormal basis of the filters that commute with H, exact on the lattice.

    The double cosets are the orbits of H on the taps: κ(rx) = ρ2(r) κ(x) ρ1(r)⁻¹. Taps whose orbit leaves the array
    (the corners of a hexagonal filter) are zero.

    Args:
        in_type: fields on an exact grid.
        out_type: fields on the same grid.
        kernel_size: k, or one size per axis.
        allow_empty: return an empty basis, instead of raising an error, if zero is the only kernel.

    >>> from intertwine.spaces import Grid2d
    >>> plane = Grid2d("C4")
    >>> LatticeKernelBasis(plane.field("trivial"), plane.field("regular"), 3).dim
    9
    """

    @checked
    def __init__(
        self, in_type: FieldType, out_type: FieldType, kernel_size: int | Sequence[int], *, allow_empty: bool = False
    ) -> None:
        self.space, group = _exact_grid(in_type, out_type)
        self.group = group
        self.kernel_size = filter_sizes(kernel_size, self.space.dimension)
        require_memory(
            group.order * torch.Size(self.kernel_size).numel() * self.space.dimension,
            caller="kernels.solve",
            what=f"{group.order} images of {' x '.join(map(str, self.kernel_size))} taps",
            fix="Use a smaller filter.",
        )
        taps = self.space.coordinates(self.kernel_size).reshape(-1, self.space.dimension)
        number = {tuple(tap): k for k, tap in enumerate(taps.tolist())}
        # Adding 0.0 turns -0.0 into 0.0.
        moved = torch.einsum("hij,xj->hxi", self.space.matrices(group.elements), taps) + 0.0
        image = torch.tensor([[number.get(tuple(tap), -1) for tap in row] for row in moved.tolist()])
        self.taps = torch.nonzero((image >= 0).all(0)).flatten()  # taps whose whole orbit lies inside the array
        renumber = torch.full((len(taps),), -1)
        renumber[self.taps] = torch.arange(len(self.taps))
        self.coordinates = taps[self.taps]
        twist = torch.arange(group.order)[:, None].expand(-1, len(self.taps))
        problem = OrbitProblem(renumber[image[:, self.taps]], twist, group.generators)
        super().__init__(in_type, out_type, problem, allow_empty=allow_empty)

    def _representative(self, point: int) -> int | tuple[float, ...]:
        return tuple(self.coordinates[point].tolist())

    def on_group(self) -> Tensor:
        """The basis on the motions (x, r) for taps x, κ(x, r) = κ_C(x) ρ1(r): ``(dim, taps, |H|, d2, d1)``."""
        self._require_room(self.dim * self.points * self.group.order, "on_group")
        return torch.einsum("kxab,rbc->kxrac", self.on_cosets(), self.in_type.rho.matrices)

    @checked
    def filters(self, kappa: Tensor | None = None) -> Tensor:
        """Kernels, by default all basis kernels, as convolution filters ``(..., d2, d1, *kernel_size)``."""
        kappa = self.on_cosets() if kappa is None else kappa
        self._require_kernel(kappa)
        full = kappa.new_zeros(*kappa.shape[:-3], *kappa.shape[-2:], torch.Size(self.kernel_size).numel())
        full[..., self.taps] = torch.einsum("...xab->...abx", kappa)
        return full.unflatten(-1, self.kernel_size)


def _exact_grid(in_type: FieldType, out_type: FieldType) -> tuple[Grid, FiniteGroup]:
    space = common_grid(in_type, out_type)
    if not space.exact or not isinstance(space.stabilizer, FiniteGroup):
        raise TypeMismatchError(
            "kernels.solve",
            expected="a group that maps the lattice to itself (C1, C2, C4, D1, D2, D4; octahedral and its subgroups)",
            got=f"{space.name}",
            fix="For other groups, use method='steerable', which gives band-limited kernels.",
        )
    return space, space.stabilizer


def filter_sizes(kernel_size: int | Sequence[int], dimension: int) -> tuple[int, ...]:
    """One size per axis."""
    sizes = (kernel_size,) * dimension if isinstance(kernel_size, int) else tuple(int(k) for k in kernel_size)
    if len(sizes) != dimension or min(sizes) < 1:
        raise InputError(
            "kernels.solve",
            expected=f"a positive kernel size, or {dimension} of them",
            got=repr(kernel_size),
            fix="For example kernel_size=5.",
        )
    return sizes
