"""Trials of layers on finite homogeneous spaces."""

from __future__ import annotations

import torch

from ..nn import Layer
from ..spaces import HomogeneousSpace
from ._trial import Move, Trial, moving

_MAX_ORDER = 120
"""Groups up to this order are tested on all elements, larger ones on generators and random elements."""


def coset_trial(layer: Layer, space: HomogeneousSpace, noise: torch.Generator) -> Trial:
    """Moves the input, fields on G/H1, and the output, fields on G/H2, by elements of G."""
    group = space.group
    elements = list(range(group.order))
    if group.order > _MAX_ORDER:
        drawn = torch.randint(group.order, (20,), generator=noise).tolist()
        elements = sorted({*map(int, group.generators), *drawn})

    def move(g: int) -> Move:
        return Move(
            f"element {g} of {group.name}",
            group.name,
            lambda f: layer.in_type.transform(f, g),
            lambda f: layer.out_type.transform(f, g),
            on_companions=moving(layer, g),
        )

    f = torch.randn(2, layer.in_type.dim, space.points, dtype=torch.float64, generator=noise)
    companions = tuple(part.draw(f, noise) for part in layer.companions)
    return Trial((space.points,), f, [move(g) for g in elements], companions=companions)
