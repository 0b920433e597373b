"""Trials of layers on sets and graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from ..nn import Layer
from ..spaces import Tuples
from ._trial import Move, Trial, moving

_ROWS, _SIZE, _ELEMENTS = 2, 5, 12


def tuples_trial(layer: Layer, space: Tuples, noise: torch.Generator) -> Trial:
    """Random permutations of the elements of a set."""

    def move(g: Tensor) -> Move:
        return Move(
            f"the permutation {g.tolist()}",
            "permutations",
            lambda f: layer.in_type.transform(f, g),
            lambda f: layer.out_type.transform(f, g),
            on_companions=moving(layer, g),
        )

    sizes = (_SIZE,) * space.order
    f = torch.randn(_ROWS, layer.in_type.dim, *sizes, dtype=torch.float64, generator=noise)
    companions = tuple(part.draw(f, noise) for part in layer.companions)
    moves = [move(torch.randperm(_SIZE, generator=noise)) for _ in range(_ELEMENTS)]
    return Trial(sizes, f, moves, companions=companions)
