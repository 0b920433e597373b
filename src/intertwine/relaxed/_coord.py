"""A convolution that is told where it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from .._checked import Floats, checked
from ..errors import InputError
from ._local_window import LocalWindow, Pair, add_noise_, channel_count, pair, random_images, stride_motion
from ._relaxed import Relaxed, SampleMotion, register_relaxed

_SAMPLE = 9


@register_relaxed
class CoordConv2d(Relaxed):
    """A convolution of the input with two more channels: the row, and the column, each from -1 to 1.

    The part of the output that comes from the coordinates does not depend on the input, and is computed once for a
    batch.

    Shapes: ``(batch, in_channels, H, W)`` to ``(batch, out_channels, Ho, Wo)``, as ``torch.nn.Conv2d``; images of any
    size. ``weight`` is ``(out_channels, in_channels + 2, kh, kw)``, the coordinates last.

    Equivariance: commutes with translations by whole strides, away from the border, exactly where the weights on the
    coordinates are 0.

    Args:
        in_channels: of the input, without the coordinates.
        out_channels: of the output.
        kernel_size: height and width of the filters.
        stride: as for ``torch.nn.Conv2d``.
        padding: pixels.
        bias: whether the channels have biases.

    >>> layer = CoordConv2d(3, 8, 3)
    >>> layer(torch.zeros(2, 3, 10, 10)).shape, layer.weight.shape
    (torch.Size([2, 8, 8, 8]), torch.Size([8, 5, 3, 3]))
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        *,
        stride: Pair = 1,
        padding: Pair = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.in_channels = channel_count(who, "in_channels", in_channels)
        self.out_channels = channel_count(who, "out_channels", out_channels)
        self.kernel_size = pair(who, "kernel_size", kernel_size)
        self.stride, self.padding = pair(who, "stride", stride), pair(who, "padding", padding, least=0)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels + 2, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights by He's rule; the bias is 0."""
        bound = math.sqrt(6 / self.weight[0].numel())
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The convolution of the input plus that of the coordinates."""
        if x.dim() != 4 or x.shape[1] != self.in_channels:
            raise InputError(
                type(self).__name__,
                expected=f"(batch, {self.in_channels}, height, width)",
                got=str(tuple(x.shape)),
                fix="The layer adds the two coordinates itself.",
            )
        seen, placed = self.weight.split([self.in_channels, 2], 1)
        where = coordinates((x.shape[2], x.shape[3]), x)
        fixed = conv2d(where[None], placed, self.bias, self.stride, self.padding)
        return conv2d(x, seen, None, self.stride, self.padding) + fixed

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"

    @classmethod
    def examples(cls) -> Iterator[Relaxed]:
        """With stride and with padding."""
        yield cls(2, 3, 3)
        yield cls(2, 3, 3, stride=2, bias=False)
        yield cls(1, 2, (3, 2), padding=1)

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """The weights on the coordinates become 0."""
        self.weight[:, self.in_channels :] = 0
        return self

    @torch.no_grad()
    def relaxation(self) -> Mapping[str, float]:
        """``translation``: the norm of the weights on the coordinates."""
        return {"translation": float(self.penalty().sqrt())}

    def penalty(self) -> Tensor:
        """The squared norm of the weights on the coordinates."""
        return self.weight[:, self.in_channels :].square().sum()

    def perturb_(self, scale: float, generator: torch.Generator | None = None) -> Self:
        """Noise on the weights on the coordinates."""
        with torch.no_grad():
            add_noise_(self.weight[:, self.in_channels :], scale, generator)
        return self

    def sample_input(self, generator: torch.Generator | None = None) -> Tensor:
        """White noise, three images."""
        return random_images((3, self.in_channels, _SAMPLE, _SAMPLE), self.weight, generator)

    def sample_motions(self) -> Mapping[str, SampleMotion]:
        """A shift by one stride, on images of the size of the sample."""
        window = LocalWindow.of(
            type(self).__name__, _SAMPLE, self.kernel_size, stride=self.stride, padding=self.padding
        )
        return {"translation": stride_motion(window)}


def coordinates(size: tuple[int, int], like: Tensor) -> Tensor:
    """Row and column ``(2, H, W)``, each from -1 to 1, in the precision and on the device of ``like``.

    >>> coordinates((2, 3), torch.zeros(1))[1]
    tensor([[-1.,  0.,  1.],
            [-1.,  0.,  1.]])
    """
    ends = [torch.linspace(-1, 1, n, dtype=like.dtype, device=like.device) for n in size]
    return torch.stack(torch.meshgrid(*ends, indexing="ij"))
