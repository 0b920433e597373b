"""Representations of Lie groups given by a smooth function of the element, and their degrees."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..._checked import checked
from ..._digest import content_digest
from ...errors import RepresentationError
from .._group import Element
from .._representation import DirectSum, Dual, OneField, Representation, Restriction, TensorProduct

if TYPE_CHECKING:
    from ._lie_group import LieGroup

_DIGITS = 1e8
"""Digests round values to 1 / this: far below any real difference, far above rounding errors."""


class LieRepresentation(Representation):
    """A representation rho(g) = function(g) of a Lie group, smooth in the entries of g.

    Args:
        group: the group.
        function: takes elements ``(..., n, n)`` to matrices ``(..., dim, dim)``. Module-level functions, and
            partial applications of them, can be pickled.
        dim: the dimension.
        degree: the maximum degree (frequency) of the irreps in it.
        name: the representation's name. Representations are equal if their names and values agree.
        is_orthogonal: whether all matrices are orthogonal.

    >>> from intertwine.groups import SO2
    >>> backwards = LieRepresentation(SO2(), lambda g: g.mT, dim=2, degree=1, name="backwards", is_orthogonal=True)
    >>> backwards.decompose().irreps
    (SO(2): irrep(1),)
    """

    @checked
    def __init__(
        self,
        group: LieGroup,
        function: Callable[[Tensor], Tensor],
        *,
        dim: int,
        degree: int,
        name: str,
        is_orthogonal: bool,
    ) -> None:
        self.group, self.dim, self.name, self.degree = group, dim, name, degree
        self._lie_group, self._function, self._is_orthogonal = group, function, is_orthogonal

    @checked
    def __call__(self, g: Element) -> Tensor:
        return self._function(self._lie_group.require(g, caller=f"{self.name} of {self.group.name}"))

    @checked
    def character(self, g: Element) -> Tensor:
        return torch.einsum("...ii->...", self(g))

    @cached_property
    def digest(self) -> str:
        # Values at elements that generate a dense subgroup determine a continuous homomorphism. The name distinguishes
        # what rounding does not, such as waves of nearly the same length.
        with torch.device("cpu"), torch.no_grad():
            values = self(self._lie_group.probes)
        return content_digest("lie", self.group.digest, self.name, self.dim, (values * _DIGITS).round() + 0.0)

    @property
    def permutation_table(self) -> Tensor | None:
        return None

    @property
    def is_orthogonal(self) -> bool:
        return self._is_orthogonal

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)


@checked
def degree_of(rho: Representation) -> int:
    """An upper bound for the degrees of the irreps in rho, derived from how rho was built.

    >>> from intertwine.groups import SO3
    >>> degree_of(SO3().irrep(2) @ SO3().irrep(1) + SO3().trivial)
    3
    """
    if isinstance(rho, LieRepresentation):
        return rho.degree
    if isinstance(rho, DirectSum):
        return max(degree_of(atom) for atom in rho.atoms)
    if isinstance(rho, TensorProduct):
        return degree_of(rho.left) + degree_of(rho.right)
    if isinstance(rho, Dual | Restriction | OneField):
        return degree_of(rho.rho)
    degree = getattr(rho, "degree", None)
    if isinstance(degree, int):
        return degree
    raise RepresentationError(
        f"{rho.name} of {rho.group.name}",
        expected="a representation of known degree, built from irreps or with an attribute degree",
        got=type(rho).__name__,
        fix="Set its attribute degree to the maximum degree of its irreps. Integrals are exact up to it.",
    )
