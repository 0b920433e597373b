"""Sets of any size: fields on their elements, on pairs of elements, and so on."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from .._checked import checked
from .._digest import content_digest
from ..errors import InputError
from ..groups import Cyclic, Representation
from ._space import Space


class Tuples(Space):
    """The tuples of ``order`` elements of a set, for sets of any size n, under the permutations of the elements.

    A field on it is a tensor ``(..., channels, n, ..., n)`` with ``order`` axes of size n: one value per set for order
    0, per element for order 1, per pair for order 2 (a graph, for example, is its adjacency matrix). A permutation is a
    tensor ``(n,)`` that says where each element goes. The values do not change when elements move, so fields carry
    trivial representations only, and the type says how many channels there are.

    Unlike the other spaces this is not one coset space G/H: pairs (i, i) and pairs (i, j) are never exchanged.

    Args:
        order: the number of elements in a tuple, 0 to 3.

    >>> pairs = Tuples(2).field("trivial")
    >>> graph = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])  # an edge from 0 to 1
    >>> pairs.transform(graph, torch.tensor([2, 0, 1])).nonzero()  # is now one from 2 to 0
    tensor([[0, 2, 0]])
    """

    how_to_make = "Make one with intertwine.spaces.Tuples(order=1)."

    @checked
    def __init__(self, order: int) -> None:
        if not 0 <= order <= 3:
            raise InputError("Tuples", expected="an order of 0 to 3", got=str(order))
        self.order = order
        self.stabilizer = self.compact_group = Cyclic(1)
        self.name = f"Tuples({order})"
        self.digest = content_digest("tuples", order)

    @checked
    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        return a[b]

    @checked
    def inverse(self, g: Tensor) -> Tensor:
        return torch.argsort(g)

    @checked
    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """The tuples ``(..., order)`` after the permutation."""
        return g[x]

    def project(self, g: Any) -> NoReturn:
        self._refuse("project")

    def section(self, x: Any) -> NoReturn:
        self._refuse("section")

    def as_stabilizer(self, g: Any) -> NoReturn:
        self._refuse("as_stabilizer")

    def from_stabilizer(self, h: Any) -> NoReturn:
        self._refuse("from_stabilizer")

    def from_compact(self, g: Any) -> NoReturn:
        self._refuse("from_compact")

    def _refuse(self, method: str) -> NoReturn:
        raise InputError(
            f"{self.name}.{method}",
            expected="a space G/H",
            got="the tuples of a set, which are several orbits of the permutations",
            fix="For sets of one size, use HomogeneousSpace with a symmetric group.",
        )

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Tensor) -> Tensor:
        """(π(g)f)(gx) = f(x): the entry at each tuple goes to where the permutation sends the tuple."""
        sizes = f.shape[f.ndim - self.order :]
        channels = f.shape[f.ndim - self.order - 1] if f.ndim > self.order else None
        if channels != rho.dim or any(n != len(g) for n in sizes):
            raise InputError(
                f"transform of a field on {self.name}",
                expected=f"a tensor (..., {', '.join(map(str, [rho.dim, *[len(g)] * self.order]))})",
                got=f"shape {tuple(f.shape)}",
            )
        back = torch.argsort(g).to(f.device)
        for axis in range(-self.order, 0):
            f = f.index_select(axis, back)
        return f
