"""Representations of finite groups given by matrices, or by permutations of a basis."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..._checked import checked, describe
from ..._digest import content_digest
from ..._numerics import LAW_TOLERANCE
from ...errors import RepresentationError
from .._group import Element
from .._representation import Representation

if TYPE_CHECKING:
    from ._finite_group import FiniteGroup


class MatrixRepresentation(Representation):
    """A representation given by one matrix per element.

    Args:
        group: a finite group.
        matrices: ``(order, dim, dim)``.
        name: the representation's name.
        validated: skip the check that this is a homomorphism, for matrices that are one by construction.

    >>> from intertwine.groups import Cyclic
    >>> MatrixRepresentation(Cyclic(2), torch.tensor([[[1.0]], [[-1.0]]]), name="sign")
    C2: sign
    """

    @checked
    def __init__(self, group: FiniteGroup, matrices: Tensor, *, name: str, validated: bool = False) -> None:
        if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.is_complex():
            raise RepresentationError(
                name, expected=f"real matrices ({group.order}, d, d) for {group.name}", got=describe(matrices)
            )
        self.group, self._finite, self.name = group, group, name
        self._matrices = matrices.to(torch.float64)
        self.dim = int(matrices.shape[-1])
        if not validated:
            _require_homomorphism(group, self._matrices, name)

    @checked
    def __call__(self, g: Element) -> Tensor:
        return self._matrices[self._finite.require_element(g)]

    @checked
    def character(self, g: Element) -> Tensor:
        return torch.einsum("...ii->...", self(g))

    @cached_property
    def digest(self) -> str:
        return content_digest("matrices", self.group.digest, self._matrices)

    @cached_property
    def permutation_table(self) -> Tensor | None:
        m = self._matrices
        rounded = m.round()
        if not bool(((m - rounded).abs() < 1e-12).all()) or not bool((rounded >= 0).all()):
            return None
        if not bool((rounded.sum(1) == 1).all()) or not bool((rounded.sum(2) == 1).all()):
            return None
        return rounded.argmax(dim=1)

    @cached_property
    def is_orthogonal(self) -> bool:
        m = self._matrices
        return bool((m @ m.mT - torch.eye(self.dim, dtype=m.dtype)).abs().max() < LAW_TOLERANCE)

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)


class PermutationRepresentation(Representation):
    """A representation that permutes the basis: g maps basis vector i to basis vector ``table[g, i]``.

    >>> from intertwine.groups import Cyclic
    >>> PermutationRepresentation(Cyclic(2), torch.tensor([[0, 1], [1, 0]]), name="swap")(1)
    tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64)
    """

    @checked
    def __init__(self, group: FiniteGroup, table: Tensor, *, name: str) -> None:
        if table.ndim != 2 or len(table) != group.order:
            raise RepresentationError(
                name, expected=f"a table ({group.order}, d) of indices for {group.name}", got=describe(table)
            )
        self.group, self._finite, self.name = group, group, name
        self._table = table.to(torch.int64)
        self.dim = int(table.shape[1])

    @checked
    def __call__(self, g: Element) -> Tensor:
        images = self._table[self._finite.require_element(g)]
        out = torch.zeros(*images.shape, self.dim, dtype=torch.float64)
        return out.scatter_(-2, images[..., None, :], 1.0)

    @checked
    def character(self, g: Element) -> Tensor:
        fixed = self._table[self._finite.require_element(g)] == torch.arange(self.dim)
        return fixed.sum(-1).to(torch.float64)

    @cached_property
    def digest(self) -> str:
        return content_digest("permutation", self.group.digest, self._table)

    @property
    def permutation_table(self) -> Tensor | None:
        return self._table

    @property
    def is_orthogonal(self) -> bool:
        return True

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)


def _require_homomorphism(group: FiniteGroup, matrices: Tensor, name: str) -> None:
    caller = f"representation {name!r} of {group.name}"
    if matrices.ndim != 3 or matrices.shape[0] != group.order or matrices.shape[1] != matrices.shape[2]:
        raise RepresentationError(
            caller,
            expected=f"matrices of shape ({group.order}, d, d), one per element",
            got=f"shape {tuple(matrices.shape)}",
            fix="G.representation also takes a mapping from generators to matrices.",
        )
    if not bool(torch.isfinite(matrices).all()):
        raise RepresentationError(caller, expected="finite entries", got="NaN or infinity")
    scale = max(1.0, float(matrices.abs().max()) ** 2)
    eye_error = float((matrices[0] - torch.eye(matrices.shape[1], dtype=matrices.dtype)).abs().max())
    if eye_error > LAW_TOLERANCE:
        raise RepresentationError(
            caller,
            expected="the identity matrix for element 0",
            got=f"a matrix {eye_error:.2g} away from it",
            fix="Element 0 is the identity of the group.",
        )
    # rho(s g) = rho(s) rho(g) for generators s and all g implies the law for all pairs.
    for s in group.generators:
        error = (matrices[group.table[s]] - matrices[s] @ matrices).abs().amax((1, 2)) / scale
        worst = int(error.argmax())
        if float(error[worst]) > LAW_TOLERANCE:
            raise RepresentationError(
                caller,
                expected=f"a homomorphism: rho({s}·{worst}) = rho({s}) rho({worst})",
                got=f"a difference of {float(error[worst]):.2g}, more than {LAW_TOLERANCE:.0e}",
                fix="Check the matrices of these two elements and of their product.",
            )
