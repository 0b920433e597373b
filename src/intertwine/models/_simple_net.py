"""The network of Elsayed, Ramachandran, Shlens & Kornblith (2020), in which one layer at a time is replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from .._checked import Floats, Positive, checked
from ..errors import InputError
from ..relaxed import (
    CoordConv2d,
    InputLowRankLocalConv2d,
    LocallyConnected2d,
    LowRankLocalConv2d,
    SpatialBias2d,
    wide_conv_width,
)

Kind = Literal["conv", "conv-fc", "coord", "spatial-bias", "low-rank", "input-low-rank", "local", "wide"]
KINDS: tuple[Kind, ...] = (
    "conv",
    "conv-fc",
    "coord",
    "spatial-bias",
    "low-rank",
    "input-low-rank",
    "local",
    "wide",
)
_FIXED_PLACE = ("conv", "conv-fc", "coord")  # kinds without a choice of block
_RANKED = ("low-rank", "input-low-rank", "wide")
_KERNEL = 3
_BLOCKS = 3


class SimpleNet(nn.Module):
    """Three blocks of a 3 x 3 layer without padding, batch norm and ReLU; a mean over the image; a linear map.

    All layers are convolutions, except those at ``where``, which are of the kind under study:

    - ``conv``: none; ``conv-fc``: the linear map reads all positions instead of their mean;
    - ``coord``: the first layer also gets the coordinates;
    - ``spatial-bias``: a convolution with a bias r(i) + c(j);
    - ``low-rank``, ``input-low-rank``: filter banks mixed differently at every position, by fixed weights or by weights
      computed from the input;
    - ``local``: a separate filter bank at every position;
    - ``wide``: a convolution with as many weights as a low-rank layer of this rank, see
      :func:`intertwine.relaxed.wide_conv_width`.

    Args:
        channels: the channels of the image.
        size: the height and width of the image.
        classes: the number of classes.
        layer: the kind under study.
        where: the block that has it: 1, 2, 3 or ``all``; only for kinds with a choice.
        rank: the rank of low-rank layers, or the rank that ``wide`` matches.
        width: the channels of a block.
        strides: the strides of the three layers.
        normalize: how combining weights are normalized: ``softmax``, ``norm`` or ``none``.
        sharing: how combining weights and spatial biases are shared: ``factorized``, ``full``, ``rows`` or ``columns``.
        init: how combining weights are initialized: ``structured`` or ``random``.
        lc_init: how locally connected layers are initialized: ``keras``, as published, or ``per_position``.

    Shapes: ``(batch, channels, size, size)`` to ``(batch, classes)``.

    >>> import torch
    >>> net = SimpleNet(3, 32, 10, layer="low-rank", where=3, rank=4)
    >>> sum(p.numel() for p in net.parameters())
    187342
    >>> net.eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """

    @checked
    def __init__(
        self,
        channels: Positive,
        size: int,
        classes: Positive,
        *,
        layer: Kind = "conv",
        where: int | Literal["all"] | None = None,
        rank: int | None = None,
        width: int = 64,
        strides: Sequence[int] = (1, 1, 1),
        normalize: Literal["softmax", "norm", "none"] = "softmax",
        sharing: Literal["factorized", "full", "rows", "columns"] = "factorized",
        init: Literal["structured", "random"] = "structured",
        lc_init: Literal["keras", "per_position"] = "keras",
    ) -> None:
        super().__init__()
        studied = _blocks_studied(layer, where)
        banks = _checked_rank(layer, rank)
        if len(strides) != _BLOCKS:
            raise InputError("SimpleNet", expected="three strides", got=repr(strides), fix="For example (2, 2, 1).")

        def build(block: int, before: int, side: int, stride: int) -> nn.Module:
            """The layer of a block."""
            kind = layer if block in studied else "conv"
            if kind == "coord":
                return CoordConv2d(before, width, _KERNEL, stride=stride, bias=False)
            if kind == "spatial-bias":
                after = (side - _KERNEL) // stride + 1
                return nn.Sequential(
                    _conv(before, width, stride), SpatialBias2d(width, input_size=after, sharing=sharing)
                )
            if kind == "low-rank":
                return LowRankLocalConv2d(
                    *(before, width, _KERNEL),
                    rank=banks,
                    input_size=side,
                    stride=stride,
                    normalize=normalize,
                    sharing=sharing,
                    bias=False,
                    init=init,
                )
            if kind == "input-low-rank":
                return InputLowRankLocalConv2d(
                    *(before, width, _KERNEL),
                    rank=banks,
                    input_size=side,
                    stride=stride,
                    normalize=normalize,
                    bias=False,
                )
            if kind == "local":
                return LocallyConnected2d(before, width, _KERNEL, input_size=side, stride=stride, lc_init=lc_init)
            if kind == "wide":
                return _conv(before, wide_conv_width(before, width, banks, last=block == _BLOCKS), stride)
            return _conv(before, width, stride)

        self.channels, self.size = channels, size
        modules: list[nn.Module] = []
        before, side = channels, size
        for block, stride in enumerate(strides, 1):
            if side < _KERNEL:
                raise InputError(
                    "SimpleNet",
                    expected="images large enough for three layers without padding",
                    got=f"{size} x {size} with strides {tuple(strides)}",
                    fix="Use larger images or smaller strides.",
                )
            body = build(block, before, side, stride)
            is_wide = layer == "wide" and block in studied
            before = wide_conv_width(before, width, banks, last=block == _BLOCKS) if is_wide else width
            side = (side - _KERNEL) // stride + 1
            modules += [body, nn.BatchNorm2d(before), nn.ReLU()]
        self.features = nn.Sequential(*modules)
        self.pool = nn.Identity() if layer == "conv-fc" else nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before * (side * side if layer == "conv-fc" else 1), classes)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images."""
        if x.dim() != 4 or tuple(x.shape[1:]) != (self.channels, self.size, self.size):
            raise InputError(
                "SimpleNet",
                expected=f"images ({self.channels}, {self.size}, {self.size})",
                got=str(tuple(x.shape[1:])),
                fix="Build the network for the size of the images.",
            )
        scores: Tensor = self.head(self.pool(self.features(x)).flatten(1))
        return scores


def _conv(before: int, after: int, stride: int) -> nn.Conv2d:
    conv = nn.Conv2d(before, after, _KERNEL, stride, bias=False)
    bound = math.sqrt(6 / (before * _KERNEL**2))
    nn.init.uniform_(conv.weight, -bound, bound)
    return conv


def _blocks_studied(layer: str, where: int | str | None) -> tuple[int, ...]:
    if layer in _FIXED_PLACE:
        if where is not None:
            raise InputError("SimpleNet", expected=f"no where= for layer {layer!r}", got=f"where={where!r}")
        return (1,) if layer == "coord" else ()
    if where == "all" and layer != "wide":
        return tuple(range(1, _BLOCKS + 1))
    if not isinstance(where, int) or not 1 <= where <= _BLOCKS:
        allowed = "1, 2 or 3" if layer == "wide" else "1, 2, 3 or 'all'"
        raise InputError("SimpleNet", expected=f"where={allowed} for layer {layer!r}", got=f"where={where!r}")
    return (where,)


def _checked_rank(layer: str, rank: int | None) -> int:
    if (layer in _RANKED) != (rank is not None):
        requirement = "a rank" if layer in _RANKED else "no rank"
        raise InputError("SimpleNet", expected=f"{requirement} for layer {layer!r}", got=f"rank={rank}")
    return rank if rank is not None else 1
