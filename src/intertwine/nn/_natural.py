"""How alike neighboring samples of natural images are, and what kernels make of that."""

from __future__ import annotations

import torch
from torch import Tensor

from ..spaces import Grid

REACH = 8.0
"""Samples over which the correlation falls by a factor e; about 4 in MNIST and 20 in CIFAR-10."""


def natural_correlation(space: Grid, kernel_size: tuple[int, ...]) -> Tensor:
    """C[x, y] = exp(-|x - y| / REACH) between the taps of a filter, ``(taps, taps)``."""
    taps = space.coordinates(kernel_size).reshape(-1, space.dimension).to(torch.float64)
    return torch.exp(-torch.cdist(taps, taps) / REACH)


def natural_response(kernels: Tensor, correlation: Tensor) -> float:
    """Σ κ(x) C(x, y) κ(y) over all kernels and entries, for kernels ``(..., taps)``."""
    return float(((kernels @ correlation) * kernels).sum())
