"""A bias that depends on the place: the smallest step away from translation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from ..._checked import Floats, checked
from ...nn import register_layer
from ...spaces import FieldType
from .._kernel_shares import TRANSLATION, LocalKernels
from .._places import Pair, Places
from .._relaxed_layer import RelaxedLayer, add_noise_, scalars
from ._combining import SHARING, PlaceTable, Sharing, apart_from_mean
from ._local import require_trivial_group


@register_layer
class SpatialBias2d(RelaxedLayer):
    """y[o, i, j] = x[o, i, j] + s(i, j) + b[o], with the same s for all channels and s(i, j) = r(i) + c(j) by default.

    After a convolution it gives a convolution with spatial bias. Because s is the same in every channel, a batch norm
    that follows removes only its mean.

    Shapes: ``(batch, channels, H, W)`` to the same.

    Equivariance: commutes with translations, away from the border, exactly where s is constant.

    Args:
        in_type: scalars on the plane, or their number.
        input_size: height and width of the maps; others are refused.
        sharing: ``factorized`` r(i) + c(j), ``full`` s(i, j), ``rows`` r(i) or ``columns`` c(j).
        bias: whether there is the bias b of the channels too.

    >>> layer = SpatialBias2d(8, input_size=(5, 6))
    >>> layer(torch.zeros(2, 8, 5, 6)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([2, 8, 5, 6]), 11)
    """

    @checked
    def __init__(
        self, in_type: int | FieldType, *, input_size: Pair, sharing: Sharing = "factorized", bias: bool = False
    ) -> None:
        caller = type(self).__name__
        field = scalars(caller, "in_type", in_type)
        require_trivial_group(caller, field)
        super().__init__(field, field)
        self.places = Places.of(caller, input_size, 1)
        self.window, self.fixed_sizes = self.places.window, self.places.input_size
        self.spatial = PlaceTable(1, self.places.output_size, sharing)
        self.bias = nn.Parameter(torch.zeros(field.dim)) if bias else None

    def reset_parameters(self) -> None:
        """No bias; the table has a method of its own."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The input with the bias added."""
        self.places.check(type(self).__name__, x, self.in_type.dim)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map itself."""
        return x + spatial_map(self.spatial, self.bias)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes that the layer was built for."""
        self.require_fixed_sizes(sizes)
        return self.places.output_size

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one place, anywhere."""
        return self.window.interior(sizes)

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """All kinds of sharing."""
        for sharing in SHARING:
            yield cls(2, input_size=(6, 5), sharing=sharing, bias=sharing == "full")

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """s becomes its mean."""
        self.spatial.fill_(self.spatial().mean((1, 2)))
        return self

    def squared_shares(self) -> Mapping[str, Tensor]:
        """``translation``: Σ(s − mean s)² over the squared norm of the map x + s + b, whose kernel is the identity."""
        bias = self._bias_map()
        outside = apart_from_mean(bias).square().sum()
        return {TRANSLATION: outside / (bias.numel() + bias.square().sum())}

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """The identity and the bias at every place."""
        self.output_sizes(sizes)
        bias = self._bias_map().movedim(0, -1)
        one = torch.eye(self.in_type.dim, dtype=bias.dtype, device=bias.device)[:, :, None, None]
        return LocalKernels(one.expand(*bias.shape[:2], *one.shape), bias)

    def _bias_map(self) -> Tensor:
        """s + b, ``(channels, H, W)``."""
        return spatial_map(self.spatial, self.bias).expand(self.in_type.dim, *self.places.output_size)

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """The root mean square of s minus its mean."""
        return {"spatial bias": float(self.penalty().sqrt())}

    def penalty(self) -> Tensor:
        """The mean square of s minus its mean."""
        return apart_from_mean(self.spatial()).square().mean()

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Noise on s."""
        for values in self.spatial.parameters():
            add_noise_(values, scale, generator)
        return self


def spatial_map(spatial: PlaceTable | None, channels: Tensor | None) -> Tensor:
    """s(i, j) + b[o], of a shape that broadcasts over ``(batch, o, i, j)``; the number 0 where there is neither."""
    if spatial is None:
        return torch.zeros(()) if channels is None else channels[:, None, None]
    return spatial() if channels is None else spatial() + channels[:, None, None]
