"""Convolution of fields on a grid of any dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import pad

from .._checked import checked
from ..errors import InputError
from ..spaces import FieldType, Grid
from ._export import filled
from ._filter_layer import FilterLayer, filter_claim
from ._layer import require_grid
from ._point_map import point_map
from ._stencil import Stencil, moving_axes, per_axis, require_even_hand

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


class Conv(FilterLayer):
    """(Φf)(x) = Σ_y κ(y) f(x + y) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    Args:
        in_type: fields on a grid of the layer's dimension.
        out_type: fields on the same grid.
        kernel_size: as for the convolution of torch.
        stride: a stride keeps the symmetry only on sizes where the sampled places are symmetric about the center; other
            sizes are refused at the call, with those that fit.
        padding: a number of samples, or ``"same"``.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        dilation: as for the convolution of torch.
        groups: splits the fields of the input and of the output into so many equal parts that do not mix.
        bias: one number for each trivial component of the output.
        gain: standard deviation of the output on natural images of variance 1; √2 before a ReLU.
        allow_asymmetric: accept strides, paddings and sizes that break the symmetry.
    """

    dimension: ClassVar[int]
    convolve: ClassVar[Callable[..., Tensor]]
    plain: ClassVar[type[torch_nn.Conv2d] | type[torch_nn.Conv3d]]

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Literal["same"] = 0,
        padding_mode: PaddingMode = "zeros",
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        gain: float = 1.0,
        allow_asymmetric: bool = False,
    ) -> None:
        who = type(self).__name__
        space = require_grid(who, in_type, out_type, dimension=self.dimension)
        stencil = _stencil(who, space, kernel_size, stride, padding, dilation)
        if not allow_asymmetric:
            require_even_hand(who, space, stencil)
            _require_symmetric_border(who, space, padding_mode)
        claim = filter_claim(space, allow_asymmetric)
        super().__init__(in_type, out_type, claim, kernel_size=stencil.kernel_size, groups=groups, bias=bias, gain=gain)
        self.stencil, self.padding_mode, self.allow_asymmetric = stencil, padding_mode, allow_asymmetric
        self._padding = stencil.padding if padding_mode == "zeros" else (0,) * self.dimension
        around = [p for p in reversed(stencil.padding) for _ in range(2)]
        self._around = around if padding_mode != "zeros" and any(around) else None
        one_tap = {*stencil.kernel_size, *stencil.stride, groups} == {1} and not any(around)
        self.point = point_map(in_type, out_type) if one_tap else None

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        if self.point is not None and self.point.pays(x):
            return self.point(x, *self.point.kept(list(self.weights), self.bias, self.invariants))
        filters, bias = self.filter_and_bias()
        if self._around is not None:
            x = pad(x, self._around, mode=self.padding_mode)
        return self.convolve(x, filters, bias, self.stencil.stride, self._padding, self.stencil.dilation, self.groups)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error where the stride would break the symmetry."""
        self.stencil.require_room(type(self).__name__, sizes)
        if not self.allow_asymmetric:
            self.stencil.require_symmetric(type(self).__name__, sizes)
        return self.stencil.output_sizes(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, on a periodic field that it divides."""
        return self.stencil.shift_step(sizes, periodic=self.padding_mode == "circular")

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Where windows meet no padding; None for circular padding, which :meth:`shift_step` describes."""
        return None if self.padding_mode == "circular" else self.stencil.interior()

    def to_plain(self) -> torch_nn.Module:
        """A convolution of torch with this filter."""
        with torch.no_grad():
            filters, bias = self.expand()
        s = self.stencil
        return filled(
            self.plain,
            self.in_type.dim,
            self.out_type.dim,
            s.kernel_size,
            weight=filters,
            bias=bias,
            stride=s.stride,
            padding=s.padding,
            dilation=s.dilation,
            groups=self.groups,
            padding_mode=self.padding_mode,
        )

    def extra_repr(self) -> str:
        """Types and options, as shown by ``print(layer)``."""
        s = self.stencil
        return (
            f"{self.in_type.rho} → {self.out_type.rho.name}, kernel_size={s.kernel_size}, stride={s.stride}, "
            f"padding={s.padding}, padding_mode={self.padding_mode}"
        )


def _stencil(
    who: str,
    space: Grid,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int] | str,
    dilation: int | Sequence[int],
) -> Stencil:
    n, name = space.dimension, space.stabilizer.name
    k = per_axis(kernel_size, n, who=who, what="kernel_size", least=1)
    d = per_axis(dilation, n, who=who, what="dilation", least=1)
    s = per_axis(stride, n, who=who, what="stride", least=1)
    if not isinstance(padding, str):
        p = per_axis(padding, n, who=who, what="padding", least=0)
        return Stencil(k, s, p, d, moving_axes(space), name)
    reach = [(size - 1) * step for size, step in zip(k, d, strict=True)]
    if padding != "same" or set(s) != {1} or any(r % 2 for r in reach):
        raise InputError(
            who,
            expected="padding 'same' with an odd kernel and stride 1, or a number of samples",
            got=f"padding={padding!r} with kernel {k}, stride {s}, dilation {d}",
            fix="Equal padding on both sides is needed to keep the symmetry.",
        )
    return Stencil(k, s, tuple(r // 2 for r in reach), d, moving_axes(space), name)


def _require_symmetric_border(who: str, space: Grid, padding_mode: str) -> None:
    if getattr(space, "lattice", "square") == "hexagonal" and padding_mode != "circular":
        raise InputError(
            who,
            expected="padding_mode='circular' on the hexagonal lattice, whose array is not symmetric at its border",
            got=f"padding_mode={padding_mode!r}",
            fix="Use circular padding, or pass allow_asymmetric=True.",
        )
