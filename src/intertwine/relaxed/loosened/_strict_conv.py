"""One interface for strict convolutions: ours between field types, and torch's between channels."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...groups import Cyclic, direct_sum
from ...nn import Approximate, Conv2d, Conv3d, Exact, Layer, Strict, Window
from ...spaces import FieldType, Grid1d, Grid2d, Grid3d

TYPED = (Conv2d, Conv3d)
PLAIN = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
StrictConv = Conv2d | Conv3d | nn.Conv1d | nn.Conv2d | nn.Conv3d


def window_of(conv: StrictConv) -> Window:
    """How a convolution slides over its input."""
    if isinstance(conv, TYPED):
        return conv.window
    window = Window.of(
        conv.kernel_size,
        stride=conv.stride,
        padding=0 if isinstance(conv.padding, str) else conv.padding,
        dilation=conv.dilation,
        padding_mode=conv.padding_mode,
        dimension=len(conv.kernel_size),
    )
    return window.same() if conv.padding == "same" else window


def strict_sizes(caller: str, conv: nn.Module, window: Window, sizes: Sequence[int]) -> tuple[int, ...]:
    """Output sizes of a convolution with this window; typed convolutions also require symmetric centers."""
    if isinstance(conv, Layer):
        return conv.output_sizes(sizes)
    window.require_room(caller, sizes)
    return window.output_sizes(sizes)


def convolve_all(window: Window, x: Tensor, banks: Tensor, groups: int) -> Tensor:
    """K convolutions at once: filters ``(K, out, in / groups, ...)`` to ``(batch, K, out, ...)``."""
    k, out = banks.shape[:2]
    if groups == 1:
        return window.convolve(x, banks.flatten(0, 1)).unflatten(1, (k, out))
    part = out // groups  # in a grouped convolution, each group holds its filters of all banks
    grouped = banks.unflatten(1, (groups, part)).transpose(0, 1).flatten(0, 2)
    y = window.convolve(x, grouped, groups=groups).unflatten(1, (groups, k, part))
    return y.transpose(1, 2).flatten(2, 3)


def types_of(conv: StrictConv) -> tuple[FieldType, FieldType]:
    """The field types; channels of torch's convolutions are scalars on the grid with the trivial group."""
    if isinstance(conv, TYPED):
        return conv.in_type, conv.out_type
    dimension = len(conv.kernel_size)
    return _scalars(dimension, conv.in_channels), _scalars(dimension, conv.out_channels)


@lru_cache(256)
def _scalars(dimension: int, channels: int) -> FieldType:
    identity = Cyclic(1)
    action = direct_sum([identity.trivial] * dimension)
    grid = (Grid1d, Grid2d, Grid3d)[dimension - 1](identity, action=None if dimension == 2 else action)
    return grid.field(f"{channels}*trivial")


def claim_of(conv: StrictConv) -> Strict:
    """The claim of the convolution."""
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
    """The free weights of the filter."""
    return list(conv.weights) if isinstance(conv, TYPED) else [conv.weight]


def without_bias(conv: StrictConv) -> StrictConv:
    """A copy that shares nothing and has no bias."""
    twin = deepcopy(conv)
    twin.bias = None
    return twin


@torch.no_grad()
def zeroed(conv: StrictConv) -> StrictConv:
    """A copy with a zero filter and no bias."""
    twin = without_bias(conv)
    for weight in weights_of(twin):
        weight.zero_()
    return twin


def full_filters(filters: Tensor, groups: int) -> Tensor:
    """The filters of a grouped convolution as dense filters with zeros: ``(out, in, *kernel_size)``."""
    if groups == 1:
        return filters
    out, part = filters.shape[:2]
    dense = filters.new_zeros(out, part * groups, *filters.shape[2:])
    each = out // groups
    for g in range(groups):
        dense[g * each : (g + 1) * each, g * part : (g + 1) * part] = filters[g * each : (g + 1) * each]
    return dense


def require_strict_conv(caller: str, conv: object) -> StrictConv:
    """The convolution, or an error that says what can be relaxed."""
    if isinstance(conv, Conv2d) and conv.on_hexagon:
        raise InputError(
            caller,
            expected="circular padding on the hexagonal lattice",
            got="zero padding, with which the layer works on a hexagon",
        )
    if isinstance(conv, TYPED + PLAIN) and not getattr(conv, "transposed", False):
        return conv
    raise InputError(
        caller,
        expected="a convolution: intertwine.nn.Conv2d or Conv3d, torch.nn.Conv1d, Conv2d or Conv3d",
        got=type(conv).__name__,
    )
