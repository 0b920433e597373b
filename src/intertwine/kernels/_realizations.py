"""The same kernels as functions on the group, on cosets and on double cosets, with the dimension of each space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checked import checked
from ._basis import KernelBasis
from ._lattice import LatticeKernelBasis
from ._orbit_kernels import OrbitKernels

_RANK_LIMIT = 2 * 10**7


@checked
@dataclass(frozen=True)
class Realization:
    """A basis of kernels, as functions on some set.

    Attributes:
        on: the name of the set.
        points: the number of points in it.
        numbers: the number of entries of one kernel on it.
        dimension: the dimension of the span of the kernels; None if it is too large to compute.
    """

    on: str
    points: int
    numbers: int
    dimension: int | None


@checked
def realizations(basis: OrbitKernels, *, max_numbers: int = _RANK_LIMIT) -> tuple[Realization, ...]:
    """The basis on the group, on the cosets and on the double cosets.

    The values on the double cosets determine a kernel, so all three have the same dimension.

    Args:
        basis: kernels between fields on finite spaces or on a lattice. Other kinds return an empty tuple.
        max_numbers: dimensions of bases with more entries than this are not computed.

    >>> from intertwine.groups import Dihedral
    >>> from intertwine.kernels import solve
    >>> from intertwine.spaces import Grid2d
    >>> plane = Grid2d(Dihedral(4))
    >>> basis = solve(plane.field("trivial"), plane.field("regular"), kernel_size=3)
    >>> [(each.on, each.points, each.dimension) for each in realizations(basis)]
    [('motions (tap, r)', 72, 9), ('taps', 9, 9), ('orbits of taps', 3, 9)]
    """
    double_cosets = len(basis.double_cosets)
    if isinstance(basis, KernelBasis):
        on_group = basis.on_group
        places = (("G", basis.group.order), ("G/H1", basis.points), ("H2\\G/H1", double_cosets))
    elif isinstance(basis, LatticeKernelBasis):
        on_group = basis.on_group
        motions = basis.points * basis.group.order
        places = (("motions (tap, r)", motions), ("taps", basis.points), ("orbits of taps", double_cosets))
    else:
        return ()
    fiber = basis.in_type.dim * basis.out_type.dim
    written: tuple[Callable[[], Sequence[Tensor]], ...] = (
        lambda: [on_group()],
        lambda: [basis.on_cosets()],
        basis.on_double_cosets,
    )
    return tuple(
        Realization(
            on=place,
            points=points,
            numbers=points * fiber,
            dimension=rank(kernels()) if basis.dim * points * fiber <= max_numbers else None,
        )
        for (place, points), kernels in zip(places, written, strict=True)
    )


def rank(parts: Sequence[Tensor]) -> int:
    """The rank of kernels (as rows), summed over parts that share no point."""
    rows = [part.flatten(1) for part in parts if len(part)]
    # The Gram matrix has one row per kernel, so it stays small even if each kernel has many entries.
    return sum(int(torch.linalg.matrix_rank(part @ part.T, hermitian=True)) for part in rows)
