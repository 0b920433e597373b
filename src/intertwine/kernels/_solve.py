"""``solve``: the equivariant kernels between two field types."""

from __future__ import annotations

from typing import Any, Literal

from .._checked import checked
from .._devices import on_cpu
from ..errors import InputError
from ..spaces import FieldType, Grid, Sphere
from ._basis import KernelBasis
from ._lattice import LatticeKernelBasis
from ._sphere import SphereKernelBasis
from ._steerable import SteerableKernelBasis


@checked
@on_cpu
def solve(
    in_type: FieldType, out_type: FieldType, *, method: Literal["auto", "lattice", "steerable"] = "auto", **options: Any
) -> Any:
    """The equivariant kernels from one field type to another, by the kind of space.

    - Two finite spaces G/H1, G/H2: :class:`KernelBasis`.
    - A grid, with ``kernel_size=k``: :class:`LatticeKernelBasis` where the stabilizer keeps the lattice, else
      :class:`SteerableKernelBasis`; ``method`` chooses one of the two.
    - The sphere, with ``band_limit=L``: :class:`SphereKernelBasis`.

    Option ``allow_empty=True`` accepts a space that holds only zero; the classes list their other options.

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
                "kernels.solve",
                expected="kernel_size for fields on a grid",
                got="none",
                fix="For example kernel_size=5.",
            )
        exact = in_type.space.exact if method == "auto" else method == "lattice"
        return (LatticeKernelBasis if exact else SteerableKernelBasis)(in_type, out_type, **options)
    if isinstance(in_type.space, Sphere) or isinstance(out_type.space, Sphere):
        if "band_limit" not in options:
            raise InputError(
                "kernels.solve",
                expected="band_limit, the largest degree of harmonics, for fields on the sphere",
                got="none",
                fix="For example band_limit=8.",
            )
        return SphereKernelBasis(in_type, out_type, **options)
    return KernelBasis(in_type, out_type, **options)
