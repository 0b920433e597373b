"""Checks on solved bases and on the field types given to a solver."""

from __future__ import annotations

from .._numerics import LAW_TOLERANCE
from ..errors import EmptyKernelSpaceError, NumericalError, TypeMismatchError
from ..spaces import FieldType, Grid


def require_dim(dim: int, predicted: int, *, caller: str) -> None:
    """Raise an error unless a basis has the dimension that Mackey's formula predicts."""
    if dim != predicted:
        raise NumericalError(
            caller,
            expected=f"{predicted} kernels by Mackey's formula",
            got=f"{dim} from the solver",
            fix="The representations are inconsistent or too ill-conditioned to solve in float64.",
        )


def require_residual(residual: float, *, caller: str) -> None:
    """Raise an error unless solved kernels satisfy their constraint."""
    if not residual <= LAW_TOLERANCE:
        raise NumericalError(
            caller,
            expected=f"kernels that satisfy the constraint to {LAW_TOLERANCE:.0e}",
            got=f"a residual of {residual:.2g}",
            fix="A representation is not a homomorphism, or the kernel cache holds bad data: delete it and try again.",
        )


def require_some(dim: int, in_type: FieldType, out_type: FieldType, *, why: str, fix: str) -> None:
    """Raise an error if zero is the only kernel."""
    if dim == 0:
        raise EmptyKernelSpaceError(
            "kernels.solve",
            expected=f"a nonzero equivariant map {in_type} → {out_type}",
            got=f"none: {why}, so the only layer between these types is zero",
            fix=f"{fix} allow_empty=True returns an empty basis instead.",
        )


def common_grid(in_type: FieldType, out_type: FieldType) -> Grid:
    """The grid that both types share; raises an error if there is none."""
    space = in_type.space
    if not isinstance(space, Grid) or out_type.space != space:
        raise TypeMismatchError(
            "kernels.solve",
            expected="two field types on one grid",
            got=f"{in_type} and {out_type}",
            fix="Build both from the same Grid2d or Grid3d.",
        )
    return space
