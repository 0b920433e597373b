"""A residual network after He, Zhang, Ren & Sun (2016), with other 3 x 3 layers in its last blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from ...errors import InputError
from ...relaxed import InputLowRankLocalConv2d, LocallyConnected2d, LowRankLocalConv2d, SpatialBias2d

KINDS = ("conv", "spatial-bias", "low-rank", "input-low-rank", "local", "wide")
_RANKED = ("low-rank", "input-low-rank", "wide")
_EXPANSION = 4


class Bottleneck(nn.Module):
    """1 x 1 to fewer channels, a 3 x 3 layer, 1 x 1 to four times as many, plus the input.

    Shapes: ``(batch, before, side, side)`` to ``(batch, 4 width, side', side')`` with side' = ⌈side / stride⌉.
    """

    def __init__(self, before: int, width: int, middle: nn.Module, middle_width: int, stride: int) -> None:
        super().__init__()
        after = _EXPANSION * width
        last = nn.BatchNorm2d(after)
        nn.init.zeros_(last.weight)  # a block that starts by adding nothing is easier to train
        self.body = nn.Sequential(
            _conv(before, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            middle,
            nn.BatchNorm2d(middle_width),
            nn.ReLU(),
            _conv(middle_width, after, 1),
            last,
        )
        same = stride == 1 and before == after
        self.shortcut = nn.Identity() if same else nn.Sequential(_conv(before, after, 1, stride), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        y: Tensor = (self.body(x) + self.shortcut(x)).relu()
        return y


class LowRankResNet(nn.Module):
    """A residual network of bottlenecks; its last ``exchanged`` blocks use 3 x 3 layers of the kind under study.

    With blocks (3, 4, 6, 3), width 64 and nothing exchanged, this is ResNet-50. The wide convolution has as many
    weights as the low-rank layer of this rank, counting the 1 x 1 layer after it.

    Args:
        channels: channels of the image.
        size: height and width of the image.
        classes: the number of classes.
        layer: ``conv``, ``spatial-bias``, ``low-rank``, ``input-low-rank``, ``local`` or ``wide``.
        rank: the rank of low-rank layers, or the rank that ``wide`` matches in size.
        exchanged: the number of exchanged blocks, counted from the end.
        blocks: the number of blocks per stage; every stage but the first halves the sides.
        width: channels of the 3 x 3 layers in the first stage; they double from stage to stage.
        stem: ``large`` starts with 7 x 7 and halves the sides twice, ``small`` starts with 3 x 3.
        normalize: normalization of combining weights.
        sharing: sharing of combining weights and spatial biases.
        init: initialization of combining weights.
        lc_init: initialization of locally connected layers.

    Shapes: ``(batch, channels, size, size)`` to ``(batch, classes)``.

    >>> net = LowRankResNet(3, 224, 1000)
    >>> sum(p.numel() for p in net.parameters())
    25557032
    """

    def __init__(
        self,
        channels: int,
        size: int,
        classes: int,
        *,
        layer: str = "conv",
        rank: int | None = None,
        exchanged: int = 3,
        blocks: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        stem: Literal["large", "small"] = "large",
        normalize: Literal["softmax", "norm", "none"] = "softmax",
        sharing: Literal["factorized", "full", "rows", "columns"] = "factorized",
        init: Literal["structured", "random"] = "structured",
        lc_init: Literal["keras", "per_position"] = "keras",
    ) -> None:
        super().__init__()
        if layer not in KINDS or (layer in _RANKED) != (rank is not None):
            raise InputError(
                "LowRankResNet",
                expected=f"a layer among {', '.join(KINDS)}, with a rank for {', '.join(_RANKED)} only",
                got=f"layer={layer!r}, rank={rank}",
            )
        if not 0 <= exchanged <= sum(blocks):
            raise InputError(
                "LowRankResNet",
                expected=f"between 0 and {sum(blocks)} exchanged blocks",
                got=str(exchanged),
            )
        banks: dict[str, Any] = {"rank": rank, "normalize": normalize, "bias": False}

        def middle(inner: int, side: int, stride: int, kind: str) -> tuple[nn.Module, int]:
            """The 3 x 3 layer of a block, and its number of output channels."""
            shape: dict[str, Any] = {"input_size": side, "stride": stride, "padding": 1}
            if kind == "low-rank":
                return LowRankLocalConv2d(inner, inner, 3, sharing=sharing, init=init, **shape, **banks), inner
            if kind == "input-low-rank":
                return InputLowRankLocalConv2d(inner, inner, 3, **shape, **banks), inner
            if kind == "local":
                return LocallyConnected2d(inner, inner, 3, lc_init=lc_init, **shape), inner
            if kind == "spatial-bias":
                after = (side - 1) // stride + 1
                bias = SpatialBias2d(inner, input_size=after, sharing=sharing)
                return nn.Sequential(_conv(inner, inner, 3, stride), bias), inner
            wide = wide_middle(inner, rank or 1) if kind == "wide" else inner
            return _conv(inner, wide, 3, stride), wide

        self.channels, self.size = channels, size
        body: list[nn.Module]
        if stem == "large":
            body = [_conv(channels, width, 7, 2), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
            side = ((size - 1) // 2) // 2 + 1
        else:
            body, side = [_conv(channels, width, 3), nn.BatchNorm2d(width), nn.ReLU()], size
        before, remaining = width, sum(blocks)
        for stage, count in enumerate(blocks):
            inner = width * 2**stage
            for number in range(count):
                stride = 2 if stage and not number else 1
                kind = layer if remaining <= exchanged else "conv"
                middle_layer, middle_width = middle(inner, side, stride, kind)
                body.append(Bottleneck(before, inner, middle_layer, middle_width, stride))
                before, side, remaining = _EXPANSION * inner, (side - 1) // stride + 1, remaining - 1
        self.features = nn.Sequential(*body)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        if x.dim() != 4 or tuple(x.shape[1:]) != (self.channels, self.size, self.size):
            raise InputError(
                "LowRankResNet",
                expected=f"images ({self.channels}, {self.size}, {self.size})",
                got=str(tuple(x.shape[1:])),
                fix="Build the network for the size of the images.",
            )
        scores: Tensor = self.head(self.features(x).mean((2, 3)))
        return scores


def wide_middle(width: int, rank: int) -> int:
    """Channels C' with 9 C C' + 4 C C' = 9 K C² + 4 C²: as many weights as rank K, with the 1 x 1 layer after it.

    >>> [wide_middle(512, k) for k in (1, 2, 4)]
    [512, 866, 1575]
    """
    return width * (9 * rank + _EXPANSION) // (9 + _EXPANSION)


def _conv(before: int, after: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    bound = math.sqrt(6 / (before * kernel**2))
    nn.init.uniform_(conv.weight, -bound, bound)
    return conv
