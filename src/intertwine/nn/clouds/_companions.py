"""What layers on clouds take beside the features."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...spaces import Cloud
from .._layer import Companion

_EDGES_PER_POINT = 3


def cloud_geometry(space: Cloud, *, edge_features: int = 0, box_width: float | None = None) -> tuple[Companion, ...]:
    """Positions, which motions move, and edges, which they don't; then features of the edges, and a box, if any."""
    d = space.dimension
    parts = [Companion("positions", partial(_positions, d), partial(_moved, space)), Companion("edges", _edges)]
    if edge_features:
        parts.append(Companion("edge_features", partial(_edge_features, edge_features)))
    if box_width is not None:
        parts.append(Companion("box", partial(_box, d, box_width), partial(_turned, space)))
    return tuple(parts)


def _positions(dimension: int, x: Tensor, noise: torch.Generator) -> Tensor:
    return torch.rand(len(x), dimension, dtype=x.dtype, generator=noise)


def _edges(x: Tensor, noise: torch.Generator) -> Tensor:
    return torch.randint(len(x), (2, _EDGES_PER_POINT * len(x)), generator=noise)


def _edge_features(count: int, x: Tensor, noise: torch.Generator) -> Tensor:
    return torch.randn(_EDGES_PER_POINT * len(x), count, dtype=x.dtype, generator=noise)


def _box(dimension: int, width: float, x: Tensor, noise: torch.Generator) -> Tensor:
    skew = torch.rand(dimension, dimension, dtype=x.dtype, generator=noise).triu(1)
    return 1.5 * width * (torch.eye(dimension, dtype=x.dtype) + 0.2 * skew)


def _moved(space: Cloud, positions: Tensor, g: Any) -> Tensor:
    return space.act(g, positions)


def _turned(space: Cloud, box: Tensor, g: Any) -> Tensor:
    return space.act(space.from_stabilizer(space.as_stabilizer(g)), box)
