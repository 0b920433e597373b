"""Linear layers on sets and graphs of any size."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ...errors import InputError, TypeMismatchError
from ...spaces import FieldType, Tuples
from .._layer import Companion, Exact, Layer, register_layer
from .._traced import TracedLayer
from ._patterns import Pattern, patterns


@register_layer
class TupleLinear(TracedLayer):
    """All linear maps between fields on tuples of a set that commute with permutations of its elements.

    Between tuples of order k and l there is one map per pattern of equality of the k + l indices, times a matrix
    between the channels: 2 for sets (DeepSets), 15 for graphs, whatever the number of elements. The layer averages over
    indices that the output does not have, so a trained layer works on sets of other sizes. The cost grows as
    n^max(k, l).

    Shapes: ``(batch, c1, n, ..., n)`` with k axes to ``(batch, c2, n, ..., n)`` with l axes. Equivariance: exact under
    every permutation.

    Args:
        in_type: fields on tuples, such as ``Tuples(1).field("16*trivial")``.
        out_type: fields on tuples of the same set.
        bias: one number per output channel and pattern of the output indices.
        masked: whether to take a second input, a mask ``(batch, n)`` of the elements that exist, for sets of different
            sizes in one batch. Other elements are ignored, and their outputs are zero.

    >>> points, whole = Tuples(1).field("3*trivial"), Tuples(0).field("8*trivial")
    >>> layer = TupleLinear(points, whole)
    >>> layer(torch.randn(2, 3, 10)).shape, layer(torch.randn(2, 3, 1000)).shape
    (torch.Size([2, 8]), torch.Size([2, 8]))
    """

    needs_space = True

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType, *, bias: bool = True, masked: bool = False) -> None:
        if not isinstance(in_type.space, Tuples) or not isinstance(out_type.space, Tuples):
            raise TypeMismatchError(
                "TupleLinear",
                expected="field types on tuples",
                got=f"{in_type} and {out_type}",
                fix='Make them with intertwine.spaces.Tuples(1).field("16*trivial").',
            )
        self._orders = in_type.space.order, out_type.space.order
        if not masked and self._orders[0] == 0 < self._orders[1]:
            raise InputError(
                "TupleLinear",
                expected="a mask, which tells the number of elements",
                got="order 0 for the input and more for the output",
                fix="Pass masked=True.",
            )
        super().__init__(in_type, out_type, Exact())
        self.patterns = patterns(in_type.space.order, out_type.space.order)
        self._bias_patterns = patterns(0, out_type.space.order)
        self.masked, self.traced_method = masked, "compute_masked" if masked else "compute"
        self.companions = (Companion("mask", _draw_mask, _moved_mask),) if masked else ()
        self.weight = torch_nn.Parameter(torch.empty(len(self.patterns), out_type.dim, in_type.dim))
        self.bias = torch_nn.Parameter(torch.empty(len(self._bias_patterns), out_type.dim)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights of variance 1 / (patterns · channels), and set the bias to zero."""
        self.weight.normal_(0, 1 / sqrt(len(self.patterns) * self.in_type.dim))
        if self.bias is not None:
            self.bias.zero_()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        whole, points, pairs = (Tuples(order).field("2*trivial") for order in (0, 1, 2))
        yield cls(points, Tuples(1).field("3*trivial"))
        yield cls(pairs, pairs)
        yield cls(points, pairs, bias=False)
        yield cls(pairs, whole)
        yield cls(pairs, points, masked=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.check_input(x)
        self._require_set(x, mask)
        return self.compute(x) if mask is None else self.compute_masked(x, mask)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        n = x.shape[2] if self._orders[0] else 1
        return self._with_bias(self._mapped(x, n, n), n)

    def compute_masked(self, x: Tensor, mask: Tensor) -> Tensor:
        """The map without checks, on the elements that a mask selects."""
        mask = mask.to(x.dtype)
        k, l = self._orders
        count = mask.sum(1).clamp_min(1)  # the mean over no elements is 0
        out = self._with_bias(self._mapped(x * _on_axes(mask, k), mask.shape[1], count), mask.shape[1])
        return out * _on_axes(mask, l)

    def _mapped(self, x: Tensor, n: int, count: Any) -> Tensor:
        reductions: dict[tuple[object, ...], Tensor] = {}
        placements: dict[tuple[object, ...], tuple[Pattern, Tensor]] = {}
        for number, pattern in enumerate(self.patterns):
            key = pattern.inputs, pattern.kept
            if key not in reductions:
                reductions[key] = self._mean(pattern, x, count)
            mixed = torch.einsum("ob,ab...->ao...", self.weight[number], reductions[key])
            # Maps that end in the same broadcast are added before it, where they are smaller.
            if pattern.placement in placements:
                mixed = placements[pattern.placement][1] + mixed
            placements[pattern.placement] = pattern, mixed
        parts = [pattern.placed(mixed, n) for pattern, mixed in placements.values()]
        return sum(parts[1:], parts[0])

    def _mean(self, pattern: Pattern, x: Tensor, count: Any) -> Tensor:
        """The mean over the blocks that the output lacks; ``count`` is one number, or one per set if masked."""
        total = pattern.reduced(x)
        if not pattern.averaged:
            return total
        if self.masked:
            count = count.view(-1, 1, *[1] * len(pattern.kept))
        return total / count**pattern.averaged

    def _with_bias(self, out: Tensor, n: int) -> Tensor:
        if self.bias is not None:
            for number, pattern in enumerate(self._bias_patterns):
                out = out + pattern.placed(self.bias[number][None], n)
        return out

    def _require_set(self, x: Tensor, mask: Tensor | None) -> None:
        sizes = tuple(x.shape[2:])
        if any(n != sizes[0] for n in sizes):
            raise InputError("TupleLinear", expected="axes of one size", got=f"sizes {sizes}")
        if (mask is not None) != self.masked:
            raise InputError(
                "TupleLinear",
                expected="a mask" if self.masked else "no mask",
                got="none" if mask is None else "one",
                fix="masked=True makes a layer that takes one.",
            )
        if mask is None:
            return
        n = sizes[0] if sizes else mask.shape[-1]
        if mask.shape != (len(x), n) or mask.dtype != torch.bool:
            raise InputError(
                "TupleLinear",
                expected=f"a mask of booleans ({len(x)}, {n})",
                got=f"{mask.dtype} of shape {tuple(mask.shape)}",
            )


def _on_axes(mask: Tensor, order: int) -> Tensor:
    """The product of the mask over all elements of a tuple, ``(batch, 1, n, ..., n)``."""
    product = mask.new_ones(1, 1, *[1] * order)
    for axis in range(order):
        product = product * mask.view(mask.shape[0], 1, *(mask.shape[1] if a == axis else 1 for a in range(order)))
    return product


def _draw_mask(x: Tensor, noise: torch.Generator) -> Tensor:
    mask = torch.rand(len(x), x.shape[-1], generator=noise) < 0.7
    mask[:, 0] = True
    return mask


def _moved_mask(mask: Tensor, g: Tensor) -> Tensor:
    return mask[:, torch.argsort(g)]
