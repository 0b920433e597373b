"""Low-rank locally connected layers whose combining weights are read off the input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from ..._checked import Floats, checked
from ...nn import register_layer
from ...spaces import FieldType
from .._kernel_shares import LocalKernels
from .._places import Padding, Pair
from .._relaxed_layer import RelaxedLayer, add_noise_
from ._combining import Normalize, apart_from_mean, normalized
from ._combining_network import CombiningNetwork
from ._low_rank_banks import Each, LowRankBanks, stacked_outputs


@register_layer
class InputLowRankLocalConv2d(LowRankBanks):
    """y[o, i, j] = ⟨Σ_k w_k(x)(i, j) f_k[o], P(i, j)⟩ + s(i, j) + b[o], with w(x) = softmax over k of g(x).

    As :class:`LowRankLocalConv2d`, but the weights that combine the K filter banks come from a small network g of the
    input itself, see :class:`CombiningNetwork`: where a bank is used can move along with what is seen. The spatial bias
    is a full map.

    Shapes: ``(batch, in_channels, H, W)`` to ``(batch, out_channels, Ho, Wo)``.

    Equivariance: g is built from convolutions, but it stretches their outputs to Ho x Wo and therefore does not commute
    with translations exactly. The layer does, by whole strides and away from the border, where g is constant and the
    spatial bias too.

    Args:
        in_type: scalars on the plane, or their number.
        out_type: the same for the output.
        kernel_size: height and width of the window; a list gives each bank its own, which needs ``padding="same"``.
        rank: K, from 1 to the number of places.
        input_size: height and width of the images; others are refused.
        stride: between windows.
        padding: pixels, or ``"same"``.
        dilation: spacing of the pixels of a window; a list gives each bank its own.
        normalize: ``softmax``, ``norm`` or ``none``.
        bias: whether the channels have biases b[o].
        spatial_bias: whether there is the spatial bias s.

    >>> layer = InputLowRankLocalConv2d(3, 8, 3, rank=2, input_size=10)
    >>> x = torch.randn(5, 3, 10, 10)
    >>> layer(x).shape, layer.combining_weights(x).shape
    (torch.Size([5, 8, 8, 8]), torch.Size([5, 2, 8, 8]))
    """

    @checked
    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
        kernel_size: Each,
        *,
        rank: int,
        input_size: Pair,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Each = 1,
        normalize: Normalize = "softmax",
        bias: bool = True,
        spatial_bias: bool = True,
    ) -> None:
        super().__init__(
            in_type,
            out_type,
            kernel_size,
            rank=rank,
            input_size=input_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            normalize=normalize,
            bias_sharing="full",
            bias=bias,
            spatial_bias=spatial_bias,
        )
        self.network = CombiningNetwork(self.in_type.dim, rank, self.places.input_size, self.places.output_size)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """Outputs of all banks, combined for each image and place."""
        self.places.check(type(self).__name__, x, self.in_type.dim)
        y = self.combined_outputs(x, self.combining_weights(x))
        return self.with_bias(y)

    def compute(self, x: Tensor) -> Tensor:
        """The map itself, by the outputs of all banks."""
        outputs = stacked_outputs(x, self.banks(), self.windows)
        return self.with_bias((outputs * self.combining_weights(x).unsqueeze(2)).sum(1))

    def combining_weights(self, x: Tensor) -> Tensor:
        """w ``(batch, K, Ho, Wo)`` of these images."""
        return normalized(self.network(x), self.normalize, 1)

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """Sizes with one and with three dilations; banks of different sizes."""
        yield cls(2, 3, 3, rank=2, input_size=7)
        yield cls(2, 3, 3, rank=3, input_size=(9, 11), stride=2, normalize="norm", bias=False)
        yield cls(2, 2, [3, 5], rank=2, input_size=9, padding="same", spatial_bias=False)

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """g becomes constant, with the value it has where its sigmoids are 1/2; the spatial bias becomes its mean."""
        last = self.network.combine
        if last.bias is not None:
            last.bias += last.weight.sum((1, 2, 3)) / 2
        last.weight.zero_()
        if self.spatial is not None:
            self.spatial.fill_(self.spatial().mean((1, 2)))
        return self

    def squared_shares(self) -> Mapping[str, Tensor]:
        """``translation``, for the kernels that the layer chooses on one fixed image of white noise.

        What it chooses depends on the input, so this is one case, not all of them.
        """
        return self.shares_of(self._reference_weights())

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """The combined bank of every place, on the same image of white noise."""
        self.output_sizes(sizes)
        return self.kernels_of(self._reference_weights())

    def _reference_weights(self) -> Tensor:
        like = self.network.combine.weight
        noise = torch.Generator().manual_seed(0)
        image = torch.randn(1, self.in_type.dim, *self.places.input_size, generator=noise, dtype=torch.float64)
        return self.combining_weights(image.to(like))[0]

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """``network``: the norm of the last map of g, which bounds how far logits differ between places.

        ``spatial bias``: the root mean square of s minus its mean.
        """
        own = {"network": float(self.network.combine.weight.norm())}
        if self.spatial is not None:
            own["spatial bias"] = float(apart_from_mean(self.spatial()).square().mean().sqrt())
        return own

    def penalty(self) -> Tensor:
        """The squared norm of the last map of g plus the mean square of s minus its mean."""
        total = self.network.combine.weight.square().sum()
        return total if self.spatial is None else total + apart_from_mean(self.spatial()).square().mean()

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Noise on the last map of g and on the spatial bias."""
        add_noise_(self.network.combine.weight, scale, generator)
        if self.spatial is not None:
            for values in self.spatial.parameters():
                add_noise_(values, scale, generator)
        return self
