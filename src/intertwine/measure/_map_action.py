"""A group that acts on batches by user-defined maps, one per element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from .._devices import OnCPU
from ..errors import GroupLawError, InputError
from ..groups import FiniteGroup
from ..spaces import AxisMove

TensorMap: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class MapAction(OnCPU):
    """Maps τ_g of batches ``(n, channels, *sizes)``. The law τ_gh = τ_g τ_h is checked on a random tensor.

    Attributes:
        name: the name of the symmetry, for errors.
        group: the abstract group.
        maps: one map per element, the identity first.
        channels: the number of channels of the test tensor.
        sizes: the sizes of its remaining axes.
    """

    name: str
    group: FiniteGroup
    maps: Sequence[TensorMap]
    channels: int
    sizes: tuple[int, ...]

    moves_nothing = False

    def __post_init__(self) -> None:
        if len(self.maps) != self.group.order:
            raise InputError(
                f"Symmetry {self.name!r}",
                expected=f"{self.group.order} maps, one per element of {self.group.name}",
                got=str(len(self.maps)),
                fix="Give the maps in the order of the elements; element 0 is the identity.",
            )
        self._require_law()

    def _require_law(self) -> None:
        shape = 2, self.channels, *self.sizes
        x = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        try:
            images = [m(x) for m in self.maps]
        except (RuntimeError, IndexError, TypeError, AttributeError) as error:  # raised by a user's map
            raise InputError(
                f"Symmetry {self.name!r}", expected=f"maps of a tensor of shape {shape}", got=str(error)
            ) from error
        if not torch.equal(images[0], x):
            raise GroupLawError(f"Symmetry {self.name!r}", expected="the identity as the first map", got="another map")
        for a in range(self.group.order):
            for b in range(self.group.order):
                product = int(self.group.compose(a, b))
                if not torch.allclose(self.maps[a](images[b]), images[product], atol=1e-9, rtol=0):
                    raise GroupLawError(
                        f"Symmetry {self.name!r}",
                        expected=f"map {a} after map {b} to be map {product}",
                        got="another image",
                        fix="The maps must multiply as the elements of the group do.",
                    )

    @property
    def digest(self) -> str:
        """A digest of the name: functions cannot be compared."""
        return f"maps {self.name} of {self.group.digest}"

    @property
    def rank(self) -> int:
        """The number of axes of a batch."""
        return 2 + len(self.sizes)

    def move(self, g: int, x: Tensor) -> Tensor:
        """τ_g x."""
        return self.maps[g](x)

    def move_scalars(self, g: int, x: Tensor) -> Tensor | None:
        """Move a layer's output as the samples of the input move; None if the map only fits the input."""
        move = self._axis_moves[g]
        if move is not None:
            return move(x)
        try:
            moved = self.maps[g](x)
        except (RuntimeError, IndexError):  # another number of channels
            return None
        return moved if moved.shape == x.shape else None

    def fits(self, x: Tensor) -> bool:
        """Whether a layer's output has the same axes as the input."""
        return x.ndim == self.rank and max(x.shape[2:], default=0) > 1

    @cached_property
    def _axis_moves(self) -> tuple[AxisMove | None, ...]:
        return tuple(self._recognized(tensor_map) for tensor_map in self.maps)

    def _recognized(self, tensor_map: TensorMap) -> AxisMove | None:
        """The exchange and reversal of axes that a map performs, ignoring what it does to channels."""
        d = len(self.sizes)
        if not 1 <= d <= 3:
            return None
        # All channels are equal, so a permutation of the channels does not change the result.
        channel = torch.arange(5.0**d, dtype=torch.float64).reshape(1, 1, *[5] * d)
        probe = channel.expand(1, self.channels, *[5] * d)
        try:
            moved = tensor_map(probe)
        except (RuntimeError, IndexError):  # a map for one size only
            return None
        return next((move for move in AxisMove.every(d) if torch.equal(moved, move(probe))), None)

    def axis_move(self, g: int) -> AxisMove | None:
        """How element g exchanges and reverses axes; None if it does something else."""
        return self._axis_moves[g]

    def is_exact(self, g: int) -> bool:
        """Whether samples are known to only change places."""
        return self._axis_moves[g] is not None

    def channel_order(self, g: int, channels: int) -> tuple[int, ...] | None:
        """The index p with (τ_g x)[:, i] = moved x[:, p[i]]; None if channels are mixed in another way."""
        move, d = self._axis_moves[g], len(self.sizes)
        if move is None:
            return None
        probe = torch.arange(channels * 5.0**d, dtype=torch.float64).reshape(1, channels, *[5] * d)
        try:
            image = self.maps[g](probe)
        except (RuntimeError, IndexError):  # a map for another number of channels
            return None
        moved = move(probe)
        order = tuple(
            next((j for j in range(channels) if torch.equal(image[:, i], moved[:, j])), -1) for i in range(channels)
        )
        return order if sorted(order) == list(range(channels)) else None

    def __repr__(self) -> str:
        return f"{self.group.order} maps"
