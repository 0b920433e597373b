"""What every solved basis must satisfy, and what every solver asks of its types."""

from __future__ import annotations

from .._numerics import LAW_TOLERANCE
from ..errors import EmptyKernelSpaceError, NumericalError, TypeMismatchError
from ..spaces import FieldType, Grid


def require_dim(found: int, predicted: int, *, caller: str) -> None:
    """The dimension found must be the one that Mackey's formula predicts."""
    if found != predicted:
        raise NumericalError(
            caller,
            expected=f"{predicted} kernels by Mackey's formula",
            got=f"{found} from the solver",
            fix="The representations are inconsistent or too ill-conditioned to solve in float64.",
        )


def require_residual(residual: float, *, caller: str) -> None:
    """The solved kernels must satisfy their own constraint."""
    if not residual <= LAW_TOLERANCE:
        raise NumericalError(
            caller,
            expected=f"kernels that satisfy the constraint to {LAW_TOLERANCE:.0e}",
            got=f"a residual of {residual:.2g}",
            fix="A representation is no homomorphism, or the kernel cache holds foreign data: empty it, try again.",
        )


def require_some(dim: int, in_type: FieldType, out_type: FieldType, *, why: str, fix: str) -> None:
    """There must be a kernel other than zero."""
    if dim == 0:
        raise EmptyKernelSpaceError(
            "kernels.solve",
            expected=f"an equivariant map {in_type} → {out_type} other than zero",
            got=f"none: {why}, so a layer of these types could only be zero",
            fix=f"{fix} allow_empty=True accepts the empty basis.",
        )


def common_grid(in_type: FieldType, out_type: FieldType) -> Grid:
    """The grid of both types, or an error if they do not share one."""
    space = in_type.space
    if not isinstance(space, Grid) or out_type.space != space:
        raise TypeMismatchError(
            "kernels.solve",
            expected="two field types on one grid",
            got=f"{in_type} and {out_type}",
            fix="Build both from the same Grid2d or Grid3d.",
        )
    return space
