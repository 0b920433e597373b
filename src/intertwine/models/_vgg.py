"""VGG11 for small images, plain and with the mirror built in: the networks of Bökman & Kahl (2023).

"Investigating how ReLU-networks encode symmetries", NeurIPS 2023.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from .._checked import Floats, Positive, checked
from ..errors import InputError

WIDTHS = (64, 128, 256, 256, 512, 512, 512, 512)
POOLED = (0, 1, 3, 5, 7)
"""The layers that are followed by a maximum over 2 x 2 pixels."""


class MirrorConv2d(nn.Module):
    """A 3 x 3 convolution that commutes with the mirror along the width, with half the filters of a plain one.

    The channels of a regular field come in mirrored pairs, the first halves before the second. From an image
    (``lifting``) the filters are [K; τK]; between regular fields [[A, B], [τB, τA]], stored as K = [A | B]. The bias is
    shared within a pair.

    Equivariance: with J the exchange of the two halves, conv(τx) = τ J conv(x) for an image x, and
    conv(τJx) = τJ conv(x) for a regular field x. Exact.

    Args:
        in_channels: of the image, or of the regular field (twice its pairs).
        out_channels: twice the pairs.
        lifting: whether the input is an image.

    Shapes: ``(batch, in_channels, height, width)`` to ``(batch, out_channels, height, width)``.

    >>> layer = MirrorConv2d(3, 8, lifting=True)
    >>> x = torch.randn(1, 3, 6, 6)
    >>> torch.allclose(layer(x.flip(3)), layer(x).flip(3).roll(4, 1), atol=1e-6)
    True
    """

    def __init__(self, in_channels: int, out_channels: int, *, lifting: bool) -> None:
        super().__init__()
        _require_even("MirrorConv2d", out_channels if lifting else in_channels, out_channels)
        self.lifting = lifting
        self.weight = nn.Parameter(torch.empty(out_channels // 2, in_channels, 3, 3))
        self.bias = nn.Parameter(torch.empty(out_channels // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As a plain convolution with the same fan-in begins."""
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        bound = self.weight[0].numel() ** -0.5
        nn.init.uniform_(self.bias, -bound, bound)

    def full_weight(self) -> Tensor:
        """All filters, ``(out_channels, in_channels, 3, 3)``."""
        mirrored = self.weight.flip(3)
        if not self.lifting:
            mirrored = mirrored.roll(self.weight.shape[1] // 2, 1)
        return torch.cat([self.weight, mirrored])

    def full_bias(self) -> Tensor:
        """The bias of every channel."""
        return torch.cat([self.bias, self.bias])

    def forward(self, x: Tensor) -> Tensor:
        """The convolution, padded by one pixel."""
        return conv2d(x, self.full_weight(), self.full_bias(), padding=1)


class MirrorHead(nn.Module):
    """A linear map that sees the sum of the two channels of every pair: its output is invariant."""

    def __init__(self, in_features: int, classes: Positive) -> None:
        super().__init__()
        _require_even("MirrorHead", in_features, in_features)
        self.weight = nn.Parameter(torch.empty(classes, in_features // 2))
        self.bias = nn.Parameter(torch.empty(classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As the plain network, which sees twice as many numbers, begins."""
        bound = (2 * self.weight.shape[1]) ** -0.5
        for values in (self.weight, self.bias):
            nn.init.uniform_(values, -bound, bound)

    def full_weight(self) -> Tensor:
        """The tied weights, ``(classes, in_features)``."""
        return torch.cat([self.weight, self.weight], 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        return linear(x, self.full_weight(), self.bias)


class VGG11(nn.Module):
    """Eight 3 x 3 convolutions with ReLU, five maxima over 2 x 2 pixels, a maximum over what is left, a linear map.

    There is no norm. Images of 32 x 32 end at one pixel, so that the last maximum changes nothing.

    Args:
        channels: of the image.
        classes: their number.
        width: a factor for all widths; 1 gives 64, 128, 256, 256, 512, 512, 512, 512.

    Shapes: ``(batch, channels, height, width)`` to ``(batch, classes)``. The maxima commute with mirrors for sizes that
    are multiples of 32; the filters are not symmetric.

    >>> sum(p.numel() for p in VGG11().parameters())
    9225610
    """

    @checked
    def __init__(self, channels: Positive = 3, classes: Positive = 10, *, width: float = 1.0) -> None:
        super().__init__()
        self.features = nn.Sequential(*_layers(channels, width, 0))
        self.classifier: nn.Module = nn.Linear(_widths(width)[-1], classes)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """Scores of the classes."""
        return self.classifier(_features(self.features, x))


class GVGG11(nn.Module):
    """VGG11 with the mirror built into its first layers: into all of them (GCNN) or the first two (PGCNN).

    Args:
        channels: of the image.
        classes: their number.
        width: a factor for all widths, as for :class:`VGG11`.
        mirrored: how many of the eight convolutions commute with the mirror; 8 also ties the classifier, and then the
            output is exactly invariant.

    Shapes: ``(batch, channels, height, width)``, multiples of 32 for exact symmetry, to ``(batch, classes)``.

    >>> [sum(p.numel() for p in GVGG11(mirrored=k).parameters()) for k in (8, 2)]
    [4612810, 9187786]
    """

    @checked
    def __init__(
        self, channels: Positive = 3, classes: Positive = 10, *, width: float = 1.0, mirrored: int = 8
    ) -> None:
        super().__init__()
        if not 1 <= mirrored <= len(WIDTHS):
            raise InputError("GVGG11", expected="1 to 8 mirrored layers", got=str(mirrored), fix="8 is the full GCNN.")
        self.channels, self.classes, self.width = channels, classes, width
        self.features = nn.Sequential(*_layers(channels, width, mirrored))
        last = _widths(width)[-1]
        whole = mirrored == len(WIDTHS)
        self.classifier: nn.Module = MirrorHead(last, classes) if whole else nn.Linear(last, classes)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """Scores of the classes."""
        return self.classifier(_features(self.features, x))

    def to_plain(self) -> VGG11:
        """The same function with all filters written out, as a plain VGG11.

        >>> net = GVGG11(width=0.0625)
        >>> x = torch.randn(2, 3, 32, 32)
        >>> torch.allclose(net(x), net.to_plain()(x), atol=1e-5)
        True
        """
        plain = VGG11(self.channels, self.classes, width=self.width)
        own, others = [*self.features, self.classifier], [*plain.features, plain.classifier]
        for old, new in zip(own, others, strict=True):
            if isinstance(old, MirrorConv2d):
                state = {"weight": old.full_weight(), "bias": old.full_bias()}
            elif isinstance(old, MirrorHead):
                state = {"weight": old.full_weight(), "bias": old.bias}
            else:
                state = old.state_dict()
            new.load_state_dict(state)
        example = next(self.parameters())
        return plain.to(example.device, example.dtype).train(self.training)

    def partners(self) -> list[Tensor]:
        """For each mirrored convolution, the channel that the mirror exchanges each output channel with."""
        pairs = [len(m.weight) for m in self.features if isinstance(m, MirrorConv2d)]
        return [torch.arange(2 * n).roll(n) for n in pairs]


def _widths(width: float) -> list[int]:
    if not 0 < width < math.inf:
        raise InputError("VGG11", expected="a finite width above 0", got=str(width))
    return [max(2, 2 * round(w * width / 2)) for w in WIDTHS]


def _layers(channels: Positive, width: float, mirrored: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    before = channels
    for k, after in enumerate(_widths(width)):
        layer = MirrorConv2d(before, after, lifting=k == 0) if k < mirrored else nn.Conv2d(before, after, 3, padding=1)
        layers += [layer, nn.ReLU(), *([nn.MaxPool2d(2)] if k in POOLED else [])]
        before = after
    return layers


def _features(layers: nn.Sequential, x: Tensor) -> Tensor:
    if x.ndim != 4 or min(x.shape[-2:]) < 32:
        raise InputError(
            "VGG11",
            expected="images of at least 32 x 32",
            got=f"{x.shape[-2]} x {x.shape[-1]}" if x.ndim == 4 else f"shape {tuple(x.shape)}",
            fix="Pad or resize the images.",
        )
    return layers(x).amax((2, 3))


def _require_even(who: str, *sizes: int) -> None:
    if any(n % 2 for n in sizes):
        raise InputError(who, expected="even numbers of channels, for pairs", got=str(sizes), fix="Round them to even.")
