"""Soft layers with a kernel per position, built for one output row at a time and used immediately.

The input is stored as (batch, row, column, channel). Then the taps of one kernel row are contiguous in memory at each
position, and the windows of a whole output row are one overlapping strided view that a batched product reads directly:
nothing is unfolded, and memory holds the kernels of one row only, instead of one kernel per position of the image.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from ..._devices import without_autocast
from ._soft_support import Support, reversal


def rows_first(x: Tensor, border: int) -> Tensor:
    """``(batch, channels, samples, height, width)`` to ``(batch, height, width, samples · channels)`` with a border."""
    batch, channels, samples, height, width = x.shape
    flat = x.reshape(batch, channels * samples, height, width).contiguous(memory_format=torch.channels_last)
    turned = flat.permute(0, 2, 3, 1)
    if samples > 1:
        turned = turned.unflatten(-1, (channels, samples)).transpose(-1, -2).flatten(-2)
    return pad(turned, (0, 0, border, border, border, border)).contiguous()


def _windows(x: Tensor, row: int, places: int, support: Support) -> list[Tensor]:
    """What each position of an output row sees through each kernel row: ``(positions, batch, taps · block)``, views."""
    batch, height, width, block = x.shape
    stride = (block, height * width * block, 1)
    return [
        x.as_strided((places, batch, taps * block), stride, ((row + down) * width + right) * block)
        for down, right, taps, _ in support.runs
    ]


class _ByRuns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, support: Support) -> Tensor:
        ctx.shape, ctx.support = table.shape, support
        return torch.cat([table[:, :, :, first : first + taps].flatten(2, 4) for _, _, taps, first in support.runs], 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        groups, height, width, _, samples, hidden = ctx.shape
        parts = gradient.split([width * taps * samples for _, _, taps, _ in ctx.support.runs], 2)
        return torch.cat([part.view(groups, height, width, -1, samples, hidden) for part in parts], 3), None


def by_runs(table: Tensor, support: Support) -> Tensor:
    """The table of each output row in the order (kernel row, position, tap): ``(groups, rows, ..., hidden)``.

    In this order the kernels of a row come out of one product in the layout that the batched products read.
    """
    return _ByRuns.apply(table, support)  # type: ignore[no-untyped-call]


def apply_kernels(x: Tensor, ordered: Tensor, mixture: Tensor, support: Support) -> Tensor:
    """The layer on an input from :func:`rows_first`: ``(batch, out samples, height', width', out channels)``."""
    groups, height, length, hidden = ordered.shape
    batch, block, (_, channels, out) = len(x), x.shape[-1], mixture.shape
    width = length * channels // (support.taps * block)
    flat = mixture.reshape(hidden, -1)
    kernels = x.new_empty(length, flat.shape[1])  # reused for all rows: no allocation in the loop
    pieces = _pieces(kernels, width, block, out, support)
    row_out = x.new_empty(width, batch, out)
    result = x.new_empty(batch, groups, height, width, out)
    for row in range(height):
        windows = _windows(x, row, width, support)
        for group in range(groups):
            torch.mm(ordered[group, row], flat, out=kernels)
            for number, (window, piece) in enumerate(zip(windows, pieces, strict=True)):
                row_out.baddbmm_(window, piece, beta=min(number, 1))  # beta 0 overwrites the previous row
            result[:, group, row] = row_out.transpose(0, 1)
    return result


def _pieces(kernels: Tensor, width: int, block: int, out: int, support: Support) -> list[Tensor]:
    """The kernels of an output row, by kernel row: views ``(positions, taps · block, out)``."""
    lengths = [width * taps * block * out for _, _, taps, _ in support.runs]
    return [piece.view(width, -1, out) for piece in kernels.view(-1).split(lengths)]


def transposed(ordered: Tensor, support: Support, height: int, width: int, samples: int) -> Tensor:
    """The table of the transposed layer in the same order: input and output samples exchanged, taps reversed."""
    groups, hidden = ordered.shape[0], ordered.shape[-1]
    index = reversal(support, height, width, ordered.device)
    reordered = ordered.view(groups, -1, samples, hidden).index_select(1, index)
    return reordered.view(groups, height, -1, samples, hidden).transpose(0, 3).flatten(2, 3).contiguous()


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ordered: Tensor, mixture: Tensor, support: Support) -> Tensor:
        ctx.save_for_backward(x, ordered, mixture)
        ctx.support = support
        return _channels_first(apply_kernels(rows_first(x, support.border), ordered, mixture, support))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, ordered, mixture = ctx.saved_tensors
        support: Support = ctx.support
        border = support.size - 1 - support.border
        padded = rows_first(gradient, border)
        of_x: Tensor | None = None
        if ctx.needs_input_grad[0]:  # the gradient of the input is a soft layer of the same kind
            back = transposed(ordered, support, x.shape[-2], x.shape[-1], x.shape[2])
            of_x = _channels_first(apply_kernels(padded, back, mixture.transpose(1, 2), support))
        if not (ctx.needs_input_grad[1] or ctx.needs_input_grad[2]):
            return of_x, None, None, None
        unpadded = padded[:, border : padded.shape[1] - border, border : padded.shape[2] - border]
        of_ordered, of_mixture = _of_kernels(rows_first(x, support.border), unpadded, ordered, mixture, support)
        return of_x, of_ordered, of_mixture, None


def _of_kernels(
    x: Tensor, gradient: Tensor, ordered: Tensor, mixture: Tensor, support: Support
) -> tuple[Tensor, Tensor]:
    """Gradients of the table and the mixture. Gradients of kernels are reduced row by row, never stored."""
    groups, height, _, hidden = ordered.shape
    width, block, out = gradient.shape[2], x.shape[-1], mixture.shape[-1]
    flat = mixture.reshape(hidden, -1)
    of_ordered, of_flat = torch.empty_like(ordered), torch.zeros_like(flat)
    of_kernels = x.new_empty(ordered.shape[2], flat.shape[1])
    pieces = _pieces(of_kernels, width, block, out, support)
    for row in range(height):
        windows = _windows(x, row, width, support)
        of_row = gradient[:, row].transpose(0, 1)
        for group in range(groups):
            of_group = of_row[..., group * out : (group + 1) * out]
            for window, piece in zip(windows, pieces, strict=True):
                torch.bmm(window.transpose(1, 2), of_group, out=piece)
            of_flat.addmm_(ordered[group, row].T, of_kernels)
            torch.mm(of_kernels, flat.T, out=of_ordered[group, row])
    return of_ordered, of_flat.view(mixture.shape)


def _channels_first(result: Tensor) -> Tensor:
    """``(batch, samples, height, width, channels)`` to ``(batch, channels, samples, height, width)``."""
    if result.shape[1] == 1:  # a plain transpose is several times faster
        return result[:, 0].permute(0, 3, 1, 2).contiguous()[:, :, None]
    return result.permute(0, 4, 1, 2, 3).contiguous()


def window(x: Tensor, ordered: Tensor, mixture: Tensor, support: Support) -> Tensor:
    """The layer, with a table from :func:`by_runs` and gradients of all three.

    It computes in the precision of the kernel, even under autocast.
    """
    with without_autocast(x):
        same = x.to(mixture.dtype), ordered.to(mixture.dtype)
        return _Window.apply(*same, mixture, support)  # type: ignore[no-untyped-call]
