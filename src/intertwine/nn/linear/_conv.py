"""Convolution of fields on a grid of any dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ...errors import InputError
from ...kernels import BandLimit
from ...spaces import FieldType, Grid
from .._centers import Centers, is_hexagonal, placed, require_even_hand
from .._export import filled
from .._hexagon import Hexagon, inside_hexagon, traced
from .._layer import require_grid
from .._window import PaddingMode, Window
from ..filters._sampling import sampling_for
from ..pointwise._point_map import point_map
from ._filter_layer import FilterLayer, filter_claim


class Conv(FilterLayer):
    """(Φf)(x) = Σ_y κ(y) f(x + y) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    Args:
        in_type: fields on a grid of the layer's dimension.
        out_type: fields on the same grid.
        kernel_size: as for torch's convolution.
        stride: preserves the symmetry only on sizes where the sampled positions are symmetric about the center; a call
            with another size raises an error that names sizes that fit.
        padding: the number of samples added on each side, or ``"same"``.
        dilation: as for torch's convolution.
        groups: splits the input and output fields into this many equal parts that do not mix.
        bias: whether to add a bias, one per trivial component of the output.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``. On the hexagonal lattice, ``zeros`` takes
            fields on the largest hexagon in the array: whatever is in the corners counts as 0.
        gain: standard deviation of the output on natural images of variance 1; use √2 before a ReLU.
        allow_asymmetric: whether to accept strides, paddings and sizes that break the symmetry.
        rings: the radii of the rings on which a sampled filter is centered, in samples; only for groups that do not map
            the lattice to itself, as are the next two. See :class:`~intertwine.kernels.SteerableKernelBasis`.
        sigma: the width of the rings, in samples.
        band_limit: the largest degree of the harmonics, on all rings or as a function of the radius.
        filters: ``free`` for filters with free taps that are rotated by interpolation, instead of steerable ones; only
            for finite groups that do not map the lattice to itself, and for fields whose channels they permute. See
            :class:`~intertwine.kernels.RotatedKernelBasis`.
    """

    dimension: ClassVar[int]
    plain: ClassVar[type[torch_nn.Conv1d] | type[torch_nn.Conv2d] | type[torch_nn.Conv3d]]

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Literal["same"] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        gain: float = 1.0,
        allow_asymmetric: bool = False,
        rings: Sequence[float] | None = None,
        sigma: float | None = None,
        band_limit: BandLimit = None,
        filters: Literal["steerable", "free"] = "steerable",
    ) -> None:
        caller = type(self).__name__
        space = require_grid(caller, in_type, out_type, dimension=self.dimension)
        window = Window.of(
            kernel_size,
            stride=stride,
            padding=0 if isinstance(padding, str) else padding,
            dilation=dilation,
            padding_mode=padding_mode,
            dimension=self.dimension,
            caller=caller,
        )
        window = _same(caller, window) if padding == "same" else window
        if not allow_asymmetric:
            require_even_hand(caller, space, window)
            _require_symmetric_border(caller, space, padding_mode)
        free: Literal["free"] | None = "free" if filters == "free" else None
        claim = filter_claim(space, allow_asymmetric, free=free is not None)
        sampling = sampling_for(caller, space, rings, sigma, band_limit, free).options
        super().__init__(
            in_type,
            out_type,
            claim,
            kernel_size=window.kernel_size,
            groups=groups,
            bias=bias,
            gain=gain,
            **sampling,
        )
        self.window, self._centers = window, None if allow_asymmetric else Centers.of(space)
        self.on_hexagon = is_hexagonal(space) and padding_mode == "zeros" and not allow_asymmetric
        one_tap = {*window.kernel_size, *window.stride, groups} == {1} and not any(window.before)
        self.point = point_map(in_type, out_type) if one_tap and not sampling else None

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        if self.point is not None and self.point.pays(x):
            return self.point(x, *self.point.kept(list(self.weights), self.bias, self.invariants))
        filters, bias = self.filter_and_bias()
        if self.on_hexagon:
            return inside_hexagon(self.window.convolve(inside_hexagon(x), filters, bias, groups=self.groups))
        return self.window.apply(x, filters, bias, groups=self.groups)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error if the stride would break the symmetry."""
        return placed(type(self).__name__, self.window, sizes, self._centers)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, if it divides the size of a periodic field."""
        return self.window.shift_step(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Where no window sees padding; None for circular padding, which :meth:`shift_step` describes."""
        # The border of a hexagon is not at the border of its array.
        return None if self.on_hexagon or self.window.padding_mode == "circular" else self.window.interior(sizes)

    def to_plain(self) -> torch_nn.Module:
        """A torch convolution with this filter."""
        with torch.no_grad():
            filters, bias = self.expand()
        w = self.window
        plain = filled(
            self.plain,
            self.in_type.dim,
            self.out_type.dim,
            w.kernel_size,
            weight=filters,
            bias=bias,
            stride=w.stride,
            padding=w.before,
            dilation=w.dilation,
            groups=self.groups,
            padding_mode=w.padding_mode,
        )
        return torch_nn.Sequential(traced(Hexagon()), plain, traced(Hexagon())) if self.on_hexagon else plain

    def extra_repr(self) -> str:
        """Types and options, as shown by ``print(layer)``."""
        w = self.window
        return (
            f"{self.in_type.rho} → {self.out_type.rho.name}, kernel_size={w.kernel_size}, stride={w.stride}, "
            f"padding={w.before}, padding_mode={w.padding_mode}"
        )


def _same(caller: str, window: Window) -> Window:
    """The window padded equally on both sides, with an output as large as the input."""
    padded = window.same()
    if set(window.stride) != {1} or any(low != high for low, high in padded.padding):
        raise InputError(
            caller,
            expected="padding 'same' with an odd kernel and stride 1, or a number of samples",
            got=f"padding='same' with kernel {window.kernel_size}, stride {window.stride}, dilation {window.dilation}",
            fix="The symmetry needs equal padding on both sides.",
        )
    return padded


def _require_symmetric_border(caller: str, space: Grid, padding_mode: str) -> None:
    if is_hexagonal(space) and padding_mode not in ("zeros", "circular"):
        raise InputError(
            caller,
            expected="padding_mode 'zeros' or 'circular' on the hexagonal lattice",
            got=f"padding_mode={padding_mode!r}, which is not symmetric at the border of the array",
            fix="Use one of them, or pass allow_asymmetric=True.",
        )
