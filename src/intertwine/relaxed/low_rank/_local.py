"""Locally connected layers: convolutions with a separate filter bank at every position."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Self

import torch
from torch import Tensor, nn

from ..._checked import Floats, checked
from ..._devices import rounded_as_autocast
from ...errors import InputError
from ...nn import register_layer
from ...spaces import FieldType, Grid2d
from .._kernel_shares import LocalKernels, kernel_shares
from .._places import Padding, Pair, Places
from .._relaxed_layer import RelaxedLayer, add_noise_, scalars

LocalInit = Literal["keras", "per_position"]


@register_layer
class LocallyConnected2d(RelaxedLayer):
    """y[o, i, j] = ⟨W[i, j][o], P(i, j)⟩ + b[o, i, j], where P(i, j) is the window of the input at (i, j).

    The opposite end of the family that starts with a convolution: positions share nothing.

    Shapes: ``(batch, in_channels, H, W)`` to ``(batch, out_channels, Ho, Wo)``; ``weight`` is ``(L, out_channels,
    kh, kw, in_channels)`` with L = Ho Wo positions row by row, ``bias`` is ``(out_channels, Ho, Wo)``.

    Equivariance: commutes with translations by whole strides, away from the border, if and only if all banks W and all
    biases are equal; :meth:`relaxation` says how far they are from their means.

    Args:
        in_type: scalars on the plane, or the number of channels.
        out_type: scalars on the plane, or the number of channels.
        kernel_size: height and width of the window.
        input_size: height and width of the images; other sizes raise an error.
        stride: the step between windows.
        padding: the number of pixels added on each side, or ``"same"``.
        dilation: spacing of the pixels of a window.
        bias: whether to add a bias per channel and position.
        lc_init: weights are uniform on ±√(6 / fan). ``per_position``: the fan of one position, kh kw channels, as in a
            convolution. ``keras``: the fan counts all positions, as in initializers that use the shape of the weight,
            which makes the weights √L times smaller.

    >>> layer = LocallyConnected2d(3, 8, 3, input_size=10)
    >>> layer(torch.zeros(2, 3, 10, 10)).shape
    torch.Size([2, 8, 8, 8])
    >>> layer.weight.shape
    torch.Size([64, 8, 3, 3, 3])
    >>> layer(torch.zeros(2, 3, 12, 12))
    Traceback (most recent call last):
    intertwine.errors.InputError: LocallyConnected2d: expected (batch, 3, 10, 10); got (2, 3, 12, 12). ...
    """

    @checked
    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
        kernel_size: Pair,
        *,
        input_size: Pair,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Pair = 1,
        bias: bool = True,
        lc_init: LocalInit = "per_position",
    ) -> None:
        caller = type(self).__name__
        super().__init__(scalars(caller, "in_type", in_type), scalars(caller, "out_type", out_type))
        require_trivial_group(caller, self.in_type, self.out_type)
        self.places = Places.of(caller, input_size, kernel_size, stride=stride, padding=padding, dilation=dilation)
        self.window, self.fixed_sizes = self.places.window, self.places.input_size
        fan = self.in_type.dim * self.window.taps
        shape = self.places.count, self.out_type.dim, *self.window.kernel_size, self.in_type.dim
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(self.out_type.dim, *self.places.output_size)) if bias else None
        self._fan = fan * (self.places.count if lc_init == "keras" else 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights by He's rule; set the bias to 0."""
        bound = math.sqrt(6 / self._fan)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """One matrix product per position."""
        self.places.check(type(self).__name__, x, self.in_type.dim)
        return self.compute(rounded_as_autocast(x))

    def compute(self, x: Tensor) -> Tensor:
        """The map itself."""
        y = apply_banks(x, self.weight.flatten(2), self.places)
        return y if self.bias is None else y + self.bias

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Ho and Wo, for the sizes the layer was built for."""
        self.require_fixed_sizes(sizes)
        return self.places.output_size

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one stride, away from the zero padding."""
        return self.window.interior(sizes)

    def extra_repr(self) -> str:
        """Sizes."""
        window, places = self.window, self.places
        return (
            f"{self.in_type.dim}, {self.out_type.dim}, kernel_size={window.kernel_size}, "
            f"input_size={places.input_size}, stride={window.stride}, output_size={places.output_size}"
        )

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """With and without bias; stride, padding, dilation."""
        yield cls(2, 3, 3, input_size=7)
        yield cls(2, 3, (3, 2), input_size=(9, 8), stride=2, bias=False, lc_init="keras")
        yield cls(1, 2, 3, input_size=9, padding="same", dilation=(1, 2))

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """Set every position to the mean bank and the mean bias: a convolution."""
        self.weight.copy_(self.weight.mean(0, keepdim=True).expand_as(self.weight))
        if self.bias is not None:
            self.bias.copy_(self.bias.mean((1, 2), keepdim=True).expand_as(self.bias))
        return self

    def squared_shares(self) -> Mapping[str, Tensor]:
        """``translation``: (Σ‖W − mean W‖² + Σ‖b − mean b‖²) / (Σ‖W‖² + Σ‖b‖²)."""
        return kernel_shares(self.local_kernels(self.places.input_size), self.in_type, self.out_type)

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """The weights themselves."""
        self.output_sizes(sizes)
        weight = self.weight.unflatten(0, self.places.output_size).movedim(-1, -3)
        return LocalKernels(weight, None if self.bias is None else self.bias.movedim(0, -1))

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """√ of the mean over positions of ‖W − mean W‖² + ‖b − mean b‖²."""
        return {"spread": float(self.penalty().sqrt())}

    def penalty(self) -> Tensor:
        """The mean over positions of ‖W − mean W‖² + ‖b − mean b‖²."""
        total = _apart(self.weight, (0,)).square().sum() / self.places.count
        if self.bias is not None:
            total = total + _apart(self.bias, (1, 2)).square().sum() / self.places.count
        return total

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Add independent noise to all weights and biases."""
        for values in self.parameters():
            add_noise_(values, scale, generator)
        return self


def apply_banks(x: Tensor, banks: Tensor, places: Places) -> Tensor:
    """Apply a bank ``(L, out, kh kw in)`` at each position: ``(batch, in, H, W)`` to ``(batch, out, Ho, Wo)``."""
    y = torch.bmm(places.patches(x), banks.transpose(1, 2))  # (L, batch, out)
    return y.reshape(*places.output_size, x.shape[0], banks.shape[1]).permute(2, 3, 0, 1)


def _apart(values: Tensor, over: tuple[int, ...]) -> Tensor:
    """Values minus their mean over these axes."""
    return values - values.mean(over, keepdim=True)


def require_trivial_group(caller: str, *types: FieldType) -> None:
    """Raise an error unless all types are scalars on the plane, which the published layers are made for."""
    for field in types:
        space = field.space
        if not isinstance(space, Grid2d) or getattr(space.stabilizer, "order", 0) != 1:
            raise InputError(
                caller,
                expected="fields on the plane with the trivial group, such as a number of channels",
                got=str(field),
                fix="Relax a layer between other types with intertwine.relaxed.relax(layer, images, how=...).",
            )
