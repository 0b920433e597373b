"""Decomposition of a representation of a finite group into irreps, with a change of basis."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._numerics import RANK_TOLERANCE
from ...errors import NumericalError
from .._intertwiners import as_count
from .._representation import Decomposition, Representation


def decompose(rho: Representation, irreps: tuple[Representation, ...]) -> Decomposition:
    """Decompose each distinct summand once, and sort the copies by irrep."""
    copies: dict[str, list[tuple[int, Tensor]]] = {}
    columns: list[tuple[int, int, Tensor]] = []
    start = 0
    for atom in rho.atoms:
        if atom.digest not in copies:
            copies[atom.digest] = _copies(atom, irreps)
        columns += [(k, start, copy) for k, copy in copies[atom.digest]]
        start += atom.dim
    columns.sort(key=lambda column: column[0])
    basis = torch.zeros(rho.dim, rho.dim, dtype=torch.float64)
    right = 0
    for _, top, copy in columns:
        basis[top : top + copy.shape[0], right : right + copy.shape[1]] = copy
        right += copy.shape[1]
    return Decomposition(tuple(irreps[k] for k, _, _ in columns), basis)


def _copies(atom: Representation, irreps: tuple[Representation, ...]) -> list[tuple[int, Tensor]]:
    """For each copy of an irrep: the index of the irrep, and an injective intertwiner ``(dim, d)`` from it."""
    matrices = atom.matrices
    root = None
    if not atom.is_orthogonal:
        # The average of an inner product over the group is invariant. In its coordinates the representation is
        # orthogonal.
        gram = (matrices.mT @ matrices).mean(0)
        values, vectors = torch.linalg.eigh(gram)
        root = vectors @ values.sqrt().diag() @ vectors.T
        matrices = root @ matrices @ torch.linalg.inv(root)
    copies: list[tuple[int, Tensor]] = []
    for k, psi in enumerate(irreps):
        count = as_count(
            atom.group.intertwining_number(psi, atom) / psi.endomorphism_dim, caller=f"copies of {psi.name}"
        )
        copies += [(k, copy) for copy in _isometries(matrices, psi, count)]
    if root is not None:
        back = torch.linalg.inv(root)
        copies = [(k, back @ copy) for k, copy in copies]
    return copies


def _isometries(matrices: Tensor, psi: Representation, count: int) -> list[Tensor]:
    """Orthogonal copies of psi in an orthogonal representation.

    Averaging rho(g) X psi(g)⁻¹ over the group turns any X into an intertwiner T. TᵀT commutes with psi and is
    symmetric, so it is a multiple of the identity, and T is an isometry up to scale.
    """
    isometries: list[Tensor] = []
    if not count:
        return isometries
    first_rows = psi.matrices[:, :, 0]  # for X = E_i0, only the first row of psi(g)⁻¹ = psi(g)ᵀ contributes
    for i in range(matrices.shape[1]):
        t = torch.einsum("ga,gb->ab", matrices[:, :, i], first_rows) / len(matrices)
        for _ in range(2):
            for copy in isometries:
                t = t - copy @ (copy.T @ t)
        size = (t * t).sum() / t.shape[1]
        # If e_i is almost orthogonal to a copy, the copy would be inaccurate. A later e_i gives it to better precision.
        if float(size) > RANK_TOLERANCE:
            isometries.append(t / size.sqrt())
        if len(isometries) == count:
            return isometries
    raise NumericalError(
        "decompose", expected=f"{count} copies of {psi.name}", got=str(len(isometries)), fix="Is rho a homomorphism?"
    )
