"""Decomposition of a representation of a finite group into irreducibles, with the change of basis."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._numerics import RANK_TOLERANCE
from ...errors import NumericalError
from .._intertwiners import as_count
from .._representation import Decomposition, Representation


def decompose(rho: Representation, irreps: tuple[Representation, ...]) -> Decomposition:
    """Decompose each distinct summand once and sort the pieces by irreducible."""
    pieces: dict[str, list[tuple[int, Tensor]]] = {}
    columns: list[tuple[int, int, Tensor]] = []
    at = 0
    for atom in rho.atoms:
        if atom.digest not in pieces:
            pieces[atom.digest] = _pieces(atom, irreps)
        columns += [(k, at, copy) for k, copy in pieces[atom.digest]]
        at += atom.dim
    columns.sort(key=lambda column: column[0])
    basis = torch.zeros(rho.dim, rho.dim, dtype=torch.float64)
    right = 0
    for _, top, copy in columns:
        basis[top : top + copy.shape[0], right : right + copy.shape[1]] = copy
        right += copy.shape[1]
    return Decomposition(tuple(irreps[k] for k, _, _ in columns), basis)


def _pieces(atom: Representation, irreps: tuple[Representation, ...]) -> list[tuple[int, Tensor]]:
    """(number of the irreducible, injection ``(dim, d)`` that intertwines it with the representation) for each copy."""
    matrices = atom.matrices
    root = None
    if not atom.is_orthogonal:
        # Averaging an inner product over the group makes the representation orthogonal in new coordinates.
        gram = (matrices.mT @ matrices).mean(0)
        values, vectors = torch.linalg.eigh(gram)
        root = vectors @ values.sqrt().diag() @ vectors.T
        matrices = root @ matrices @ torch.linalg.inv(root)
    pieces: list[tuple[int, Tensor]] = []
    for k, psi in enumerate(irreps):
        copies = as_count(
            atom.group.intertwining_number(psi, atom) / psi.endomorphism_dim, caller=f"copies of {psi.name}"
        )
        pieces += [(k, copy) for copy in _isometries(matrices, psi, copies)]
    if root is not None:
        back = torch.linalg.inv(root)
        pieces = [(k, back @ copy) for k, copy in pieces]
    return pieces


def _isometries(matrices: Tensor, psi: Representation, copies: int) -> list[Tensor]:
    """Orthogonal copies of psi in an orthogonal representation.

    Averaging rho(g) X psi(g)⁻¹ over the group makes any X an intertwiner; TᵀT then commutes with psi and is symmetric,
    hence a multiple of the identity, so that T is an isometry up to scale.
    """
    isometries: list[Tensor] = []
    if not copies:
        return isometries
    first_rows = psi.matrices[:, :, 0]  # psi(g)⁻¹ = psi(g)ᵀ, of which only the first row meets E_i0
    for i in range(matrices.shape[1]):
        t = torch.einsum("ga,gb->ab", matrices[:, :, i], first_rows) / len(matrices)
        for _ in range(2):
            for copy in isometries:
                t = t - copy @ (copy.T @ t)
        size = (t * t).sum() / t.shape[1]
        # A copy that e_i hardly touches would be computed with few digits; a later e_i touches it more.
        if float(size) > RANK_TOLERANCE:
            isometries.append(t / size.sqrt())
        if len(isometries) == copies:
            return isometries
    raise NumericalError(
        "decompose", expected=f"{copies} copies of {psi.name}", got=str(len(isometries)), fix="Is rho a homomorphism?"
    )
