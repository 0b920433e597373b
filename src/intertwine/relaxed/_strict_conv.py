"""Strict convolutions of either kind, ours between field types and torch's between channels, seen alike."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, conv2d, conv3d, pad

from ..errors import InputError
from ..groups import Cyclic, direct_sum
from ..nn import Approximate, Conv2d, Conv3d, Exact, Strict
from ..spaces import FieldType, Grid1d, Grid2d, Grid3d

TYPED = (Conv2d, Conv3d)
PLAIN = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
StrictConv = Conv2d | Conv3d | nn.Conv1d | nn.Conv2d | nn.Conv3d
_CONVOLVE = {1: conv1d, 2: conv2d, 3: conv3d}


@dataclass(frozen=True)
class Geometry:
    """How a window slides over an array: what a convolution is besides its filter.

    Attributes:
        padding: samples before and after, for each axis.
        mode: what stands there, as for the convolutions of torch.
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    mode: str
    groups: int

    @property
    def dimension(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel_size)

    @property
    def reach(self) -> tuple[int, ...]:
        """How many samples a window covers along each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True))

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How many places the window takes along each axis."""
        return tuple(
            (n + sum(around) - reach) // step + 1
            for n, around, reach, step in zip(sizes, self.padding, self.reach, self.stride, strict=True)
        )

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """See :meth:`Layer.interior`: away from the padding."""
        if len(set(self.stride)) > 1:
            return None
        margins = [0]
        for n, (before, _), reach, step, out in zip(
            sizes, self.padding, self.reach, self.stride, self.output_sizes(sizes), strict=True
        ):
            margins += [-(-before // step), out - 1 - (n + before - reach) // step]
        return self.stride[0], max(margins)

    def padded(self, x: Tensor) -> Tensor:
        """The input with what stands around it."""
        around = [side for both in reversed(self.padding) for side in both]
        if not any(around):
            return x
        return pad(x, around) if self.mode == "zeros" else pad(x, around, mode=self.mode)

    def convolve(self, x: Tensor, filters: Tensor) -> Tensor:
        """An input that was padded, through filters ``(out, in / groups, *kernel_size)``."""
        return _CONVOLVE[self.dimension](x, filters, None, self.stride, 0, self.dilation, self.groups)

    def convolve_all(self, x: Tensor, banks: Tensor) -> Tensor:
        """The same for K banks at once: filters ``(K, out, in / groups, ...)`` to ``(batch, K, out, ...)``."""
        k, out = banks.shape[:2]
        if self.groups == 1:
            return self.convolve(x, banks.flatten(0, 1)).unflatten(1, (k, out))
        part = out // self.groups  # each group of torch's convolution has its own filters of every bank
        grouped = banks.unflatten(1, (self.groups, part)).transpose(0, 1).flatten(0, 2)
        y = self.convolve(x, grouped).unflatten(1, (self.groups, k, part))
        return y.transpose(1, 2).flatten(2, 3)


def geometry_of(conv: StrictConv) -> Geometry:
    """The geometry of a convolution."""
    if isinstance(conv, TYPED):
        s = conv.stencil
        both = tuple((p, p) for p in s.padding)
        return Geometry(s.kernel_size, s.stride, s.dilation, both, conv.padding_mode, conv.groups)
    if conv.padding == "same":
        total = [d * (k - 1) for k, d in zip(conv.kernel_size, conv.dilation, strict=True)]
        both = tuple((t // 2, t - t // 2) for t in total)
    elif isinstance(conv.padding, str):
        both = ((0, 0),) * len(conv.kernel_size)
    else:
        both = tuple((p, p) for p in conv.padding)
    return Geometry(conv.kernel_size, conv.stride, conv.dilation, both, conv.padding_mode, conv.groups)


def types_of(conv: StrictConv) -> tuple[FieldType, FieldType]:
    """Its field types; channels of torch's are scalars on the grid with the trivial group."""
    if isinstance(conv, TYPED):
        return conv.in_type, conv.out_type
    dimension = len(conv.kernel_size)
    return _scalars(dimension, conv.in_channels), _scalars(dimension, conv.out_channels)


@lru_cache(256)
def _scalars(dimension: int, channels: int) -> FieldType:
    nothing = Cyclic(1)
    still = direct_sum([nothing.trivial] * dimension)
    grid = (Grid1d, Grid2d, Grid3d)[dimension - 1](nothing, action=None if dimension == 2 else still)
    return grid.field(f"{channels}*trivial")


def claim_of(conv: StrictConv) -> Strict:
    """What the convolution promises."""
    claim = conv.claim if isinstance(conv, TYPED) else Exact()
    return claim if isinstance(claim, Exact | Approximate) else Exact()


def filters_of(conv: StrictConv) -> Tensor:
    """``(out, in / groups, *kernel_size)``, differentiable."""
    return conv.filter_and_bias()[0] if isinstance(conv, TYPED) else conv.weight


def bias_of(conv: StrictConv) -> Tensor | None:
    """``(out,)``, or None."""
    if not isinstance(conv, TYPED):
        return conv.bias
    return None if conv.bias is None else conv.invariants(conv.bias)


def weights_of(conv: StrictConv) -> list[Tensor]:
    """The free weights of its filter."""
    return list(conv.weights) if isinstance(conv, TYPED) else [conv.weight]


def without_bias(conv: StrictConv) -> StrictConv:
    """A copy that shares nothing and has no bias."""
    twin = deepcopy(conv)
    twin.bias = None
    return twin


@torch.no_grad()
def zeroed(conv: StrictConv) -> StrictConv:
    """A copy without bias whose filter is 0."""
    twin = without_bias(conv)
    for weight in weights_of(twin):
        weight.zero_()
    return twin


def full_filters(filters: Tensor, groups: int) -> Tensor:
    """The filters of a grouped convolution with the zeros written out: ``(out, in, *kernel_size)``."""
    if groups == 1:
        return filters
    out, part = filters.shape[:2]
    whole = filters.new_zeros(out, part * groups, *filters.shape[2:])
    each = out // groups
    for g in range(groups):
        whole[g * each : (g + 1) * each, g * part : (g + 1) * part] = filters[g * each : (g + 1) * each]
    return whole


def require_strict_conv(who: str, conv: object) -> StrictConv:
    """The convolution, or an error that says what can be relaxed."""
    if isinstance(conv, TYPED + PLAIN) and not getattr(conv, "transposed", False):
        return conv
    raise InputError(
        who,
        expected="a convolution: intertwine.nn.Conv2d or Conv3d, torch.nn.Conv1d, Conv2d or Conv3d",
        got=type(conv).__name__,
    )
