"""Motions that map an array of samples to itself by permuting and reversing its axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import torch
from torch import Tensor

from .._checked import Matrix, Positive, checked, describe
from ..errors import InputError


@checked
@dataclass(frozen=True)
class AxisMove:
    """A signed permutation of the last d axes of a tensor. It is exact: nothing is interpolated.

    Axis i of the result is axis ``order[i]`` of the tensor, reversed if ``flips[i]``. A convolution kernel moves in the
    same way as its input: m(ψ ⋆ x) = (mψ) ⋆ (mx). :meth:`Grid.axis_move` returns the move of a group element.

    >>> turn = AxisMove((1, 0), (True, False))
    >>> turn(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """

    order: tuple[int, ...]
    flips: tuple[bool, ...]

    @staticmethod
    @checked
    def from_matrix(matrix: Matrix) -> AxisMove | None:
        """The move of the sample at index i, relative to the center, to ``matrix`` @ i; None if there is none."""
        size = matrix.abs()
        if size.shape[0] != size.shape[1] or not size.numel():
            return None
        if not (
            bool(((size == 0) | (size == 1)).all()) and bool((size.sum(0) == 1).all() and (size.sum(1) == 1).all())
        ):
            return None
        order = size.argmax(1).tolist()
        return AxisMove(tuple(order), tuple(bool(matrix[i, j] < 0) for i, j in enumerate(order)))

    @staticmethod
    @checked
    def every(dimension: Positive) -> Iterator[AxisMove]:
        """All 2^d d! moves in d dimensions, the identity first."""
        for order in permutations(range(dimension)):
            for flips in product((False, True), repeat=dimension):
                yield AxisMove(order, flips)

    @property
    def dimension(self) -> int:
        """The number of axes it moves."""
        return len(self.order)

    @property
    def swaps(self) -> bool:
        """Whether it permutes axes."""
        return self.order != tuple(range(self.dimension))

    @property
    def inverse(self) -> AxisMove:
        """The move that undoes this one."""
        back = [self.order.index(i) for i in range(self.dimension)]
        return AxisMove(tuple(back), tuple(self.flips[i] for i in back))

    @checked
    def __call__(self, x: Tensor) -> Tensor:
        """The moved tensor. Sizes are permuted with the axes."""
        if x.ndim < self.dimension:
            raise InputError("AxisMove", expected=f"a tensor with {self.dimension} axes or more", got=describe(x))
        flipped = [i - self.dimension for i, flip in enumerate(self.flips) if flip]
        if not self.swaps:
            return torch.flip(x, flipped) if flipped else x
        lead = x.ndim - self.dimension
        # Contiguous, because some networks call .view() on their input.
        return x.permute(*range(lead), *(lead + axis for axis in self.order)).flip(flipped).contiguous()
