"""Trials of layers on finite homogeneous spaces."""

from __future__ import annotations

import torch

from ..nn import Layer
from ..spaces import HomogeneousSpace
from ._trial import Move, Trial

_MOST = 120
"""Groups up to this order are tried in full, larger ones on their generators and on random elements."""


def coset_trial(layer: Layer, space: HomogeneousSpace, noise: torch.Generator) -> Trial:
    """Elements of G, which acts on the input, fields on G/H1, and on the output, fields on G/H2."""
    group = space.group
    elements = list(range(group.order))
    if group.order > _MOST:
        drawn = torch.randint(group.order, (20,), generator=noise).tolist()
        elements = sorted({*map(int, group.generators), *drawn})

    def move(g: int) -> Move:
        return Move(
            f"element {g} of {group.name}",
            group.name,
            lambda f: layer.in_type.transform(f, g),
            lambda f: layer.out_type.transform(f, g),
        )

    f = torch.randn(2, layer.in_type.dim, space.points, dtype=torch.float64, generator=noise)
    return Trial((space.points,), f, [move(g) for g in elements])
