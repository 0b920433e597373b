"""Pooling over hexagons on the hexagonal lattice."""

from __future__ import annotations

from functools import reduce
from math import inf

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import pad

from .._hexagon import hexagon, window_taps
from .._window import Window


class HexagonalPool(torch_nn.Module):
    """The mean or the maximum over hexagonal windows of a field on a hexagon.

    As in torch, samples outside count as 0 in a mean, and not at all in a maximum.

    Args:
        window: a square window, whose largest hexagon counts.
        maximum: whether to take the maximum.
    """

    def __init__(self, window: Window, *, maximum: bool) -> None:
        super().__init__()
        self.stride, self.margin, self.maximum = window.stride[0], window.before[0], maximum
        self.reach, self.taps = window.reach[0], window_taps((window.reach[0] - 1) // 2)

    def forward(self, x: Tensor) -> Tensor:
        empty = -inf if self.maximum else 0.0
        x = pad(torch.where(hexagon(x), x, empty), [self.margin] * 4, value=empty)
        rows, columns = x.shape[-2] - self.reach + 1, x.shape[-1] - self.reach + 1
        steps = slice(None, None, self.stride)
        # A sum of shifted arrays: torch has no pooling over windows of another shape.
        shifted = [x[..., row : row + rows, column : column + columns][..., steps, steps] for row, column in self.taps]
        pooled = reduce(torch.maximum, shifted) if self.maximum else reduce(torch.add, shifted) / len(shifted)
        return torch.where(hexagon(pooled), pooled, 0.0)
