"""Trials of layers on a point and on clouds, whose fields are ``(rows, channels)``."""

from __future__ import annotations

from typing import Any

import torch

from ..nn import Approximate, Layer
from ..spaces import Cloud, Point
from ._trial import Move, Trial, moving

_ROWS, _ELEMENTS = 8, 12


def scattered_trial(layer: Layer, space: Point | Cloud, noise: torch.Generator) -> Trial:
    """Random elements of the whole group; on a cloud each with a translation."""

    def move(number: int, g: Any) -> Move:
        if isinstance(space, Cloud):
            g = space.motion(torch.randn(space.dimension, dtype=torch.float64, generator=noise), g)
        return Move(
            f"random element {number} of {space.stabilizer.name}",
            space.stabilizer.name,
            lambda f: layer.in_type.transform(f, g),
            lambda f: layer.out_type.transform(f, g),
            on_companions=moving(layer, g),
        )

    f = torch.randn(_ROWS, layer.in_type.dim, dtype=torch.float64, generator=noise)
    companions = tuple(part.draw(f, noise) for part in layer.companions)
    moves = [move(number, g) for number, g in enumerate(space.sample(_ELEMENTS, noise))]
    if isinstance(layer.claim, Approximate):
        return Trial((_ROWS,), f, (), smooth=f, inexact=moves, companions=companions)
    return Trial((_ROWS,), f, moves, companions=companions)
