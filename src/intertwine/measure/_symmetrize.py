"""The nearest exactly equivariant network."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ._channel_graph import ChannelGraph
from ._permute import permuted_state
from ._symmetry import Symmetry
from ._transform import transformed_state


def averaged_state(
    graph: ChannelGraph,
    state: Mapping[str, Tensor],
    symmetry: Symmetry,
    permutations: Mapping[int, Mapping[str, Tensor]],
    input_shape: tuple[int, ...],
) -> dict[str, Tensor]:
    """The average of the moved and permuted parameters over the group: the projection onto equivariant ones.

    W ↦ (1/|G|) Σ_g P_g(out) τ_g(W) P_g(in)ᵀ. If the permutations form a representation, the result is a fixed point
    of every term, so that the network is layerwise equivariant. Computed in float64.
    """
    total = {n: torch.zeros_like(v, dtype=torch.float64) for n, v in state.items() if v.is_floating_point()}
    for g in range(symmetry.order):
        moved = transformed_state(graph, state, symmetry, g, input_shape) if g else dict(state)
        moved = permuted_state(graph, moved, permutations[g])
        for name, value in total.items():
            value += moved[name].double() / symmetry.order
    return {n: total[n].to(v.dtype) if n in total else v.clone() for n, v in state.items()}
