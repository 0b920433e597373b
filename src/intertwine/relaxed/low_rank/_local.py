"""A convolution that forgot to share its weights: a filter bank of its own at every place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Self

import torch
from torch import Tensor, nn

from ..._checked import Floats, checked
from ...errors import InputError
from ...nn import register_layer
from ...spaces import FieldType, Grid2d
from .._kernel_shares import LocalKernels, kernel_shares
from .._places import Padding, Pair, Places
from .._relaxed_layer import RelaxedLayer, add_noise_, scalars

LocalInit = Literal["keras", "per_position"]


@register_layer
class LocallyConnected2d(RelaxedLayer):
    """y[o, i, j] = ⟨W[i, j][o], P(i, j)⟩ + b[o, i, j], with the window P(i, j) of the input at that place.

    The right end of the family that begins with a convolution: nothing is shared between places.

    Shapes: ``(batch, in_channels, H, W)`` to ``(batch, out_channels, Ho, Wo)``; ``weight`` is ``(L, out_channels,
    in_channels kh kw)`` with L = Ho Wo places row by row, ``bias`` is ``(out_channels, Ho, Wo)``.

    Equivariance: commutes with translations by whole strides, away from the border, exactly where all banks W and all
    biases are equal; :meth:`relaxation` says how far they are from their means.

    Args:
        in_type: scalars on the plane, or their number.
        out_type: the same for the output.
        kernel_size: height and width of the window.
        input_size: height and width of the images; others are refused.
        stride: between windows.
        padding: pixels, or ``"same"``.
        dilation: spacing of the pixels of a window.
        bias: whether there are biases, one for each channel and place.
        lc_init: weights are uniform on ±√(6 / fan). ``per_position``: the fan is that of one place, kh kw channels,
            as in a convolution. ``keras``: it counts all places, as initializers that look at the shape of the weight
            do, which makes the weights √L times smaller.

    >>> layer = LocallyConnected2d(3, 8, 3, input_size=10)
    >>> layer(torch.zeros(2, 3, 10, 10)).shape
    torch.Size([2, 8, 8, 8])
    >>> layer.weight.shape
    torch.Size([64, 8, 27])
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
        self.weight = nn.Parameter(torch.empty(self.places.count, self.out_type.dim, fan))
        self.bias = nn.Parameter(torch.empty(self.out_type.dim, *self.places.output_size)) if bias else None
        self._fan = fan * (self.places.count if lc_init == "keras" else 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights by He's rule; the bias is 0."""
        bound = math.sqrt(6 / self._fan)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """One matrix product for each place."""
        self.places.check(type(self).__name__, x, self.in_type.dim)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map itself."""
        y = apply_banks(x, self.weight, self.places)
        return y if self.bias is None else y + self.bias

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Ho and Wo, for the sizes that the layer was built for."""
        self.require_fixed_sizes(sizes)
        return self.places.output_size

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one stride, away from the zeros around."""
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
        """Every place gets the mean of all banks and of all biases: a convolution."""
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
        shape = *self.places.output_size, self.out_type.dim, self.in_type.dim, *self.window.kernel_size
        return LocalKernels(self.weight.reshape(shape), None if self.bias is None else self.bias.movedim(0, -1))

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """√ of the mean over places of ‖W − mean W‖² + ‖b − mean b‖²."""
        return {"spread": float(self.penalty().sqrt())}

    def penalty(self) -> Tensor:
        """The mean over places of ‖W − mean W‖² + ‖b − mean b‖²."""
        total = _apart(self.weight, (0,)).square().sum() / self.places.count
        if self.bias is not None:
            total = total + _apart(self.bias, (1, 2)).square().sum() / self.places.count
        return total

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Independent noise on all weights and biases."""
        for values in self.parameters():
            add_noise_(values, scale, generator)
        return self


def apply_banks(x: Tensor, banks: Tensor, places: Places) -> Tensor:
    """A bank ``(L, out, in kh kw)`` at each place: ``(batch, in, H, W)`` to ``(batch, out, Ho, Wo)``."""
    y = torch.bmm(places.patches(x), banks.transpose(1, 2))  # (L, batch, out)
    return y.reshape(*places.output_size, x.shape[0], banks.shape[1]).permute(2, 3, 0, 1)


def _apart(values: Tensor, over: tuple[int, ...]) -> Tensor:
    """Values minus their mean over these axes."""
    return values - values.mean(over, keepdim=True)


def require_trivial_group(caller: str, *types: FieldType) -> None:
    """The published layers are made for scalars; for other types there is ``intertwine.relaxed.relax``."""
    for field in types:
        space = field.space
        if not isinstance(space, Grid2d) or getattr(space.stabilizer, "order", 0) != 1:
            raise InputError(
                caller,
                expected="fields on the plane with the trivial group, such as a number of channels",
                got=str(field),
                fix="Loosen a layer between other types with intertwine.relaxed.relax(layer, images, how=...).",
            )
