"""Neighborhoods along the Cayley graph of a finite group, for the element that moves a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ..groups import FiniteGroup
from ._topology import OffsetTopology


@checked
@dataclass(frozen=True, eq=False)
class CayleyTopology:
    """V[l, c, x] = Σ_{(d, e) ∈ Ω} u²[l + d, c, sᵉ x] for capsules whose positions x are the elements of a group.

    One time step multiplies positions by s: the variable at x shares its variance with the one at s·x in the next
    frame. This is how the regular representation acts, t_{l+1} ≈ rho(s) t_l. For a cyclic group and s = 1, it is the
    roll by one position.

    Each capsule splits into cycles x, s·x, s²·x, … Along a cycle, Ω has the same meaning as in a capsule of a cyclic
    group.

    Args:
        group: any finite group.
        moving: s, one element for all sequences or one per sequence, ``(batch,)``.
        neighbors: Ω, in time and in powers of s, from :func:`shifting_topology` or :func:`stationary_topology`.

    >>> from intertwine.groups import parse_finite
    >>> from intertwine.topographic import shifting_topology
    >>> turn = CayleyTopology(parse_finite("C3 x C5"), 5, shifting_topology(3))
    >>> turn.sums(torch.ones(1, 3, 2, 15))[0, 0, 0, 0]
    tensor(3.)
    """

    group: FiniteGroup
    moving: int | Tensor
    neighbors: OffsetTopology

    def __post_init__(self) -> None:
        self.group.require_element(self.moving)
        if isinstance(self.moving, Tensor) and self.moving.ndim != 1:
            raise InputError(
                "CayleyTopology",
                expected="one element per sequence, (batch,)",
                got=f"shape {tuple(self.moving.shape)}",
            )

    def reach(self, time: int) -> frozenset[int]:
        """The frames that contribute to frame 0."""
        return self.neighbors.reach(time)

    def sums(self, squares: Tensor) -> Tensor:
        """V from u², ``(batch, time, capsules, order of the group)``."""
        self._require(squares.shape[-1])
        if not isinstance(self.moving, Tensor):
            return self._along(squares, self.moving)
        if len(self.moving) != len(squares):
            raise InputError(
                "CayleyTopology",
                expected=f"{len(squares)} elements in moving, one per sequence",
                got=str(len(self.moving)),
            )
        rows = [(self.moving == s).nonzero().flatten() for s in self.moving.unique()]
        parts = [self._along(squares[same], int(self.moving[same[0]])) for same in rows]
        return torch.cat(parts)[torch.cat(rows).argsort()]

    def _along(self, squares: Tensor, s: int) -> Tensor:
        path = _path(self.group, s)
        if path is None:
            return self.neighbors.sums(squares)
        there, back = (index.to(squares.device) for index in (path.there, path.back))
        cycles = squares[..., there].unflatten(-1, path.shape)
        sums = self.neighbors.sums(cycles.flatten(2, 3))
        return sums.reshape(squares.shape)[..., back]

    def matrix(self, time: int, length: int) -> Tensor:
        """W of one capsule, assembled from the matrices of its cycles. Needs a single element for all sequences."""
        self._require(length)
        if isinstance(self.moving, Tensor):
            raise InputError("CayleyTopology.matrix", expected="one element for all sequences", got="one per sequence")
        cycles = self.group.cycles(self.moving)
        k = cycles.shape[1]
        along = self.neighbors.matrix(time, k).reshape(time, k, time, k)
        w = torch.zeros(time, time, length, length, dtype=torch.float64)
        for cycle in cycles:
            w[:, :, cycle[:, None], cycle] = along.transpose(1, 2)
        return w.transpose(1, 2).reshape(time * length, time * length)

    def _require(self, length: int) -> None:
        if length != self.group.order:
            raise InputError(
                "CayleyTopology",
                expected=f"capsules of {self.group.order} variables, one per element of {self.group.name}",
                got=str(length),
            )


@dataclass(frozen=True)
class _Path:
    """Permutations of the positions in a capsule to the order of its cycles, and back."""

    there: Tensor
    back: Tensor
    shape: tuple[int, int]


@lru_cache(256)
def _path(group: FiniteGroup, s: int) -> _Path | None:
    """The path along the cycles of s; None if the positions already are one cycle, i.e. the capsule rolls."""
    cycles = group.cycles(s)
    there = cycles.flatten()
    if len(cycles) == 1 and bool((there.diff() == 1).all()):
        return None
    return _Path(there, there.argsort(), (len(cycles), cycles.shape[1]))
