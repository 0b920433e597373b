"""Products with a block diagonal matrix, written directly into the output.

Concatenating the blocks' outputs would copy the whole field once more; ``out=`` slices avoid that copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from ._turn import apply, functional


@dataclass(frozen=True)
class DiagonalBlock:
    """One matrix W that acts on ``repeats`` neighboring pieces of rows.

    Attributes:
        repeats: the number of pieces W acts on.
        shape: rows and columns of W.
        offset: where W starts in the flat vector of all matrices.
        row: the first row of the output.
        column: the first row of the input.
    """

    repeats: int
    shape: tuple[int, int]
    offset: int
    row: int
    column: int

    def matrix(self, flat: Tensor) -> Tensor:
        """W, a view."""
        m, n = self.shape
        return flat[self.offset : self.offset + m * n].view(m, n)

    def input(self, x: Tensor, a: int) -> Tensor:
        """Piece a of the input, a view."""
        return x[self.column + a * self.shape[1] : self.column + (a + 1) * self.shape[1]]

    def output(self, y: Tensor, a: int) -> Tensor:
        """Piece a of the output, a view."""
        return y[self.row + a * self.shape[0] : self.row + (a + 1) * self.shape[0]]


@dataclass(frozen=True)
class BlockDiagonal:
    """The shape of a block diagonal matrix ``(rows, columns)``; its entries come as one flat vector.

    Attributes:
        rows: the number of output rows.
        columns: the number of input rows.
        size: the number of entries in all blocks.
        blocks: the blocks.
        gaps: (start, stop) of output rows that belong to no block.
        holes: (start, stop) of input rows that belong to no block.
        shifted: (start, stop) of output rows that can have a bias.
    """

    rows: int
    columns: int
    size: int
    blocks: tuple[DiagonalBlock, ...]
    gaps: tuple[tuple[int, int], ...]
    holes: tuple[tuple[int, int], ...]
    shifted: tuple[int, int]

    @property
    def work(self) -> int:
        """Multiplications per sample."""
        return sum(b.repeats * b.shape[0] * b.shape[1] for b in self.blocks)

    def __call__(self, x: Tensor, flat: Tensor, bias: Tensor | None = None) -> Tensor:
        """W x + b for x of shape ``(columns, samples)``, differentiable any number of times.

        Args:
            x: contiguous rows.
            flat: the entries of W.
            bias: one value per ``shifted`` row.
        """
        if functional():
            return self.slow(x, flat, bias)
        return apply(_Product, x, flat, bias, self, False)

    def slow(self, x: Tensor, flat: Tensor, bias: Tensor | None = None) -> Tensor:
        """The same with ordinary torch functions, for compilers and function transforms."""
        out: dict[int, Tensor] = {}
        for b in self.blocks:
            piece = x[b.column : b.column + b.repeats * b.shape[1]].view(b.repeats, b.shape[1], -1)
            out[b.row] = torch.matmul(b.matrix(flat), piece).flatten(0, 1)
        for start, stop in self.gaps:
            out[start] = x.new_zeros(stop - start, x.shape[1])
        if bias is not None:
            out[self.shifted[0]] = out[self.shifted[0]] + bias[:, None]
        parts = [out[row] for row in sorted(out)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


class _Product(Function):
    """W x + b, or Wᵀ x if transposed. One function for both, so gradients of any order stay within it."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, x: Tensor, flat: Tensor, bias: Tensor | None, shape: BlockDiagonal, transposed: bool
    ) -> Tensor:
        ctx.save_for_backward(x, flat)
        ctx.shape, ctx.transposed = shape, transposed  # type: ignore[attr-defined]
        y = x.new_empty(shape.columns if transposed else shape.rows, x.shape[1])
        for start, stop in shape.holes if transposed else shape.gaps:
            y[start:stop] = 0
        for b in shape.blocks:
            w = b.matrix(flat)
            for a in range(b.repeats):
                if transposed:
                    torch.mm(w.T, b.output(x, a), out=b.input(y, a))
                else:
                    torch.mm(w, b.input(x, a), out=b.output(y, a))
        if bias is not None:
            y[slice(*shape.shifted)] += bias[:, None]
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, flat = ctx.saved_tensors
        g = grads[0].contiguous()
        for_x = for_flat = for_bias = None
        if ctx.needs_input_grad[0]:
            for_x = apply(_Product, g, flat, None, ctx.shape, not ctx.transposed)
        if ctx.needs_input_grad[1]:
            for_flat = apply(_Outer, *((x, g) if ctx.transposed else (g, x)), ctx.shape)
        if ctx.needs_input_grad[2]:
            for_bias = g[slice(*ctx.shape.shifted)].sum(1)
        return for_x, for_flat, for_bias, None, None


class _Outer(Function):
    """The flat vector of y xᵀ inside the blocks, summed over pieces that share a matrix: the gradient of W."""

    @staticmethod
    def forward(ctx: FunctionCtx, y: Tensor, x: Tensor, shape: BlockDiagonal) -> Tensor:
        ctx.save_for_backward(y, x)
        ctx.shape = shape  # type: ignore[attr-defined]
        flat = x.new_empty(shape.size)
        for b in shape.blocks:
            w = b.matrix(flat)
            torch.mm(b.output(y, 0), b.input(x, 0).T, out=w)
            for a in range(1, b.repeats):
                w.addmm_(b.output(y, a), b.input(x, a).T)
        return flat

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        y, x = ctx.saved_tensors
        flat = grads[0].contiguous()
        for_y = apply(_Product, x, flat, None, ctx.shape, False) if ctx.needs_input_grad[0] else None
        for_x = apply(_Product, y, flat, None, ctx.shape, True) if ctx.needs_input_grad[1] else None
        return for_y, for_x, None
