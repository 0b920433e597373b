"""Soft layers by hidden units: out = Σ_j V_j (Σ_a h_j(a, b) x(u + a)), in chunks of rows.

The position-dependent part acts first, on few hidden units, and the mixture comes last; kernels are never built. That
is cheaper than a kernel per position if the batch is small compared with the number of hidden units. Patches of the
input are copied a few rows at a time, and copied again in the backward pass rather than kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from ..._devices import without_autocast
from ._soft_support import Support

CHUNK = 1 << 20
"""The number of entries in one chunk of patches, about what a cache holds."""


def _rows(x: Tensor, table: Tensor) -> int:
    """The number of output rows per chunk."""
    batch, channels = x.shape[:2]
    _, height, width, taps, samples, hidden = table.shape
    return max(1, min(height, CHUNK // (width * batch * channels * max(taps * samples, hidden))))


def _places_first(x: Tensor, border: int) -> Tensor:
    """``(batch, channels, samples, height, width)`` to ``(height, width, samples, batch, channels)`` with a border."""
    turned = x.permute(0, 3, 4, 2, 1).contiguous().permute(1, 2, 3, 0, 4)
    return pad(turned, (0, 0, 0, 0, 0, 0, border, border, border, border)).contiguous()


def _patches(x: Tensor, row: int, rows: int, width: int, support: Support) -> Tensor:
    """``(rows · width, taps · samples, batch · channels)``."""
    _, wide, samples, batch, channels = x.shape
    place = samples * batch * channels
    patches = x.new_empty(rows, width, support.taps, place)
    for down, right, taps, first in support.runs:
        stride, start = (wide * place, place, place, 1), ((row + down) * wide + right) * place
        # Neighboring taps are neighbors in memory, so an overlapping view copies a whole run at once.
        patches[:, :, first : first + taps] = x.as_strided((rows, width, taps, place), stride, start)
    return patches.view(rows * width, support.taps * samples, batch * channels)


class _Rank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, mixture: Tensor, support: Support) -> Tensor:
        ctx.save_for_backward(x, table, mixture)
        ctx.support = support
        groups, height, width, taps, samples, hidden = table.shape
        batch, channels, out = len(x), x.shape[1], mixture.shape[-1]
        seen, flat = _places_first(x, support.border), mixture.transpose(0, 1).reshape(-1, out)
        result = x.new_empty(groups, height, width, batch, out)
        step = _rows(x, table)
        for row in range(0, height, step):
            rows = min(step, height - row)
            patches = _patches(seen, row, rows, width, support).transpose(1, 2)
            for group in range(groups):
                filters = table[group, row : row + rows].reshape(rows * width, taps * samples, hidden)
                units = torch.bmm(patches, filters).view(rows * width * batch, channels * hidden)
                result[group, row : row + rows] = (units @ flat).view(rows, width, batch, out)
        return result.permute(3, 0, 1, 2, 4).contiguous().permute(0, 4, 1, 2, 3).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, table, mixture = ctx.saved_tensors
        support: Support = ctx.support
        groups, height, width, taps, samples, hidden = table.shape
        batch, channels, out = len(x), x.shape[1], mixture.shape[-1]
        seen, flat = _places_first(x, support.border), mixture.transpose(0, 1).reshape(-1, out)
        of_seen = torch.zeros_like(seen) if ctx.needs_input_grad[0] else None
        of_table = torch.empty_like(table, memory_format=torch.contiguous_format)
        of_flat = torch.zeros_like(flat)
        gradient = gradient.permute(0, 2, 3, 4, 1).contiguous().permute(1, 2, 3, 0, 4)
        step = _rows(x, table)
        for row in range(0, height, step):
            rows = min(step, height - row)
            patches = _patches(seen, row, rows, width, support)
            for group in range(groups):
                filters = table[group, row : row + rows].reshape(rows * width, taps * samples, hidden)
                units = torch.bmm(patches.transpose(1, 2), filters).view(rows * width * batch, channels * hidden)
                of_out = gradient[group, row : row + rows].reshape(rows * width * batch, out)
                of_flat.addmm_(units.T, of_out)
                of_units = torch.mm(of_out, flat.T, out=units).view(rows * width, batch * channels, hidden)
                of_filters = torch.bmm(patches, of_units)
                of_table[group, row : row + rows] = of_filters.view(rows, width, taps, samples, hidden)
                if of_seen is not None:
                    back = torch.bmm(filters, of_units.transpose(1, 2)).view(
                        rows, width, taps, samples, batch, channels
                    )
                    for tap, (down, right) in enumerate(support.offsets):
                        of_seen[row + down : row + down + rows, right : right + width] += back[:, :, tap]
        of_x: Tensor | None = None
        if of_seen is not None:
            p, (tall, wide) = support.border, x.shape[-2:]
            of_x = of_seen[p : p + tall, p : p + wide].permute(3, 0, 1, 2, 4).contiguous().permute(0, 4, 3, 1, 2)
            of_x = of_x.contiguous()
        return of_x, of_table, of_flat.view(channels, hidden, out).transpose(0, 1), None


def rank(x: Tensor, table: Tensor, mixture: Tensor, support: Support) -> Tensor:
    """The layer, with gradients of all three, in the precision of the kernel even under autocast."""
    with without_autocast(x):
        same = x.to(mixture.dtype), table.to(mixture.dtype)
        return _Rank.apply(*same, mixture, support)  # type: ignore[no-untyped-call]
