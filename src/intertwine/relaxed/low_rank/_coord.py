"""A convolution that is told where it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from ..._checked import Floats, checked
from ..._kept import kept_table
from ...errors import InputError
from ...nn import Window, register_layer
from ...spaces import FieldType
from .._kernel_shares import TRANSLATION, LocalKernels, share
from .._places import Pair
from .._relaxed_layer import RelaxedLayer, add_noise_, scalars
from ._combining import apart_from_mean
from ._local import require_trivial_group

_REFERENCE = 16  # the size of the images on which the share is computed


@register_layer
class CoordConv2d(RelaxedLayer):
    """A convolution of the input with two more channels: the row, and the column, each from -1 to 1.

    The part of the output that comes from the coordinates does not depend on the input, and is computed once for a
    batch.

    Shapes: ``(batch, in_channels, H, W)`` to ``(batch, out_channels, Ho, Wo)``, as ``torch.nn.Conv2d``; images of any
    size. ``weight`` is ``(out_channels, in_channels + 2, kh, kw)``, the coordinates last.

    Equivariance: commutes with translations by whole strides, away from the border, exactly where the weights on the
    coordinates are 0.

    Args:
        in_type: scalars on the plane, or their number, without the coordinates.
        out_type: the same for the output.
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
        in_type: int | FieldType,
        out_type: int | FieldType,
        kernel_size: Pair,
        *,
        stride: Pair = 1,
        padding: Pair = 0,
        bias: bool = True,
    ) -> None:
        caller = type(self).__name__
        super().__init__(scalars(caller, "in_type", in_type), scalars(caller, "out_type", out_type))
        require_trivial_group(caller, self.in_type, self.out_type)
        self.window = Window.of(kernel_size, stride=stride, padding=padding, caller=caller)
        self.weight = nn.Parameter(torch.empty(self.out_type.dim, self.in_type.dim + 2, *self.window.kernel_size))
        self.bias = nn.Parameter(torch.empty(self.out_type.dim)) if bias else None
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
        if x.dim() != 4 or x.shape[1] != self.in_type.dim:
            raise InputError(
                type(self).__name__,
                expected=f"(batch, {self.in_type.dim}, height, width)",
                got=str(tuple(x.shape)),
                fix="The layer adds the two coordinates itself.",
            )
        self.output_sizes(x.shape[2:])
        return self._at(x, _kept_coordinates(x.shape[2], x.shape[3], x.dtype, x.device))

    def compute(self, x: Tensor) -> Tensor:
        """The map itself."""
        return self._at(x, coordinates(x))

    def _at(self, x: Tensor, where: Tensor) -> Tensor:
        return self.window.convolve(x, self.weight[:, : self.in_type.dim]) + self._bias_map(where)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Ho and Wo."""
        self.window.require_room(type(self).__name__, sizes)
        return self.window.output_sizes(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one stride, away from the zeros around."""
        return self.window.interior(sizes)

    def extra_repr(self) -> str:
        """Sizes."""
        window = self.window
        return f"{self.in_type.dim}, {self.out_type.dim}, kernel_size={window.kernel_size}, stride={window.stride}"

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """With stride and with padding."""
        yield cls(2, 3, 3)
        yield cls(2, 3, 3, stride=2, bias=False)
        yield cls(1, 2, (3, 2), padding=1)

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """The weights on the coordinates become 0."""
        self.weight[:, self.in_type.dim :] = 0
        return self

    def squared_shares(self) -> Mapping[str, Tensor]:
        """``translation``, on images of 16 x 16 (or of the kernel's size): only the bias depends on the place."""
        bias = self._bias_map(coordinates(self._reference()))[0]
        outside = apart_from_mean(bias).square().sum()
        whole = bias[0].numel() * self.weight[:, : self.in_type.dim].square().sum() + bias.square().sum()
        return {TRANSLATION: share(outside, whole)}

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """One filter everywhere; what the coordinates add is a bias that depends on the place."""
        bias = self._bias_map(coordinates(self.weight.new_zeros(1, 1, *sizes)))[0].movedim(0, -1)
        seen = self.weight[:, : self.in_type.dim]
        return LocalKernels(seen.expand(*bias.shape[:2], *seen.shape), bias)

    def _reference(self) -> Tensor:
        return self.weight.new_zeros(1, 1, *(max(_REFERENCE, k) for k in self.window.kernel_size))

    def _bias_map(self, where: Tensor) -> Tensor:
        """What the coordinates and the bias add to the output."""
        return self.window.convolve(where, self.weight[:, self.in_type.dim :], self.bias)

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """The norm of the weights on the coordinates."""
        return {"coordinates": float(self.penalty().sqrt())}

    def penalty(self) -> Tensor:
        """The squared norm of the weights on the coordinates."""
        return self.weight[:, self.in_type.dim :].square().sum()

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Noise on the weights on the coordinates."""
        with torch.no_grad():
            add_noise_(self.weight[:, self.in_type.dim :], scale, generator)
        return self


def coordinates(x: Tensor) -> Tensor:
    """Row and column ``(1, 2, H, W)`` of the images ``x``, each from -1 to 1.

    Counted by tensor operations alone, so that a tracer need not know the sizes.

    >>> coordinates(torch.zeros(5, 1, 2, 3))[0, 1]
    tensor([[-1.,  0.,  1.],
            [-1.,  0.,  1.]])
    """
    ones = torch.ones_like(x[:1, :1])
    counted = [ones.cumsum(axis) - 1 for axis in (2, 3)]
    return torch.cat([2 * count / count.amax((2, 3), keepdim=True).clamp_min(1) - 1 for count in counted], 1)


@kept_table(32)
def _kept_coordinates(height: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return coordinates(torch.empty(1, 1, height, width, dtype=dtype, device=device))
