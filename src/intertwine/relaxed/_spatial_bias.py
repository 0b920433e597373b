"""A bias that depends on the place: the smallest step away from translation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

import torch
from torch import Tensor, nn

from .._checked import Floats, checked
from ._combining import SHARING, PlaceTable, Sharing, apart_from_mean
from ._local_window import LocalWindow, Pair, add_noise_, channel_count, random_images, stride_motion
from ._relaxed import Relaxed, SampleMotion, register_relaxed


@register_relaxed
class SpatialBias2d(Relaxed):
    """y[o, i, j] = x[o, i, j] + s(i, j) + b[o], with the same s for all channels and s(i, j) = r(i) + c(j) by default.

    After a convolution it gives a convolution with spatial bias. Because s is the same in every channel, a batch norm
    that follows removes only its mean.

    Shapes: ``(batch, channels, H, W)`` to the same.

    Equivariance: commutes with translations, away from the border, exactly where s is constant.

    Args:
        channels: of the input.
        input_size: height and width of the maps; others are refused.
        sharing: ``factorized`` r(i) + c(j), ``full`` s(i, j), ``rows`` r(i) or ``columns`` c(j).
        bias: whether there is the bias b of the channels too.

    >>> layer = SpatialBias2d(8, input_size=(5, 6))
    >>> layer(torch.zeros(2, 8, 5, 6)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([2, 8, 5, 6]), 11)
    """

    @checked
    def __init__(self, channels: int, *, input_size: Pair, sharing: Sharing = "factorized", bias: bool = False) -> None:
        super().__init__()
        who = type(self).__name__
        self.channels = channel_count(who, "channels", channels)
        self.window = LocalWindow.of(who, input_size, 1)
        self.spatial = PlaceTable(1, self.window.output_size, sharing)
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None

    def reset_parameters(self) -> None:
        """No bias; the table has a method of its own."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The input with the bias added."""
        self.window.check(type(self).__name__, x, self.channels)
        return x + spatial_map(self.spatial, self.bias)

    @classmethod
    def examples(cls) -> Iterator[Relaxed]:
        """All kinds of sharing."""
        for sharing in SHARING:
            yield cls(2, input_size=(6, 5), sharing=sharing, bias=sharing == "full")

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """s becomes its mean."""
        self.spatial.fill_(self.spatial().mean((1, 2)))
        return self

    @torch.no_grad()
    def relaxation(self) -> Mapping[str, float]:
        """``translation``: the root mean square of s minus its mean."""
        return {"translation": float(self.penalty().sqrt())}

    def penalty(self) -> Tensor:
        """The mean square of s minus its mean."""
        return apart_from_mean(self.spatial()).square().mean()

    def perturb_(self, scale: float, generator: torch.Generator | None = None) -> Self:
        """Noise on s."""
        for values in self.spatial.parameters():
            add_noise_(values, scale, generator)
        return self

    def sample_input(self, generator: torch.Generator | None = None) -> Tensor:
        """White noise, three maps."""
        return random_images((3, self.channels, *self.window.input_size), next(self.parameters()), generator)

    def sample_motions(self) -> Mapping[str, SampleMotion]:
        """A shift by one place."""
        return {"translation": stride_motion(self.window)}


def spatial_map(spatial: PlaceTable | None, channels: Tensor | None) -> Tensor:
    """s(i, j) + b[o], of a shape that broadcasts over ``(batch, o, i, j)``; the number 0 where there is neither."""
    if spatial is None:
        return torch.zeros(()) if channels is None else channels[:, None, None]
    return spatial() if channels is None else spatial() + channels[:, None, None]
