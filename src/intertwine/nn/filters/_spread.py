"""Spreads weights over a wide filter, and sums gradients back, with an index table for one pair of copies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def spread(weight: Tensor, index: Tensor) -> Tensor:
    """out[o, a, i, e] = weight[o, i, index[a, e]]: ``(n2, n1, k)`` and ``(d2, e)`` to ``(n2, d2, n1, e)``.

    Writes the filter once, in its final order, and reads it once in the backward pass; torch's indexing would copy it
    twice. Differentiable any number of times.

    >>> spread(torch.tensor([[[5.0, 7.0]]]), torch.tensor([[0, 1], [1, 0]])).tolist()
    [[[[5.0, 7.0]], [[7.0, 5.0]]]]
    """
    if torch.compiler.is_compiling():  # the compiler fuses the two copies
        return weight[:, :, index].transpose(1, 2)
    out: Tensor = _Spread.apply(weight, index)  # type: ignore[no-untyped-call]
    return out


def collect(grad: Tensor, index: Tensor, k: int) -> Tensor:
    """The transpose of :func:`spread`: ``(n2, d2, n1, e)`` to ``(n2, n1, k)``."""
    out: Tensor = _Collect.apply(grad, index, k)  # type: ignore[no-untyped-call]
    return out


class _Spread(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, index: Tensor) -> Tensor:
        (n2, n1, k), (d2, e) = weight.shape, index.shape
        return weight[:, None].expand(n2, d2, n1, k).gather(3, index[None, :, None].expand(n2, d2, n1, e))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.k = inputs[0].shape[-1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return collect(grad, index, ctx.k), None


class _Collect(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, index: Tensor, k: int) -> Tensor:
        n2, _, n1, e = grad.shape
        out = grad.new_zeros(n2, n1, k)
        for row, places in enumerate(index):  # row by row: avoids a temporary as large as the filter
            out.scatter_add_(2, places.expand(n2, n1, e), grad[:, row])
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return spread(grad, index), None, None
