"""Subgroups of finite groups, with their cosets."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._checked import checked, describe
from ..._digest import content_digest
from ...errors import SubgroupError
from .._group import Element
from . import _tables
from ._finite_group import FiniteGroup


class Subgroup(FiniteGroup):
    """A subgroup H ≤ G. It is itself a group, whose element k is the element ``embedding[k]`` of ``parent``.

    Two subgroups are equal if they consist of the same elements of the same group.

    >>> from intertwine.groups import Cyclic
    >>> Cyclic(6).subgroup([2]).embedding.tolist()
    [0, 2, 4]
    """

    @checked
    def __init__(self, parent: FiniteGroup, members: Any, *, name: str | None = None) -> None:
        try:
            inside = np.unique(np.asarray(members, np.int64))
        except (TypeError, ValueError):
            inside = np.full(1, -1)
        if not len(inside) or inside[0] < 0 or inside[-1] >= parent.order:
            raise SubgroupError(
                "Subgroup", expected=f"elements of {parent.name}, 0 to {parent.order - 1}", got=describe(members)
            )
        index = np.full(parent.order, -1, np.int64)
        index[inside] = np.arange(len(inside))
        standard = parent._standard_matrices
        super().__init__(
            index[parent._t[np.ix_(inside, inside)]],
            name=name or f"subgroup of order {len(inside)} of {parent.name}",
            labels=[parent.label(int(g)) for g in inside],
            standard_matrices=standard[torch.from_numpy(inside)] if standard is not None else None,
            permutations=parent.permutations[torch.from_numpy(inside)] if parent.permutations is not None else None,
            validated=True,
        )
        self.parent = parent
        self.embedding = torch.from_numpy(inside)
        self._index = torch.from_numpy(index)
        self.digest = content_digest("subgroup", parent.digest, self.embedding)

    def from_parent(self, g: Element) -> Element:
        """Convert an element ``g`` of G to an element of H; raises an error if g is not in H."""
        h = self._index[self.parent.require_element(g)]
        if bool((h < 0).any()):
            raise SubgroupError(
                f"{self.name}.from_parent",
                expected=f"elements {self.embedding.tolist()} of {self.parent.name}",
                got=str(g),
            )
        return int(h) if isinstance(g, int) else h

    def contains(self, g: Element) -> Tensor:
        """Whether elements of the parent are in the subgroup."""
        return self._index[self.parent.require_element(g)] >= 0

    @cached_property
    def index(self) -> int:
        """The number of cosets [G:H]."""
        return self.parent.order // self.order

    @cached_property
    def is_normal(self) -> bool:
        """Whether gHg⁻¹ = H for all g."""
        return all(self.conjugate(g) == self for g in self.parent.generators)

    def conjugate(self, g: int) -> Subgroup:
        """The subgroup gHg⁻¹."""
        t = self.parent._t
        moved = t[t[g, self.embedding.numpy()], int(self.parent.inverse(g))]
        return Subgroup(self.parent, moved)

    @cached_property
    def _cosets(self) -> tuple[Tensor, Tensor]:
        reps, projection = _tables.left_cosets(self.parent._t, self.embedding.numpy())
        return torch.from_numpy(reps), torch.from_numpy(projection)

    @property
    def coset_representatives(self) -> Tensor:
        """The section s(x): the smallest element of each coset gH."""
        return self._cosets[0]

    @property
    def coset_of(self) -> Tensor:
        """The projection p(g): the coset of each element of the parent."""
        return self._cosets[1]

    @cached_property
    def coset_action(self) -> Tensor:
        """``[g, x]``: the coset g·x."""
        return self.coset_of[self.parent.table[:, self.coset_representatives]]

    @cached_property
    def coset_cocycle(self) -> Tensor:
        """``[g, x]``: h(x, g) = s(gx)⁻¹ g s(x), as an element of H."""
        t, s = self.parent.table, self.coset_representatives
        return self._index[t[self.parent._inverses[s[self.coset_action]], t[:, s]]]
