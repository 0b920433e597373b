"""The text in a picture of kernels: title, headers, caption."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels import SteerableKernelBasis
from .._numbers import count
from ._kernel_sheet import Coset, Kernels, Sheet


def title(basis: Kernels, sheet: Sheet) -> str:
    """What was solved for, and the two types."""
    return f"{sheet.heading}: {basis.in_type.rho.name} → {basis.out_type.rho.name}"


def subtitle(basis: Kernels) -> str:
    """The dimension, its prediction, and how well the constraint holds."""
    return (
        f"dimension {basis.dim} · Mackey's formula predicts {basis.mackey_dim} · "
        f"{count(len(basis.double_cosets), 'ring' if isinstance(basis, SteerableKernelBasis) else 'double coset')} · "
        f"residual {basis.residual:.1e}"
    )


def header(sheet: Sheet, coset: Coset) -> str:
    """A double coset in two lines."""
    return f"{sheet.where(coset)}\n{sheet.detail(coset)}"


def caption(basis: Kernels, sheet: Sheet, shown: Sequence[int]) -> str:
    """How to read a panel, and what is missing."""
    if not basis.dim:
        return "Only the zero kernel commutes with the group: there is nothing to draw."
    parts = [sheet.reading]
    if basis.dim > sum(shown):
        parts.append(f"{sum(shown)} of {basis.dim} kernels are drawn; {basis.dim - sum(shown)} are left out.")
    empty = [sheet.where(coset) for coset in basis.double_cosets if not coset.dim]
    if empty:
        named = ", ".join(empty[:4]) + (f" and {len(empty) - 4} more" if len(empty) > 4 else "")
        parts.append(f"There is no kernel on: {named}.")
    return " ".join(parts)
