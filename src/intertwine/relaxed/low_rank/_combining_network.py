"""The network g that computes combining weights from the input at each position."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..._checked import Positive, checked
from ...nn import Window

RATES = (1, 2, 4, 8)
_BRANCHES = 2 + len(RATES)


class CombiningNetwork(nn.Module):
    """Logits ``(batch, K, Ho, Wo)`` from an input ``(batch, Ci, H, W)``.

    1. z is a 1 x 1 convolution of the input to K channels.
    2. z, its mean over the image, and depthwise 3 x 3 convolutions of z with dilations 1, 2, 4 and 8 without padding,
       are resized to Ho x Wo by bilinear interpolation with aligned corners. Dilation r is omitted if the image is
       smaller than 2 r + 1.
    3. A 1 x 1 convolution to 3 K channels and a ReLU, one to 6 K and a sigmoid, and a last one to K.

    Initial weights are Glorot-uniform, and biases are 0.

    Args:
        in_channels: Ci.
        rank: K.
        input_size: H and W.
        output_size: Ho and Wo.

    >>> g = CombiningNetwork(64, 4, (28, 28), (26, 26))
    >>> g(torch.zeros(2, 64, 28, 28)).shape, sum(p.numel() for p in g.parameters())
    (torch.Size([2, 4, 26, 26]), 1132)
    """

    @checked
    def __init__(
        self, in_channels: Positive, rank: Positive, input_size: tuple[int, int], output_size: tuple[int, int]
    ) -> None:
        super().__init__()
        self.input_size, self.output_size = input_size, output_size
        self._sizes = dilated_sizes(input_size)
        self.rates = tuple(self._sizes)
        self.reduce = nn.Conv2d(in_channels, rank, 1)
        self.dilated = nn.ModuleList(nn.Conv2d(rank, rank, 3, dilation=rate, groups=rank) for rate in self.rates)
        self.squeeze = nn.Conv2d((2 + len(self.rates)) * rank, _BRANCHES * rank // 2, 1)
        self.excite = nn.Conv2d(_BRANCHES * rank // 2, _BRANCHES * rank, 1)
        self.combine = nn.Conv2d(_BRANCHES * rank, rank, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform weights, biases 0."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.xavier_uniform_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        z = self.reduce(x)
        context = z.mean((-2, -1), keepdim=True).expand(-1, -1, *self.output_size)
        sizes = self._sizes.values()
        dilated = [self._resized(layer(z), size) for layer, size in zip(self.dilated, sizes, strict=True)]
        branches = [self._resized(z, self.input_size), context, *dilated]
        hidden = self.squeeze(torch.cat(branches, 1)).relu()
        logits: Tensor = self.combine(self.excite(hidden).sigmoid())
        return logits

    def _resized(self, maps: Tensor, size: tuple[int, ...]) -> Tensor:
        """Resize maps of this size to Ho x Wo."""
        if size == self.output_size:
            return maps
        return interpolate(maps, size=self.output_size, mode="bilinear", align_corners=True)


def dilated_sizes(input_size: tuple[int, int]) -> dict[int, tuple[int, ...]]:
    """The output size of a 3 x 3 window, by dilation, for the dilations that fit the image."""
    sizes = {rate: Window.of(3, dilation=rate).output_sizes(input_size) for rate in RATES}
    return {rate: size for rate, size in sizes.items() if min(size) > 0}
