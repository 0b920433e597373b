"""Finite homogeneous spaces G/H, stored as index tables."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from .._checked import checked, require_index
from .._digest import content_digest
from ..errors import InputError, SubgroupError
from ..groups import Element, FiniteGroup, Group, Representation
from ._space import Space


class HomogeneousSpace(Space):
    """The cosets G/H of a finite group. Points are the integers 0..[G:H]-1; point 0 is the coset of the identity.

    The section picks the smallest element of each coset.

    >>> from intertwine.groups import Dihedral
    >>> G = Dihedral(4)
    >>> space = HomogeneousSpace(G, G.subgroup([4]))
    >>> space.points, space.act(1, 0), space.section(1)
    (4, 1, 1)
    """

    @checked
    def __init__(self, group: Group, stabilizer: Group) -> None:
        if not isinstance(group, FiniteGroup):
            raise InputError(
                "HomogeneousSpace",
                expected="a finite group G",
                got=group.name,
                fix="Use Grid2d(H), Grid3d(H) or Sphere() for the continuous spaces.",
            )
        h = group.require_subgroup(stabilizer, caller="HomogeneousSpace")
        self.group, self.stabilizer, self.subgroup = group, h, h
        self.compact_group, self.points = group, h.index
        self.name = f"{group.name}/{h.name}"
        self.digest = content_digest("cosets", h.digest)

    # -- the space, elementwise on integers and on integer tensors ----------------------------------------------

    @checked
    def compose(self, a: Element, b: Element) -> Element:
        return self.group.compose(a, b)

    @checked
    def inverse(self, g: Element) -> Element:
        return self.group.inverse(g)

    @checked
    def project(self, g: Element) -> Element:
        return _like(self.subgroup.coset_of[self.group.require_element(g)], g)

    @checked
    def section(self, x: Element) -> Element:
        return _like(self.subgroup.coset_representatives[self.require_point(x)], x)

    @checked
    def act(self, g: Element, x: Element) -> Element:
        return _like(self.action[self.group.require_element(g), self.require_point(x)], g, x)

    @checked
    def as_stabilizer(self, g: Element) -> Element:
        return self.subgroup.from_parent(g)

    @checked
    def from_stabilizer(self, h: Element) -> Element:
        return self.group.embed(self.subgroup, h)

    @checked
    def from_compact(self, g: Element) -> Element:
        return g

    @property
    def action(self) -> Tensor:
        """``[g, x]``: the point g·x."""
        return self.subgroup.coset_action

    @property
    def cocycle_table(self) -> Tensor:
        """``[g, x]``: h(x, g), as an element of H."""
        return self.subgroup.coset_cocycle

    @cached_property
    def remainder(self) -> Tensor:
        """h(g) = s(gH)⁻¹ g for every element g, as an element of H."""
        g = self.group.elements
        return torch.as_tensor(self.as_stabilizer(self.compose(self.inverse(self.section(self.project(g))), g)))

    def require_point(self, x: Element) -> Element:
        """Return the point or points; raise an error if the space has no points with these numbers."""
        return require_index(x, self.points, caller=self.name, what="points", fix="")

    @checked
    def require_same_group(self, other: HomogeneousSpace, *, caller: str) -> None:
        """Raise an error unless another space has the same group."""
        if self.group != other.group:
            raise SubgroupError(
                caller,
                expected=f"two spaces of one group, {self.group.name} as for {self.name}",
                got=f"{other.name} of {other.group.name}",
                fix="Build both as HomogeneousSpace(G, H1) and HomogeneousSpace(G, H2) with the same G.",
            )

    # -- fields ------------------------------------------------------------------------------------------------

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Element) -> Tensor:
        if not isinstance(g, int):
            raise InputError(
                f"{self.name}.transform", expected="a single element, as an integer", got=str(g), fix="Loop over g."
            )
        if f.shape[-2:] != (rho.dim, self.points):
            raise InputError(
                f"transform of a field on {self.name}",
                expected=f"a tensor (..., {rho.dim} channels, {self.points} points)",
                got=f"shape {tuple(f.shape)}",
                fix="Put the channels before the points.",
            )
        # (π(g)f)(gx) = rho(h(x, g)) f(x), which is the definition with x and g⁻¹x exchanged.
        turned = torch.einsum("xij,...jx->...ix", rho(self.cocycle_table[g]).to(f), f)
        return turned[..., self.action[self.group.inverse(g)].to(f.device)]


def _like(value: Tensor, *arguments: Element) -> Element:
    return int(value) if all(isinstance(a, int) for a in arguments) else value
