"""Changes of basis, piece by piece: no second copy of a field is ever in memory.

All functions are for fields with one kind of summand, n copies of dimension d, and apply one matrix M ``(d, d)`` to
each copy. Working in pieces avoids large short-lived tensors. That saves memory; on its own it was not measurably
faster than transforming the whole field at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn.functional import gelu

PIECE = 1 << 18
"""The number of entries in a piece: a megabyte in single precision."""


def enter(x: Tensor, matrix: Tensor) -> Tensor:
    """``(batch, n d, ...)`` to rows ``(d n, samples)``, with M on each copy; differentiable any number of times."""
    return apply(_Enter, x, matrix)


def leave(rows: Tensor, matrix: Tensor, batch: int, sizes: tuple[int, ...]) -> Tensor:
    """Rows ``(d n, samples)``, with M on each copy, to ``(batch, n d, *sizes)``."""
    return apply(_Leave, rows, matrix, batch, sizes)


def turned_gelu(rows: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """M2 GELU(M1 v) on each copy v of rows ``(d n, samples)``."""
    return apply(_TurnedGelu, rows, first, last)


def functional() -> bool:
    """Whether a compiler or a function transform is tracing: these may not support writing into slices."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )


def apply(function: type[Function], *args: Any) -> Tensor:
    """``function.apply``, typed."""
    out: Tensor = function.apply(*args)
    return out


def _copies(n: int, size: int) -> Iterator[tuple[int, int]]:
    """(first, count) of the copies in each piece, given the size of a copy."""
    step = max(1, PIECE // max(size, 1))
    return ((start, min(step, n - start)) for start in range(0, n, step))


class _Enter(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, matrix: Tensor) -> Tensor:
        ctx.shape, ctx.matrix = x.shape, matrix  # type: ignore[attr-defined]
        d, batch = len(matrix), x.shape[0]
        channels = x.reshape(batch, x.shape[1] // d, d, -1).permute(2, 1, 0, 3)
        n, samples = channels.shape[1], batch * channels.shape[3]
        out = x.new_empty(d, n * samples)
        for start, count in _copies(n, d * samples):
            piece = channels[:, start : start + count].reshape(d, -1)
            torch.mm(matrix, piece, out=out[:, start * samples : (start + count) * samples])
        return out.view(d * n, samples)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return leave(grads[0], ctx.matrix.T, ctx.shape[0], ctx.shape[2:]), None


class _Leave(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, matrix: Tensor, batch: int, sizes: tuple[int, ...]) -> Tensor:
        ctx.matrix = matrix  # type: ignore[attr-defined]
        d, samples = len(matrix), rows.shape[1]
        n = len(rows) // d
        columns = rows.reshape(d, n * samples)
        out = rows.new_empty(batch, n * d, *sizes)
        channels = out.view(batch, n, d, -1).permute(2, 1, 0, 3)
        for start, count in _copies(n, d * samples):
            piece = matrix @ columns[:, start * samples : (start + count) * samples]
            channels[:, start : start + count].copy_(piece.view(d, count, batch, -1))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return enter(grads[0], ctx.matrix.T), None, None, None


class _TurnedGelu(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, first: Tensor, last: Tensor) -> Tensor:
        ctx.save_for_backward(rows)  # GELU's input is recomputed in the backward pass, in pieces
        ctx.matrices = first, last  # type: ignore[attr-defined]
        columns = rows.reshape(len(first), -1)
        out = torch.empty_like(columns)
        for start, count in _copies(columns.shape[1], len(first)):
            torch.mm(last, gelu(first @ columns[:, start : start + count]), out=out[:, start : start + count])
        return out.view(rows.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        first, last = ctx.matrices
        columns, g = rows.reshape(len(first), -1), grads[0].reshape(len(first), -1)
        if torch.is_grad_enabled():  # second derivatives need differentiable operations
            return (first.T @ torch.ops.aten.gelu_backward(last.T @ g, first @ columns)).view(rows.shape), None, None
        out = torch.empty_like(columns)
        for start, count in _copies(columns.shape[1], len(first)):
            piece = slice(start, start + count)
            inner = torch.ops.aten.gelu_backward(last.T @ g[:, piece], first @ columns[:, piece])
            torch.mm(first.T, inner, out=out[:, piece])
        return out.view(rows.shape), None, None
