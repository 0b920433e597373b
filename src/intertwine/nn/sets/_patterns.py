"""Equality patterns: all linear maps between fields on tuples that commute with permutations.

A map from tensors of order k to tensors of order l is a tensor of order k + l. It commutes with all permutations if its
entries depend only on which of the k + l indices are equal. So there is one map per partition of the indices into
blocks, whatever the size of the set: 1, 2, 5, 15, 52 or 203 of them for k + l = 1 to 6.

Such a map is a sum and a broadcast. Indices of one block take the diagonal; a block without an index of the output is
averaged over; a block without an index of the input is broadcast. The cost is that of reading the input and writing the
output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import torch
from torch import Tensor

_LETTERS = ascii_lowercase[2:]  # the axes of batch and channels are called a and b


@dataclass(frozen=True)
class Pattern:
    """One partition of the indices: the block of each index of the input, and of each index of the output."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The blocks that input and output share, in the order of the output."""
        return tuple(block for block in dict.fromkeys(self.outputs) if block in self.inputs)

    @property
    def placement(self) -> tuple[tuple[int, bool], ...]:
        """What :meth:`placed` does; patterns with equal placements can be added before it."""
        return tuple((self.outputs.index(block), block in self.inputs) for block in self.outputs)

    @property
    def averaged(self) -> int:
        """How many blocks are averaged over."""
        return len(set(self.inputs) - set(self.outputs))

    def reduced(self, x: Tensor) -> Tensor:
        """The sum over the blocks that the output lacks, ``(batch, channels, *kept)``."""
        letters = "".join(_LETTERS[block] for block in self.inputs)
        kept = "".join(_LETTERS[block] for block in self.kept)
        return torch.einsum(f"ab{letters}->ab{kept}", x)

    def placed(self, y: Tensor, n: int) -> Tensor:
        """``(batch, channels, *kept)`` on the tuples with this pattern, ``(batch, channels, n, ..., n)``."""
        waiting = len(self.kept)
        for axis, block in enumerate(self.outputs):
            first = self.outputs.index(block)
            if first == axis and block in self.inputs:
                waiting -= 1
            elif first == axis:
                y = y.unsqueeze(2 + axis).expand(*[-1] * (2 + axis), n, *[-1] * waiting)
            else:  # equal to an earlier index: on the diagonal only
                shape = [1] * (axis + 1 + waiting)
                shape[first] = shape[axis] = n
                y = y.unsqueeze(2 + axis) * torch.eye(n, dtype=y.dtype, device=y.device).view(shape)
        return y


def patterns(k: int, l: int) -> tuple[Pattern, ...]:
    """All patterns of k indices of the input and l of the output.

    >>> [len(patterns(k, l)) for k, l in ((1, 0), (1, 1), (1, 2), (2, 2), (3, 3))]
    [1, 2, 5, 15, 203]
    """
    return tuple(Pattern(blocks[:k], blocks[k:]) for blocks in _partitions(k + l))


def _partitions(n: int, blocks: Sequence[int] = ()) -> Iterator[tuple[int, ...]]:
    """The block of each index; a new block gets the next number."""
    if len(blocks) == n:
        yield tuple(blocks)
        return
    for block in range(max(blocks, default=-1) + 2):
        yield from _partitions(n, (*blocks, block))
