"""Intertwiners for every kind of group, and the symmetric square of a representation."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import torch
from torch import Tensor

from ..._devices import on_cpu
from ...errors import RepresentationError
from ...groups import (
    FiniteGroup,
    LieGroup,
    LieRepresentation,
    MatrixRepresentation,
    Representation,
    degree_of,
    permutation_intertwiners,
)
from ._invariants import invariant_vectors


@lru_cache(maxsize=256)
@on_cpu
def hom_basis(rho1: Representation, rho2: Representation) -> Tensor:
    """A basis ``(k, d2, d1)`` of the maps X with X ρ1(h) = ρ2(h) X; orthonormal where both are orthogonal.

    For permutation representations there is one map per orbit of pairs of channels. Other representations are
    decomposed; by Schur's lemma the maps are those between equal irreducibles.

    >>> from intertwine.groups import SO2, SO3
    >>> SO2_1, SO3_1 = SO2().irrep(1), SO3().irrep(1)
    >>> len(hom_basis(SO2_1, SO2_1)), len(hom_basis(SO3_1 @ SO3_1, SO3_1))
    (2, 1)
    """
    table1, table2 = rho1.permutation_table, rho2.permutation_table
    if table1 is not None and table2 is not None:
        return permutation_intertwiners(table1, table2)
    into, back = rho1.decompose(), rho2.decompose()
    inverse = into.basis.T if rho1.is_orthogonal else torch.linalg.inv(into.basis)
    maps, right = [], 0
    for psi2 in back.irreps:
        top = 0
        for psi1 in into.irreps:
            if psi1 == psi2:
                for e in endomorphisms(psi1):
                    maps.append(back.basis[:, right : right + psi2.dim] @ e @ inverse[top : top + psi1.dim])
            top += psi1.dim
        right += psi2.dim
    return torch.stack(maps) if maps else torch.zeros(0, rho2.dim, rho1.dim, dtype=torch.float64)


@lru_cache(maxsize=256)
@on_cpu
def endomorphisms(psi: Representation) -> Tensor:
    """An orthonormal basis ``(1, 2 or 4; d, d)`` of the maps that commute with an irreducible; the identity first."""
    eye = torch.eye(psi.dim, dtype=torch.float64)
    if psi.endomorphism_dim == 1:
        return eye[None] / sqrt(psi.dim)
    basis = [eye.flatten() / sqrt(psi.dim)]
    for v in invariant_vectors(psi @ psi):
        for _ in range(2):  # twice: one pass of Gram-Schmidt loses digits
            for u in basis:
                v = v - (v @ u) * u
        if len(basis) < psi.endomorphism_dim and float(v.norm()) > 0.1:
            basis.append(v / v.norm())
    return torch.stack(basis).view(-1, psi.dim, psi.dim)


@on_cpu
def square_embedding(dim: int) -> Tensor:
    """The isometry ``(d(d+1)/2, d, d)`` between symmetric tensors and their entries p ≤ q, ordered by p, then q."""
    p, q = torch.triu_indices(dim, dim)
    out = torch.zeros(len(p), dim, dim, dtype=torch.float64)
    rows = torch.arange(len(p))
    out[rows, p, q] = 0.5**0.5
    out[rows, q, p] = 0.5**0.5
    out[rows[p == q], p[p == q], p[p == q]] = 1.0
    return out


@lru_cache(maxsize=256)
@on_cpu
def symmetric_square(rho: Representation) -> Representation:
    """Sym²ρ on the coordinates of :func:`square_embedding`.

    >>> from intertwine.groups import SO3
    >>> symmetric_square(SO3().irrep(1)).decompose().irreps
    (SO(3): trivial, SO(3): irrep(2))
    """
    embedding = square_embedding(rho.dim)

    def squared(m: Tensor) -> Tensor:
        return torch.einsum("apq,...pr,...qs,brs->...ab", embedding, m, m, embedding)

    name = f"Sym² of {rho.name}"
    if isinstance(rho.group, FiniteGroup):
        return MatrixRepresentation(rho.group, squared(rho.matrices), name=name, validated=True)
    if isinstance(rho.group, LieGroup):
        return LieRepresentation(
            rho.group,
            lambda g: squared(rho(g)),
            dim=len(embedding),
            degree=2 * degree_of(rho),
            name=f"{name} {rho.digest}",
            is_orthogonal=rho.is_orthogonal,
        )
    raise RepresentationError("symmetric_square", expected="a finite or a Lie group", got=rho.group.name)
