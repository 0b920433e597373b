"""The base class of homogeneous spaces G/H, finite or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._checked import Positive, checked
from .._devices import OnCPU
from ..errors import InputError, RepresentationError
from ..groups import Element, FiniteGroup, Group, LieGroup, Representation, Subgroup, parse_representation

if TYPE_CHECKING:
    from ._field import FieldType


class Space(OnCPU, ABC):
    """A homogeneous space B = G/H with a section.

    The projection is p(g) = gH, the section s satisfies p(s(x)) = x, and the cocycle h(x, g) in H is defined by
    g s(x) = s(gx) h(x, g).

    Attributes:
        name: its name in messages.
        stabilizer: the group H. A field type has a representation of it.
        compact_group: the group of elements that can be drawn at random: G, or H if G has translations.
        digest: a digest of its content; equal spaces have equal digests.
    """

    name: str
    stabilizer: Group
    compact_group: Group
    digest: str
    how_to_make = 'Make one from a group, as in intertwine.spaces.Grid2d("C4").'

    @abstractmethod
    def compose(self, a: Any, b: Any) -> Any:
        """The product a·b in G."""

    @abstractmethod
    def inverse(self, g: Any) -> Any:
        """The inverse in G."""

    @abstractmethod
    def project(self, g: Any) -> Any:
        """The point p(g) = gH."""

    @abstractmethod
    def section(self, x: Any) -> Any:
        """The element s(x) of G that the section picks for the point x."""

    @abstractmethod
    def act(self, g: Any, x: Any) -> Any:
        """The point g·x."""

    @abstractmethod
    def as_stabilizer(self, g: Any) -> Any:
        """Convert an element of G that lies in H to an element of ``stabilizer``."""

    @abstractmethod
    def from_stabilizer(self, h: Any) -> Any:
        """Convert an element of H to an element of G."""

    @abstractmethod
    def from_compact(self, g: Any) -> Any:
        """Convert an element of ``compact_group`` to an element of G."""

    @abstractmethod
    def transform(self, rho: Representation, f: Tensor, g: Any) -> Tensor:
        """The induced representation on a sampled field, see :meth:`FieldType.transform`."""

    @checked
    def sample(self, n: Positive, generator: torch.Generator) -> list[Element]:
        """``n`` random elements of ``compact_group``, uniformly distributed.

        >>> from intertwine.spaces import Point
        >>> drawn = Point("D4").sample(100, torch.Generator().manual_seed(0))
        >>> len(drawn), sorted(set(drawn))
        (100, [0, 1, 2, 3, 4, 5, 6, 7])
        """
        group = self.compact_group
        if isinstance(group, FiniteGroup):
            return torch.randint(group.order, (n,), generator=generator).tolist()
        if isinstance(group, LieGroup):
            return list(group.sample(n, generator))
        raise InputError(f"{self.name}.sample", expected="a finite group or a Lie group", got=group.name)

    def cocycle(self, x: Any, g: Any) -> Any:
        """h(x, g) = s(gx)⁻¹ g s(x), an element of the stabilizer."""
        moved = self.inverse(self.section(self.act(g, x)))
        return self.as_stabilizer(self.compose(moved, self.compose(g, self.section(x))))

    @checked
    def field(self, rho: Representation | str) -> FieldType:
        """The type of fields on this space with values in the representation space of rho.

        Args:
            rho: a representation of the stabilizer, or its name (see
                :func:`~intertwine.groups.parse_representation`).

        >>> from intertwine.spaces import Grid2d
        >>> Grid2d("D4").field("3*trivial + 8*regular").dim
        67
        """
        from ._field import FieldType

        if isinstance(rho, str):
            rho = parse_representation(self.stabilizer, rho)  # type: ignore[arg-type]
        return FieldType(self, self._accepted(rho))

    def _accepted(self, rho: Representation) -> Representation:
        if rho.group == self.stabilizer:
            return rho
        h = self.stabilizer
        if isinstance(h, Subgroup) and h.parent == rho.group and h.order == h.parent.order:
            return rho.restrict(h)
        can_restrict = isinstance(rho.group, FiniteGroup) and isinstance(h, Subgroup) and h.parent == rho.group
        raise RepresentationError(
            f"{self.name}.field",
            expected=f"a representation of the stabilizer {h.name}",
            got=f"{rho.name} of {rho.group.name}",
            fix="Use rho.restrict(H)."
            if can_restrict
            else f"Build it from the group {h.name}, such as H.trivial or H.regular.",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return self.name
