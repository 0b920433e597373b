"""One constant matrix applied to the channels of a field at every sample.

``torch.matmul`` does this in one call, but slowly at both extremes: for values without space, ``(batch, channels)``,
and no gradients it computes one matrix-vector product per item; with gradients it copies whole fields.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

from ..._cost_rules import batched_product_pays, linear_pays

Mix = Callable[[Tensor, Tensor], Tensor]
"""M and x, ``(..., j, samples)``, to Σ_j M[i, j] x[..., j, s]."""


def mix(matrix: Tensor, x: Tensor) -> Tensor:
    """M x for any number of samples, without branches, so it can be traced."""
    return torch.einsum("ij,...js->...is", matrix, x)


def mixing(x: Tensor) -> Mix:
    """The way that should be fastest for inputs ``(batch, channels, *space)``."""
    samples = x.shape[2:].numel()
    if linear_pays(samples):
        return _on_values
    return _on_samples if batched_product_pays(samples) else mix


def _on_values(matrix: Tensor, x: Tensor) -> Tensor:
    return linear(x.squeeze(-1), matrix).unsqueeze(-1)


def _on_samples(matrix: Tensor, x: Tensor) -> Tensor:
    flat = x.reshape(-1, *x.shape[-2:])
    return torch.bmm(matrix.expand(len(flat), -1, -1), flat).view(*x.shape[:-2], -1, x.shape[-1])
