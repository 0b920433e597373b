"""The hexagon inside an array on the hexagonal lattice, which all its rotations and reflections map to itself.

An array on the hexagonal lattice is a rhombus, and a rotation by 60° moves its two acute corners outside. So with zero
padding, a field lives on the largest hexagon in the array, and is 0 in the corners.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch import nn as torch_nn


def hexagon(x: Tensor) -> Tensor:
    """Which samples of the last two axes lie in the hexagon, ``(n, n)``; n is odd. Also for ``torch.fx`` proxies."""
    line = x.new_ones(x.shape[-1], dtype=torch.float32).cumsum(0)
    # Along the third axis of the lattice, columns and rows change together.
    return (line - line[:, None]).abs() <= (line[-1] - 1) / 2


def inside_hexagon(x: Tensor) -> Tensor:
    """A field on the hexagon, 0 in the corners."""
    return x * hexagon(x)


def window_taps(radius: int) -> list[tuple[int, int]]:
    """The rows and columns of the samples at most ``radius`` steps from the center of a window of 2 radius + 1."""
    size = range(2 * radius + 1)
    return [(row, column) for row in size for column in size if abs(column - row) <= radius]


def traced(module: torch_nn.Module) -> torch_nn.Module:
    """A module as a graph of torch functions, which does not need this package."""
    from torch.fx import symbolic_trace  # imported here because it is slow to import

    graph = symbolic_trace(module)
    for node in graph.graph.nodes:
        node.type = None  # our annotations are strings, which the generated code could not resolve
    graph.recompile()
    return graph


class Hexagon(torch_nn.Module):
    """:func:`inside_hexagon` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return inside_hexagon(x)
