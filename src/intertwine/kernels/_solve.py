"""``solve``: the equivariant kernels between two field types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from .._checked import checked
from .._devices import on_cpu
from ..errors import InputError
from ..spaces import FieldType, Grid, Sphere
from ._basis import KernelBasis, finite_spaces
from ._lattice import LatticeKernelBasis
from ._rotated import RotatedKernelBasis
from ._sphere import SphereKernelBasis
from ._steerable import BandLimit, SteerableKernelBasis


@overload
def solve(in_type: FieldType, out_type: FieldType, *, allow_empty: bool = ...) -> KernelBasis: ...


@overload
def solve(
    in_type: FieldType, out_type: FieldType, *, band_limit: int, allow_empty: bool = ...
) -> SphereKernelBasis: ...


@overload
def solve(
    in_type: FieldType,
    out_type: FieldType,
    *,
    kernel_size: int | Sequence[int],
    method: Literal["lattice"],
    allow_empty: bool = ...,
) -> LatticeKernelBasis: ...


@overload
def solve(
    in_type: FieldType,
    out_type: FieldType,
    *,
    kernel_size: int | Sequence[int],
    method: Literal["steerable"],
    rings: Sequence[float] | None = ...,
    sigma: float | None = ...,
    band_limit: BandLimit = ...,
    allow_empty: bool = ...,
) -> SteerableKernelBasis: ...


@overload
def solve(
    in_type: FieldType,
    out_type: FieldType,
    *,
    kernel_size: int | Sequence[int],
    method: Literal["auto"] = ...,
    rings: Sequence[float] | None = ...,
    sigma: float | None = ...,
    band_limit: BandLimit = ...,
    allow_empty: bool = ...,
) -> LatticeKernelBasis | SteerableKernelBasis: ...


@overload
def solve(
    in_type: FieldType,
    out_type: FieldType,
    *,
    kernel_size: int | Sequence[int],
    method: Literal["free"],
    allow_empty: bool = ...,
) -> RotatedKernelBasis: ...


@checked
@on_cpu
def solve(
    in_type: FieldType,
    out_type: FieldType,
    *,
    kernel_size: int | Sequence[int] | None = None,
    method: Literal["auto", "lattice", "steerable", "free"] = "auto",
    rings: Sequence[float] | None = None,
    sigma: float | None = None,
    band_limit: BandLimit = None,
    allow_empty: bool = False,
) -> KernelBasis | LatticeKernelBasis | SteerableKernelBasis | RotatedKernelBasis | SphereKernelBasis:
    """The equivariant kernels from one field type to another. The space decides the kind of basis:

    - two finite spaces G/H1 and G/H2: :class:`KernelBasis`;
    - a grid, with ``kernel_size=k``: :class:`LatticeKernelBasis` if the stabilizer maps the lattice to itself, else
      :class:`SteerableKernelBasis`; with ``method="free"``, :class:`RotatedKernelBasis`;
    - the sphere, with ``band_limit=L``: :class:`SphereKernelBasis`.

    Args:
        in_type: the type of the input fields.
        out_type: the type of the output fields.
        kernel_size: on a grid, the size of the filter, or one size per axis.
        method: on a grid, which kind of basis to use; ``auto`` follows the rule above.
        rings: see :class:`SteerableKernelBasis`.
        sigma: see :class:`SteerableKernelBasis`.
        band_limit: the maximum degree of the harmonics, on the sphere or in a :class:`SteerableKernelBasis`.
        allow_empty: return an empty basis, instead of raising an error, if zero is the only kernel.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.spaces import HomogeneousSpace
    >>> G = Cyclic(6); H = G.subgroup([3])
    >>> space = HomogeneousSpace(G, H)
    >>> solve(space.field(H.trivial), space.field(H.regular))
    KernelBasis(dim=3, double cosets=3, residual=0e+00)
    """
    if isinstance(in_type.space, Grid):
        if kernel_size is None:
            raise _missing("kernel_size for fields on a grid", "kernel_size=5")
        if method == "steerable" or (method == "auto" and not in_type.space.exact):
            return SteerableKernelBasis(
                in_type, out_type, kernel_size, rings=rings, sigma=sigma, band_limit=band_limit, allow_empty=allow_empty
            )
        if method == "free":
            _refuse("free filters", rings=rings, sigma=sigma, band_limit=band_limit)
            return RotatedKernelBasis(in_type, out_type, kernel_size)
        _refuse("filters on a lattice", rings=rings, sigma=sigma, band_limit=band_limit)
        return LatticeKernelBasis(in_type, out_type, kernel_size, allow_empty=allow_empty)
    if isinstance(in_type.space, Sphere) or isinstance(out_type.space, Sphere):
        if band_limit is None:
            raise _missing("band_limit, the maximum degree of the harmonics, for fields on the sphere", "band_limit=8")
        _refuse("fields on the sphere", kernel_size=kernel_size, rings=rings, sigma=sigma)
        # SphereKernelBasis itself refuses a function of the radius.
        return SphereKernelBasis(in_type, out_type, band_limit, allow_empty=allow_empty)  # type: ignore[arg-type]
    finite_spaces(in_type, out_type)  # raises if the spaces don't fit; report that before any wrong option
    _refuse("fields on finite spaces", kernel_size=kernel_size, rings=rings, sigma=sigma, band_limit=band_limit)
    return KernelBasis(in_type, out_type, allow_empty=allow_empty)


def _missing(expected: str, example: str) -> InputError:
    return InputError("kernels.solve", expected=expected, got="none", fix=f"For example {example}.")


def _refuse(kind: str, **options: object) -> None:
    """Raise an error for an option that has no meaning for this kind of kernel."""
    for name, value in options.items():
        if value is not None:
            raise InputError("kernels.solve", expected=f"no {name} for {kind}", got=f"{name}={value!r}")
