"""The base class of groups, finite or Lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor

from .._devices import OnCPU

if TYPE_CHECKING:
    from ._representation import Decomposition, Representation

Element = int | Tensor
"""An element, or a batch of elements: integers for a finite group, square matrices for a Lie group."""


class Group(OnCPU, ABC):
    """A group G. Groups are values: two groups are equal if their digests are.

    Attributes:
        name: its usual name.
        digest: a digest of its content, independent of its name.
        is_finite: whether it is finite. Its elements are then numbered 0..n-1.
    """

    name: str
    digest: str
    is_finite: bool = False
    how_to_make = 'Make one with Cyclic(4), Dihedral(4) or SO2(), or by name: intertwine.groups.parse("D4").'

    @property
    @abstractmethod
    def identity(self) -> Element:
        """The identity element."""

    @property
    @abstractmethod
    def elements(self) -> Tensor:
        """All elements, for groups that have finitely many."""

    @abstractmethod
    def compose(self, a: Element, b: Element) -> Element:
        """The product a·b, elementwise over broadcast batches."""

    @abstractmethod
    def inverse(self, g: Element) -> Element:
        """The inverse of g."""

    @property
    @abstractmethod
    def trivial(self) -> Representation:
        """The one-dimensional representation in which every element acts as the identity."""

    @abstractmethod
    def intertwining_number(self, rho1: Representation, rho2: Representation) -> int:
        """The dimension of Hom_G(rho1, rho2), from characters alone."""

    @abstractmethod
    def decompose(self, rho: Representation) -> Decomposition:
        """The irreps in rho and the change of basis that reveals them."""

    @abstractmethod
    def embed(self, subgroup: Group, h: Element) -> Element:
        """Convert the element ``h`` of ``subgroup`` to an element of this group; an error if it is no subgroup."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return self.name
