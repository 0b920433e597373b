"""Representations of a finite group from the matrices of its generators, or induced from a subgroup."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...errors import RepresentationError
from .._representation import Representation
from . import _tables
from ._matrix_representation import MatrixRepresentation, PermutationRepresentation

if TYPE_CHECKING:
    from ._finite_group import FiniteGroup
    from ._subgroup import Subgroup


def from_generators(group: FiniteGroup, images: Mapping[int, Any], *, name: str) -> Tensor:
    """The matrices of all elements, ``(order, d, d)``, as products of the generators' matrices."""
    gens = {int(g): torch.as_tensor(m, dtype=torch.float64) for g, m in images.items()}
    reached = _tables.closure(group._t, gens)
    if len(reached) < group.order:
        raise RepresentationError(
            f"{group.name}.representation({name})",
            expected=f"matrices for generators of {group.name}, such as {list(group.generators)}",
            got=f"matrices for {list(gens)}, which generate only {len(reached)} of {group.order} elements",
            fix="Add matrices for the missing generators.",
        )
    first = next(iter(gens.values()))
    matrices: dict[int, Tensor] = {0: torch.eye(first.shape[-1], dtype=torch.float64)}
    frontier = [0]
    while frontier:
        a = frontier.pop()
        for g, m in gens.items():
            b = int(group._t[a, g])
            if b not in matrices:
                matrices[b] = matrices[a] @ m
                frontier.append(b)
    return torch.stack([matrices[g] for g in range(group.order)])


def induced(subgroup: Subgroup, rho: Representation) -> Representation:
    """The representation of the parent group induced from ``rho``, a representation of the subgroup."""
    group, name = subgroup.parent, f"{rho.name} induced"
    action, cocycle = subgroup.coset_action, subgroup.coset_cocycle
    perm = rho.permutation_table
    if perm is not None:
        return PermutationRepresentation(group, (action[:, :, None] * rho.dim + perm[cocycle]).flatten(1), name=name)
    n, k = subgroup.index, rho.dim
    out = torch.zeros(group.order, n, k, n, k, dtype=torch.float64)
    x = torch.arange(n)
    for u in range(group.order):
        out[u, action[u], :, x, :] = rho(cocycle[u])
    return InducedRepresentation(subgroup, out.reshape(group.order, n * k, n * k), name=name)


class InducedRepresentation(MatrixRepresentation):
    """A representation induced from a subgroup: one block of channels per coset, which the group exchanges."""

    def __init__(self, subgroup: Subgroup, matrices: Tensor, *, name: str) -> None:
        super().__init__(subgroup.parent, matrices, name=name, validated=True)
        self.subgroup = subgroup

    @cached_property
    def blocks(self) -> Representation:
        return self._finite.quotient(self.subgroup)
