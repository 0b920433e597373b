r"""Topologies: which latent variables share their variance, in time and within capsules.

A topology maps squares u² of shape ``(batch, time, capsules, length)`` to sums over neighborhoods,

V[l, c, i] = Σ_{(d, e) ∈ Ω} u²[l + d, c, i + e],

with positions i taken modulo the capsule's length, and times l as ``padding`` says. Capsules never mix. The sums use
the cheapest exact method; :meth:`Topology.matrix` gives the same map as a dense matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, Protocol

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ._window import Window

Padding = Literal["cyclic", "zero", "replicate"]


class Topology(Protocol):
    """A neighborhood system."""

    def sums(self, squares: Tensor) -> Tensor:
        """V from u², both ``(batch, time, capsules, length)``; see above."""

    def matrix(self, time: int, length: int) -> Tensor:
        """W of one capsule as a float64 matrix ``(time · length, time · length)``. Row (l, i) is a neighborhood."""

    def reach(self, time: int) -> frozenset[int]:
        """The frames that contribute to frame 0."""


@checked
@dataclass(frozen=True)
class OffsetTopology:
    """Neighborhoods of the same form at every position: a set Ω of offsets (d, e) in time and along the capsule.

    Args:
        offsets: Ω.
        padding: what lies before the first and after the last frame: the other end (``cyclic``), nothing (``zero``) or
            copies of the border frame (``replicate``).

    >>> OffsetTopology(((0, 0), (1, 1))).sums(torch.ones(1, 3, 1, 4))[0, 0, 0]
    tensor([2., 2., 2., 2.])
    """

    offsets: tuple[tuple[int, int], ...]
    padding: Padding = "cyclic"

    def __post_init__(self) -> None:
        if not self.offsets or len(set(self.offsets)) != len(self.offsets):
            raise InputError("topology", expected="at least one offset, without repetitions", got=str(self.offsets[:6]))

    @cached_property
    def times(self) -> Window:
        """The smallest window of frames that contains Ω."""
        ds = [d for d, _ in self.offsets]
        return Window(min(0, *ds), max(0, *ds))

    def reach(self, time: int) -> frozenset[int]:
        """The frames that contribute to frame 0."""
        return frozenset(self._frame(d, time) for d, _ in self.offsets if self._frame(d, time) is not None)  # type: ignore[misc]

    def _frame(self, frame: int, time: int) -> int | None:
        if self.padding == "cyclic":
            return frame % time
        if self.padding == "zero":
            return frame if 0 <= frame < time else None
        return min(max(frame, 0), time - 1)

    def check(self, time: int, length: int) -> None:
        """Raise an error if a cyclic window would wrap around and count a frame or a position twice."""
        if self.padding == "cyclic" and self.times.size > time:
            raise InputError(
                "topology",
                expected=f"at least {self.times.size} frames, the size of the topology's window",
                got=f"sequences of {time}",
                fix="Use a shorter window or longer sequences.",
            )
        if len({(d, e % length) for d, e in self.offsets}) < len(self.offsets):
            across = max(e for _, e in self.offsets) - min(e for _, e in self.offsets) + 1
            raise InputError(
                "topology",
                expected="capsules in which no neighbor counts twice",
                got=f"a length of {length} for neighbors over {across} positions",
                fix="Use longer capsules or a narrower neighborhood.",
            )

    def sums(self, squares: Tensor) -> Tensor:
        """V from u², ``(batch, time, capsules, length)``."""
        _, time, _, length = squares.shape
        self.check(time, length)
        if self.padding != "cyclic":
            return self._padded(squares)
        if len(self.offsets) * _ROLL >= time * length <= _DENSE:  # one matrix product is cheaper than many shifts
            flat = squares.transpose(1, 2).flatten(2)  # frames and positions of one capsule on one axis
            matrix = _matrix(self, time, length).to(dtype=squares.dtype, device=squares.device)
            return (flat @ matrix.T).unflatten(2, (time, length)).transpose(1, 2)
        return self.rolled(squares)

    def rolled(self, squares: Tensor) -> Tensor:
        """The sums for cyclic time, with one shift per offset."""
        return _added([squares.roll((-d, -e), (1, 3)) for d, e in self.offsets])

    def _padded(self, squares: Tensor) -> Tensor:
        before, after = -self.times.low, self.times.high
        if self.padding == "zero":
            longer = torch.nn.functional.pad(squares, (0, 0, 0, 0, before, after))
        else:
            first, last = squares[:, :1], squares[:, -1:]
            longer = torch.cat([first.expand(-1, before, -1, -1), squares, last.expand(-1, after, -1, -1)], 1)
        time = squares.shape[1]
        parts = [longer[:, before + d : before + d + time].roll(-e, 3) for d, e in self.offsets]
        return _added(parts)

    def matrix(self, time: int, length: int) -> Tensor:
        """W of one capsule, filled entry by entry."""
        self.check(time, length)
        w = torch.zeros(time, length, time, length, dtype=torch.float64)
        for frame in range(time):
            for d, e in self.offsets:
                other = self._frame(frame + d, time)
                if other is not None:
                    for i in range(length):
                        w[frame, i, other, (i + e) % length] += 1
        return w.reshape(time * length, time * length)


_ROLL = 45
"""One shifted copy costs as much as this many entries in a row of a dense product. Measured on one core at 144 to 1024
entries; below that, the two differ little."""

_DENSE = 2048
"""The maximum of time · length for which a dense matrix is built."""


@lru_cache(64)
def _matrix(topology: OffsetTopology, time: int, length: int) -> Tensor:
    return topology.matrix(time, length)


def _added(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@checked
def shifting_topology(window: int | Window, *, band: int = 0, padding: Padding = "cyclic") -> OffsetTopology:
    """A topology that moves: variable i shares its variance with variable i + 1 in the next frame, and so on.

    Ω = {(d, e): d, e in the window, |d − e| ≤ band}. The neighborhood within a frame has width 2 band + 1. One time
    step corresponds to one position along the capsule.

    Args:
        window: the number of frames, or a :class:`Window`. ``Window.causal(k)`` excludes later frames.
        band: how far neighborhoods extend to each side within a frame.
        padding: what lies beyond the ends of the sequence, see :class:`OffsetTopology`.

    >>> len(shifting_topology(18, band=1).offsets), len(shifting_topology(5).offsets)
    (52, 5)
    """
    inside = window if isinstance(window, Window) else Window.of(window)
    if band < 0:
        raise InputError(
            "shifting_topology", expected="a band of 0 or more", got=str(band), fix="0 is the diagonal alone."
        )
    pairs = tuple((d, e) for d in inside.offsets for e in inside.offsets if abs(d - e) <= band)
    return OffsetTopology(pairs, padding)


@checked
def stationary_topology(
    window: int | Window, width: int | Window = 1, *, padding: Padding = "cyclic"
) -> OffsetTopology:
    """A topology that stays in place ("bubble"): the same positions in all frames of the window.

    Ω = window × width. A window of one frame shares nothing over time.

    Args:
        window: the number of frames, or a :class:`Window`.
        width: the number of neighbors within a frame, or a :class:`Window`.
        padding: what lies beyond the ends of the sequence, see :class:`OffsetTopology`.

    >>> len(stationary_topology(5, 3).offsets)
    15
    """
    times = window if isinstance(window, Window) else Window.of(window)
    across = width if isinstance(width, Window) else Window.of(width)
    return OffsetTopology(tuple((d, e) for d in times.offsets for e in across.offsets), padding)


@checked
@dataclass(frozen=True)
class TorusTopology:
    """Each capsule as a torus. Neighbors lie within a square; nothing is shared over time.

    Args:
        height: the height of the grid; ``height · width`` is the capsule's length.
        width: the width of the grid.
        size: the side of the square of neighbors, odd.

    >>> TorusTopology(18, 18, 5).sums(torch.ones(1, 1, 1, 324))[0, 0, 0, 0]
    tensor(25.)
    """

    height: int
    width: int
    size: int = 5

    def __post_init__(self) -> None:
        if self.size < 1 or self.size > min(self.height, self.width):
            raise InputError(
                "TorusTopology",
                expected=f"a square of neighbors with side 1 to {min(self.height, self.width)}",
                got=str(self.size),
            )

    def reach(self, time: int) -> frozenset[int]:
        """Only frame 0 itself contributes."""
        return frozenset({0})

    def sums(self, squares: Tensor) -> Tensor:
        """V from u², ``(batch, time, capsules, height · width)``. Sums along columns, then along rows."""
        self._require(squares.shape[-1])
        grid = squares.unflatten(-1, (self.height, self.width))
        for axis in (-2, -1):
            grid = _added([grid.roll(-d, axis) for d in Window.of(self.size).offsets])
        return grid.flatten(-2)

    def matrix(self, time: int, length: int) -> Tensor:
        """W of one capsule, entry by entry."""
        self._require(length)
        w = torch.zeros(length, length, dtype=torch.float64)
        for y in range(self.height):
            for x in range(self.width):
                for dy in Window.of(self.size).offsets:
                    for dx in Window.of(self.size).offsets:
                        w[y * self.width + x, (y + dy) % self.height * self.width + (x + dx) % self.width] += 1
        return torch.kron(torch.eye(time, dtype=torch.float64), w)

    def _require(self, length: int) -> None:
        if length != self.height * self.width:
            raise InputError(
                "TorusTopology",
                expected=f"capsules of {self.height} x {self.width} = {self.height * self.width} variables",
                got=str(length),
            )


class AdjacencyTopology(torch.nn.Module):
    """Arbitrary neighborhoods: a matrix W ≥ 0 over the frames and positions of a capsule, fixed or learned.

    Args:
        matrix: ``(time · length, time · length)``, or ``(length, length)`` for no sharing over time.
        length: the length of a capsule.
        learn: learn W, as the softplus of a free matrix, which keeps it positive.

    >>> ring = torch.eye(4) + torch.eye(4).roll(1, 0) + torch.eye(4).roll(-1, 0)
    >>> AdjacencyTopology(ring, length=4).sums(torch.ones(1, 1, 2, 4))[0, 0, 0]
    tensor([3., 3., 3., 3.])
    """

    @checked
    def __init__(self, matrix: Tensor, *, length: int, learn: bool = False) -> None:
        super().__init__()
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] % length:
            raise InputError(
                "AdjacencyTopology",
                expected=f"a square matrix whose size is a multiple of the length {length}",
                got=f"shape {tuple(matrix.shape)}",
                fix="It needs one row and one column per frame and position.",
            )
        if bool((matrix < 0).any()) or bool((matrix.sum(1) <= 0).any()) or not bool(torch.isfinite(matrix).all()):
            raise InputError(
                "AdjacencyTopology",
                expected="finite entries ≥ 0, and at least one neighbor in every row",
                got="negative or infinite entries, or an empty row",
                fix="A variable is usually its own neighbor.",
            )
        self.length, self.learn = length, learn
        start = matrix.to(torch.get_default_dtype())
        if learn:
            # the inverse of softplus; zeros start as small positive values
            self.free = torch.nn.Parameter(torch.log(torch.expm1(start.clamp_min(1e-4))))
        else:
            self.register_buffer("fixed", start)

    def weights(self) -> Tensor:
        """The current W."""
        if self.learn:
            return torch.nn.functional.softplus(self.free)
        fixed: Tensor = self.get_buffer("fixed")
        return fixed

    def reach(self, time: int) -> frozenset[int]:
        """The frames that contribute to frame 0."""
        rows = self.matrix(time, self.length)[: self.length].reshape(self.length, time, self.length)
        return frozenset(int(frame) for frame in (rows > 1e-3).any(2).any(0).nonzero())

    def sums(self, squares: Tensor) -> Tensor:
        """V from u², ``(batch, time, capsules, length)``."""
        time, w = squares.shape[1], self.weights().to(squares.dtype)
        if squares.shape[-1] != self.length or len(w) not in (self.length, time * self.length):
            raise InputError(
                "AdjacencyTopology",
                expected=f"{len(w) // self.length} frames and capsules of {self.length}",
                got=f"{time} frames and capsules of {squares.shape[-1]}",
            )
        if len(w) == self.length:
            return squares @ w.T
        flat = squares.transpose(1, 2).flatten(2)
        return (flat @ w.T).unflatten(2, (time, self.length)).transpose(1, 2)

    def matrix(self, time: int, length: int) -> Tensor:
        """W of one capsule."""
        w = self.weights().detach().double()
        return torch.kron(torch.eye(time, dtype=torch.float64), w) if len(w) == length and time > 1 else w
