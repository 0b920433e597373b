"""The irreps of the translations of R^n, which are waves, and the decomposition of a representation into them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..._numerics import projector_range
from ...errors import NumericalError, RepresentationError
from .._representation import Decomposition, Representation
from ..special._checks import require_vectors
from . import _rotation_maps as maps
from ._irreps import trivial
from ._representation import LieRepresentation

if TYPE_CHECKING:
    from ._euclidean import Translations

_SAME = 1e-8
"""The maximum residual of a wave vector."""


def translation_irrep(group: Translations, k: Tensor | Sequence[float]) -> LieRepresentation:
    """The irrep with wave vector k: t acts as the rotation by k·t."""
    k = require_vectors(torch.as_tensor(k, dtype=torch.float64), group.space_dim, caller=f"{group.name}.irrep")
    values = tuple(float(v) + 0.0 for v in k.reshape(-1).tolist())
    if not any(values):
        return trivial(group)
    name = f"irrep({', '.join(map(repr, values))})"
    return LieRepresentation(group, partial(_wave, values), dim=2, degree=0, name=name, is_orthogonal=True)


def _wave(k: tuple[float, ...], g: Tensor) -> Tensor:
    return maps.planar(g[..., :-1, -1] @ g.new_tensor(k))


def decompose_translations(group: Translations, rho: Representation) -> Decomposition:
    """Split an orthogonal representation by the wave vectors that occur in it.

    The generators act by commuting skew-symmetric matrices X_a. On the vectors with wave vector k, each X_a is k_a J
    with J² = -1, and v and Jv span a copy of the wave.
    """
    if not rho.is_orthogonal:
        raise RepresentationError(
            f"{group.name}.decompose",
            expected="an orthogonal representation",
            got=f"{rho.name}, which is not",
            fix="Representations that shear space, such as G.standard, are not sums of irreps.",
        )
    x = group.differential(rho)
    irreps: list[LieRepresentation] = []
    columns: list[Tensor] = []
    for k, projector in _wave_spaces(x, caller=f"{group.name}.decompose"):
        psi = translation_irrep(group, k)
        turn = torch.einsum("a,aij->ij", k, x) / (k @ k) if psi.dim == 2 else None
        while float(projector.trace()) > 0.5:
            v = projector_range(projector)[0]
            copy = v[None] if turn is None else torch.stack([v, turn @ v])
            irreps.append(psi)
            columns += list(copy)
            projector = projector - copy.T @ copy
    return Decomposition(tuple(irreps), torch.stack(columns, dim=1))


def _wave_spaces(x: Tensor, *, caller: str) -> list[tuple[Tensor, Tensor]]:
    """Each wave vector k up to sign, shortest first, with the projector on the real space of its waves."""
    generic = torch.arange(1, len(x) + 1, dtype=torch.float64).sqrt()  # separates different wave vectors
    _, vectors = torch.linalg.eigh(-1j * torch.einsum("a,aij->ij", generic, x))
    moved = -1j * x.to(vectors.dtype) @ vectors
    waves = torch.einsum("ij,aij->ja", vectors.conj(), moved).real
    error = float((moved - vectors * waves.T[:, None]).abs().max())
    if error > _SAME:
        raise NumericalError(
            caller,
            expected="translations that act by commuting rotations",
            got=f"residual {error:.2g}",
            fix="Is it a homomorphism? Wave vectors may also be too close together.",
        )
    # Twelve decimals hide the rounding errors, which gives equal waves equal names.
    spaces: dict[tuple[float, ...], list[Tensor]] = {}
    for wave, v in zip(waves.round(decimals=12) + 0.0, vectors.T, strict=True):
        k = tuple(wave.tolist())
        if k >= tuple(-c for c in k):  # the conjugate of v has the wave vector -k and spans the same real waves
            spaces.setdefault(tuple(c + 0.0 for c in k), []).append(v)
    projectors = []
    for k in sorted(spaces, key=lambda k: (sum(c * c for c in k), k)):
        v = torch.stack(spaces[k], dim=1)
        projectors.append((torch.tensor(k, dtype=torch.float64), (v @ v.mH).real * (2 if any(k) else 1)))
    return projectors
