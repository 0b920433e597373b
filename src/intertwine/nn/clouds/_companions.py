"""What layers on clouds take beside the features."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...spaces import Cloud
from .._layer import Companion


def cloud_geometry(space: Cloud) -> tuple[Companion, Companion]:
    """Positions, which motions move, and edges, which they don't."""
    return Companion("positions", partial(_positions, space.dimension), partial(_moved, space)), Companion(
        "edges", _edges
    )


def _positions(dimension: int, x: Tensor, noise: torch.Generator) -> Tensor:
    return torch.rand(len(x), dimension, dtype=x.dtype, generator=noise)


def _edges(x: Tensor, noise: torch.Generator) -> Tensor:
    return torch.randint(len(x), (2, 3 * len(x)), generator=noise)


def _moved(space: Cloud, positions: Tensor, g: Any) -> Tensor:
    return space.act(g, positions)
