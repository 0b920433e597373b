"""Layers averaged over motions of the plane, which makes their sampling grid symmetric."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..._checked import checked
from ...spaces import AxisMove


class OrbitAverage(nn.Module):
    """L'(x) = (1/|G|) Σ_g τ_g⁻¹ L_g(τ_g x), where L_g has the filters of L moved by τ_g.

    If L commutes with τ (L_g τ_g = τ_g L), nothing changes. If its stride does not fit, as for stride 2 on an even
    width, L samples another grid than its mirror image; L' samples both. A 3 x 3 stencil of stride 2 becomes one of
    width 4, symmetric about the middle of its cell.

    Equivariance: L' commutes with τ_g and the channel permutations P if the filters obey τ_g(W) = P_out W P_inᵀ. Exact.

    Args:
        module: a convolution or a pooling layer.
        moves: how each element of the group moves pixels, see :meth:`intertwine.spaces.Grid.axis_move`.

    >>> _ = torch.manual_seed(0)
    >>> from intertwine.spaces import Grid2d
    >>> layer, plane = nn.MaxPool2d(3, 2, 1), Grid2d("D1")
    >>> twin = OrbitAverage(layer, [plane.axis_move(g) for g in range(2)])
    >>> x = torch.randn(1, 1, 8, 8)
    >>> torch.equal(twin(x.flip(3)), twin(x).flip(3)), torch.equal(layer(x.flip(3)), layer(x).flip(3))
    (True, False)
    """

    @checked
    def __init__(self, module: nn.Module, moves: Sequence[AxisMove]) -> None:
        super().__init__()
        self.module, self.moves = module, tuple(moves)

    def forward(self, x: Tensor) -> Tensor:
        """The averaged layer."""
        total: Tensor | None = None
        for move in self.moves:
            moved = {n: move(p) if p.dim() == 4 else p for n, p in self.module.named_parameters()}
            y = move.inverse(torch.func.functional_call(self.module, moved, (move(x),)))
            total = y if total is None else total + y
        if total is None:
            return self.module(x)
        return total / len(self.moves)
