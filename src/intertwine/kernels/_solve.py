"""``solve``: the equivariant kernels between two field types."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from ..spaces import FieldType, Grid
from ._basis import KernelBasis
from ._lattice import LatticeKernelBasis
from ._orbit_kernels import OrbitKernels


def solve(in_type: FieldType, out_type: FieldType, **options: Any) -> OrbitKernels:
    """The equivariant kernels from one field type to another, by the kind of space.

    - Two finite spaces G/H1, G/H2: :class:`KernelBasis`.
    - A grid whose lattice H keeps, with ``kernel_size=k``: :class:`LatticeKernelBasis`.

    Option ``allow_empty=True`` accepts a space that holds only zero.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.spaces import HomogeneousSpace
    >>> G = Cyclic(6); H = G.subgroup([3])
    >>> space = HomogeneousSpace(G, H)
    >>> solve(space.field(H.trivial), space.field(H.regular))
    KernelBasis(dim=3, double cosets=3, residual=0e+00)
    """
    if isinstance(in_type.space, Grid):
        if "kernel_size" not in options:
            raise InputError(
                "kernels.solve", expected="kernel_size for fields on a grid", got="none", fix="For example kernel_size=5."
            )
        return LatticeKernelBasis(in_type, out_type, **options)
    return KernelBasis(in_type, out_type, **options)
