"""Bases of Hom_S(rho1, rho2), the linear maps X with X rho1(h) = rho2(h) X for all h in a finite set S of elements.

S is a group, given only by the matrices (or permutations) of its elements in the two representations. This way,
stabilizers never have to be built as groups.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._checked import checked, describe
from .._numerics import projector_range, require_memory
from ..errors import InputError, NumericalError


@checked
def intertwiners(rho1: Tensor, rho2: Tensor, *, orthogonal: bool) -> Tensor:
    """Orthonormal basis ``(k, d2, d1)`` of the intertwiners.

    Averaging rho2(h) X rho1(h)⁻¹ over the group projects onto the intertwiners. If both representations are orthogonal,
    so is the projector. Otherwise, its range comes from the singular vectors.

    Args:
        rho1: matrices ``(|S|, d1, d1)``.
        rho2: matrices ``(|S|, d2, d2)``.
        orthogonal: whether all of them are orthogonal.

    >>> swap = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    >>> intertwiners(swap, swap, orthogonal=True).shape
    torch.Size([2, 2, 2])
    """
    square = all(rho.ndim == 3 and rho.shape[1] == rho.shape[2] and rho.is_floating_point() for rho in (rho1, rho2))
    if not square or len(rho1) != len(rho2):
        raise InputError(
            "intertwiners",
            expected="real matrices (|S|, d1, d1) and (|S|, d2, d2)",
            got=f"{describe(rho1)} and {describe(rho2)}",
        )
    d1, d2 = rho1.shape[-1], rho2.shape[-1]
    if len(rho1) == 1:
        return torch.eye(d1 * d2, dtype=rho1.dtype).reshape(-1, d2, d1)
    require_memory(
        2 * (d1 * d2) ** 2,
        caller="intertwiners",
        what=f"a projector on {d2} x {d1} matrices",
        fix="Write the representations as sums of smaller ones (rho.decompose()).",
    )
    inverse = rho1.mT if orthogonal else torch.linalg.inv(rho1)
    projector = torch.einsum("hab,hdc->acbd", rho2, inverse).reshape(d1 * d2, d1 * d2) / len(rho1)
    if orthogonal:
        return projector_range((projector + projector.T) / 2).reshape(-1, d2, d1)
    u, s, _ = torch.linalg.svd(projector)
    return u[:, s > 0.5].T.reshape(-1, d2, d1)  # nonzero singular values of a projector are at least 1


@checked
def permutation_intertwiners(table1: Tensor, table2: Tensor) -> Tensor:
    """Orthonormal basis of the intertwiners of permutation representations: exactly one map per orbit of index pairs.

    Args:
        table1: ``(|S|, d1)``, the indices to which each element maps the basis vectors.
        table2: ``(|S|, d2)``.

    >>> swap = torch.tensor([[0, 1], [1, 0]])
    >>> permutation_intertwiners(swap, swap)[0]
    tensor([[0.7071, 0.0000],
            [0.0000, 0.7071]], dtype=torch.float64)
    """
    integers = all(t.ndim == 2 and not t.is_floating_point() and not t.is_complex() for t in (table1, table2))
    if not integers or len(table1) != len(table2):
        raise InputError(
            "permutation_intertwiners",
            expected="tables of indices (|S|, d1) and (|S|, d2)",
            got=f"{describe(table1)} and {describe(table2)}",
        )
    d1, d2 = table1.shape[1], table2.shape[1]
    pairs = (table2[:, :, None] * d1 + table1[:, None, :]).flatten(1)
    first = pairs.min(0).values  # the smallest pair identifies the orbit
    orbits, orbit = torch.unique(first, return_inverse=True)
    size = torch.bincount(orbit).to(torch.float64)
    require_memory(
        len(orbits) * d1 * d2,
        caller="intertwiners",
        what=f"{len(orbits)} maps of size {d2} x {d1}",
        fix="Write the representations as sums of smaller ones.",
    )
    basis = torch.zeros(len(orbits), d1 * d2, dtype=torch.float64)
    basis[orbit, torch.arange(d1 * d2)] = size[orbit].rsqrt()
    return basis.reshape(-1, d2, d1)


def as_count(value: Tensor | float, *, caller: str) -> int:
    """Round a dimension computed in floating point; raises an error if it is not close to an integer."""
    number = float(value)
    count = round(number)
    if abs(number - count) > 1e-6 or count < 0:
        raise NumericalError(
            caller,
            expected="a whole number",
            got=f"{number!r}",
            fix="The characters are inconsistent: is the representation a homomorphism?",
        )
    return count
