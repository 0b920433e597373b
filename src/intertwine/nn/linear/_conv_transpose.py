"""Transposed convolution of fields, from a coarse grid to a fine one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod, sqrt
from typing import ClassVar

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import conv_transpose2d, conv_transpose3d

from ..._checked import checked
from ...errors import InputError
from ...groups import SO3, Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid, Grid2d, Grid3d
from .._centers import moving_axes, require_even_hand
from .._export import filled
from .._layer import Layer, axis_names, register_layer, require_grid
from .._window import Window, per_axis
from ._filter_layer import FilterLayer, filter_claim


class ConvTranspose(FilterLayer):
    """(Φf)(z) = Σ_x κ(z - s x) f(x) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    With stride s each sample of the input paints κ f(x) at s x. This is the adjoint of the convolution of the same
    stride from ``out_type`` to ``in_type`` with the filter κ(y)ᵀ, for orthogonal representations.
    """

    dimension: ClassVar[int]
    convolve: ClassVar[Callable[..., Tensor]]
    plain: ClassVar[type[torch_nn.ConvTranspose2d] | type[torch_nn.ConvTranspose3d]]

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        gain: float = 1.0,
        allow_asymmetric: bool = False,
    ) -> None:
        caller, n = type(self).__name__, self.dimension
        space = require_grid(caller, in_type, out_type, dimension=n)
        window = Window.of(kernel_size, stride=stride, padding=padding, dilation=dilation, dimension=n, caller=caller)
        added = per_axis(output_padding, n, caller=caller, what="output_padding", least=0)
        _require_less_than_a_step(caller, added, window)
        if not allow_asymmetric:
            require_even_hand(caller, space, window)
            _require_symmetric(caller, space, added)
        claim = filter_claim(space, allow_asymmetric)
        # Only one tap in Π stride contributes to each output sample, which would shrink the output without this factor.
        gain *= sqrt(prod(window.stride))
        super().__init__(in_type, out_type, claim, kernel_size=window.kernel_size, groups=groups, bias=bias, gain=gain)
        self.window, self.output_padding = window, added

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        filters, bias = self.filter_and_bias()
        w = self.window
        return self.convolve(
            x, self._transposed(filters), bias, w.stride, w.before, self.output_padding, self.groups, w.dilation
        )

    def _transposed(self, filters: Tensor) -> Tensor:
        """``(d2, d1 / groups, ...)`` to ``(d1, d2 / groups, ...)``, the layout of torch's transposed filters."""
        if self.groups == 1:
            return filters.transpose(0, 1)
        return filters.unflatten(0, (self.groups, -1)).transpose(1, 2).flatten(0, 1)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; every input size commutes."""
        painted = self.window.input_sizes(sizes)  # what a convolution with this window would see
        out = tuple(n + added for n, added in zip(painted, self.output_padding, strict=True))
        if min(out) < 1:
            raise InputError(
                type(self).__name__,
                expected="an input that is larger than what the padding cuts off",
                got=f"sizes {tuple(sizes)}, which would give {out}",
                fix="Use less padding or a larger input.",
            )
        return out

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """None: the output of a periodic field is not periodic."""
        return None

    def to_plain(self) -> torch_nn.Module:
        """A torch transposed convolution with this filter."""
        with torch.no_grad():
            filters, bias = self.expand()
        w = self.window
        return filled(
            self.plain,
            self.in_type.dim,
            self.out_type.dim,
            w.kernel_size,
            weight=self._transposed(filters),
            bias=bias,
            stride=w.stride,
            padding=w.before,
            output_padding=self.output_padding,
            groups=self.groups,
            dilation=w.dilation,
        )

    def extra_repr(self) -> str:
        """Types and options, as shown by ``print(layer)``."""
        w = self.window
        return (
            f"{self.in_type.rho} → {self.out_type.rho.name}, kernel_size={w.kernel_size}, stride={w.stride}, "
            f"padding={w.before}, output_padding={self.output_padding}"
        )


@register_layer
class ConvTranspose2d(ConvTranspose):
    """(Φf)(z) = Σ_x κ(z - s x) f(x) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    Shapes: ``(batch, d1, height, width)`` to ``(batch, d2, height', width')``, as ``torch.nn.ConvTranspose2d``.

    Equivariance: as :class:`Conv2d`, on every input size. Input and output share their center if and only if
    ``output_padding`` is 0, so the layer rejects any other value along axes that the group moves. For an even output
    use an even kernel: ``kernel_size=4, stride=2, padding=1`` and ``kernel_size=2, stride=2`` double the size.

    Args:
        in_type: fields on a ``Grid2d``.
        out_type: fields on the same plane.
        kernel_size: as for ``torch.nn.ConvTranspose2d``.
        stride: how many times finer the output is.
        padding: samples cut off on each side of the output.
        output_padding: samples added on one side of the output.
        dilation: steps between the taps.
        groups: splits the input and output fields into this many equal parts that do not mix.
        bias: whether to add a bias, one per trivial component of the output.
        gain: standard deviation of the output on natural images of variance 1; use √2 before a ReLU.
        allow_asymmetric: whether to accept options that break the symmetry.

    >>> import torch
    >>> from intertwine.groups import Cyclic
    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4); field = Grid2d(C4).field(2 * C4.regular)
    >>> ConvTranspose2d(field, field, 4, stride=2, padding=1)(torch.randn(1, 8, 9, 9)).shape
    torch.Size([1, 8, 18, 18])
    """

    dimension = 2
    convolve = staticmethod(conv_transpose2d)
    plain = torch_nn.ConvTranspose2d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, C8 = Cyclic(4), Dihedral(4), Cyclic(8)
        plane = Grid2d(C4)
        regular = plane.field(2 * C4.regular)
        yield cls(regular, regular, 4, stride=2, padding=1, groups=2)
        yield cls(plane.field(2 * C4.trivial), plane.field(C4.irrep(1) + C4.regular), 3, stride=2)
        plane = Grid2d(D4)
        yield cls(plane.field(D4.regular + D4.irrep(1)), plane.field(2 * D4.irrep(1)), 2, stride=2, bias=False)
        plane = Grid2d(C8)
        yield cls(plane.field(C8.regular), plane.field(C8.trivial + C8.irrep(4)), 5, padding=2)


@register_layer
class ConvTranspose3d(ConvTranspose):
    """(Φf)(z) = Σ_x κ(z - s x) f(x) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    Shapes: ``(batch, d1, depth, height, width)`` to ``(batch, d2, depth', height', width')``, as
    ``torch.nn.ConvTranspose3d``.

    Equivariance: as :class:`Conv3d`, on every input size. Input and output share their center if and only if
    ``output_padding`` is 0, so the layer rejects any other value along axes that the group moves.

    Args:
        in_type: fields on a ``Grid3d``.
        out_type: fields on the same space.
        kernel_size: as for ``torch.nn.ConvTranspose3d``.
        stride: how many times finer the output is.
        padding: samples cut off on each side of the output.
        output_padding: samples added on one side of the output.
        dilation: steps between the taps.
        groups: splits the input and output fields into this many equal parts that do not mix.
        bias: whether to add a bias, one per trivial component of the output.
        gain: standard deviation of the output on natural images of variance 1; use √2 before a ReLU.
        allow_asymmetric: whether to accept options that break the symmetry.

    >>> import torch
    >>> from intertwine.groups import Octahedral
    >>> from intertwine.spaces import Grid3d
    >>> cube = Octahedral(); space = Grid3d(cube)
    >>> layer = ConvTranspose3d(space.field(cube.regular), space.field(cube.trivial), 2, stride=2)
    >>> layer(torch.randn(1, 24, 5, 5, 5)).shape
    torch.Size([1, 1, 10, 10, 10])
    """

    dimension = 3
    convolve = staticmethod(conv_transpose3d)
    plain = torch_nn.ConvTranspose3d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        cube, so3 = Octahedral(), SO3()
        space = Grid3d(cube)
        yield cls(space.field(cube.irreps[3] + cube.trivial), space.field(cube.irreps[3]), 2, stride=2)
        space = Grid3d(so3)
        yield cls(space.field(so3.irrep(0) + so3.irrep(1)), space.field(so3.irrep(1)), 3, padding=1)


def _require_less_than_a_step(caller: str, output_padding: tuple[int, ...], window: Window) -> None:
    if any(o >= max(s, d) for o, s, d in zip(output_padding, window.stride, window.dilation, strict=True)):
        raise InputError(
            caller,
            expected="output_padding smaller than stride or dilation",
            got=f"output_padding={output_padding} with stride {window.stride}, dilation {window.dilation}",
        )


def _require_symmetric(caller: str, space: Grid, output_padding: tuple[int, ...]) -> None:
    lopsided = [axis for axis in moving_axes(space) if output_padding[axis]]
    if lopsided:
        raise InputError(
            caller,
            expected=f"output_padding 0 along the {' and the '.join(axis_names(space)[a] for a in lopsided)}: samples "
            f"added on one side move the center, and the layer would not commute with {space.stabilizer.name}",
            got=f"output_padding={output_padding}",
            fix="Change kernel or padding by one for another size (kernel_size=4, stride=2, padding=1 doubles it), or "
            "pass allow_asymmetric=True.",
        )
    if getattr(space, "lattice", "square") == "hexagonal":
        raise InputError(
            caller,
            expected="the square lattice: an array on the hexagonal lattice is not symmetric at its border",
            got=space.name,
            fix="Pass allow_asymmetric=True.",
        )
