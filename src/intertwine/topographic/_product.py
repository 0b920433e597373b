"""Capsules with several axes, along each of which variables share their variance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ..groups import Cyclic, direct_product
from ._cayley import CayleyTopology
from ._topology import OffsetTopology


class ProductTopology:
    """Capsules with several axes, each with its own topology: positions (i1, i2, …), length c1 · c2 · …

    Positions are the elements of C_c1 x C_c2 x …, and each axis is a generator. The denominators add up,
    √V = √V1 + √V2 + …, so each axis can roll by itself. If you know which axis moves, a :class:`CayleyTopology` of that
    generator is more specific.

    Args:
        lengths: c1, c2, …
        parts: one topology per axis.

    >>> from intertwine.topographic import shifting_topology
    >>> both = ProductTopology((3, 4), (shifting_topology(3), shifting_topology(3)))
    >>> both.sums(torch.ones(1, 5, 2, 12))[0, 0, 0, 0]
    tensor(12.)
    """

    @checked
    def __init__(self, lengths: Sequence[int], parts: Sequence[OffsetTopology]) -> None:
        if len(lengths) != len(parts) or not parts:
            raise InputError(
                "ProductTopology",
                expected="one topology per axis",
                got=f"{len(parts)} topologies for {len(lengths)} axes",
            )
        self.lengths, self.parts = tuple(lengths), tuple(parts)
        group = direct_product(*map(Cyclic, self.lengths))
        # One step along an axis is as many positions as the later axes have; along an axis of length 1 it is none.
        steps = [math.prod(self.lengths[axis + 1 :]) if n > 1 else 0 for axis, n in enumerate(self.lengths)]
        self._axes = [CayleyTopology(group, s, part) for s, part in zip(steps, parts, strict=True)]

    def reach(self, time: int) -> frozenset[int]:
        """The frames that contribute to frame 0."""
        return frozenset().union(*(part.reach(time) for part in self.parts))

    def sums(self, squares: Tensor) -> Tensor:
        """(√V1 + √V2 + …)², ``(batch, time, capsules, c1 · c2 · …)``."""
        length = squares.shape[-1]
        if length != math.prod(self.lengths):
            raise InputError(
                "ProductTopology",
                expected=f"capsules of {' x '.join(map(str, self.lengths))} variables",
                got=str(length),
            )
        roots = torch.stack([axis.sums(squares).clamp_min(1e-30).sqrt() for axis in self._axes])
        return roots.sum(0).square()

    def matrix(self, time: int, length: int) -> Tensor:
        """Not available: the sums are not linear, because the parts add up under roots."""
        raise NotImplementedError("the sums over several axes are not a linear map; use the matrices of the parts")
