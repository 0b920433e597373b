"""Downsampling after a blur, which keeps small shifts small and works on even sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb
from typing import Any

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._devices import on_cpu
from ...errors import InputError
from ...groups import SO2, Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid2d, Grid3d
from .._centers import Centers, placed, require_square_lattice
from .._layer import Approximate, Claim, Layer, pointwise_claim, register_layer, require_grid
from .._window import PaddingMode, Window
from ..basis._tables import TableModule


@on_cpu
def _binomial(size: int, dimension: int) -> Tensor:
    """The outer product of the row of Pascal's triangle with ``size`` entries along all axes, normalized to sum 1."""
    kernel = row = torch.tensor([comb(size - 1, k) / 2 ** (size - 1) for k in range(size)], dtype=torch.float64)
    for _ in range(dimension - 1):
        kernel = kernel[..., None] * row
    return kernel


class _BlurPool(Layer):
    """The base class for both dimensions."""

    needs_space = True
    dimension: int

    @checked
    def __init__(
        self,
        in_type: FieldType,
        kernel_size: int = 4,
        *,
        stride: int = 2,
        padding: int | None = None,
        padding_mode: PaddingMode = "zeros",
        allow_asymmetric: bool = False,
    ) -> None:
        caller = type(self).__name__
        space = require_grid(caller, in_type, dimension=self.dimension)
        if kernel_size < 2:
            raise InputError(caller, expected="kernel_size of at least 2", got=str(kernel_size))
        margin = (kernel_size - 1) // 2 if padding is None else padding
        window = Window.of(
            kernel_size,
            stride=stride,
            padding=margin,
            padding_mode=padding_mode,
            dimension=self.dimension,
            caller=caller,
        )
        require_square_lattice(caller, space)
        claim: Claim = pointwise_claim(space)
        if allow_asymmetric:
            claim = Approximate("sizes that break the symmetry are allowed", bound=float("inf"))
        super().__init__(in_type, in_type, claim)
        self.window = window
        self._centers = None if allow_asymmetric else Centers.of(space)
        self.blur = TableModule()
        self.blur.register_table("kernel", _binomial(kernel_size, self.dimension))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        kernel = self.blur.get_buffer("kernel").expand(x.shape[1], 1, *self.window.kernel_size)
        return self.window.convolve(x, kernel, groups=x.shape[1])

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error if the windows would not be symmetric."""
        return placed(type(self).__name__, self.window, sizes, self._centers)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, if it divides the size of a periodic field."""
        return self.window.shift_step(sizes)

    def to_plain(self) -> torch_nn.Module:
        """A torch depthwise convolution."""
        kind: Any = torch_nn.Conv2d if self.dimension == 2 else torch_nn.Conv3d
        w, d, kernel = self.window, self.in_type.dim, self.blur.get_buffer("kernel")
        options = {"groups": d, "bias": False, "padding_mode": w.padding_mode}
        plain: torch_nn.Conv2d | torch_nn.Conv3d = kind(d, d, w.kernel_size, w.stride, w.before, **options).to(kernel)
        plain.weight = torch_nn.Parameter(kernel.expand(plain.weight.shape).clone(), requires_grad=False)
        return plain.eval()

    def extra_repr(self) -> str:
        """The type and the window."""
        w = self.window
        rest = f"kernel_size={w.kernel_size[0]}, stride={w.stride[0]}, padding={w.before[0]}"
        return f"{self.in_type.rho}, {rest}, padding_mode={w.padding_mode!r}"


@register_layer
class BlurPool2d(_BlurPool):
    """Smooths the field with binomial weights and keeps every ``stride``-th sample, for fields of any type.

    The blur removes frequencies that the coarser lattice cannot represent, so small shifts of the input change the
    output little. With the default padding, an even kernel halves an even size; an odd kernel maps an odd size n to
    (n + 1)/2 and keeps both borders.

    Shapes: ``(batch, d, height, width)`` to the sizes of a convolution with this kernel, stride and padding.
    Equivariance: exact on sizes where the windows are symmetric about the center; a call with another size raises an
    error that names sizes that fit.

    Args:
        in_type: fields on a ``Grid2d``.
        kernel_size: the number of weights along each axis: even for even sizes, odd for odd sizes.
        stride: the factor by which the output is coarser.
        padding: the number of samples added on each side; by default ``(kernel_size - 1) // 2``.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> C4 = Cyclic(4); field = Grid2d(C4).field(C4.regular)
    >>> BlurPool2d(field, 4)(torch.zeros(1, 4, 8, 8)).shape, BlurPool2d(field, 3)(torch.zeros(1, 4, 9, 9)).shape
    (torch.Size([1, 4, 4, 4]), torch.Size([1, 4, 5, 5]))
    >>> BlurPool2d(field, 4)(torch.zeros(1, 4, 9, 9))
    Traceback (most recent call last):
        ...
    intertwine.errors.InputError: BlurPool2d: expected 8 or 10 along the height: ...
    """

    dimension = 2

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, so2 = Cyclic(4), Dihedral(4), SO2()
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.regular + D4.trivial))
        yield cls(Grid2d(C4).field(C4.irrep(1) + C4.regular), 3, padding_mode="reflect")
        yield cls(Grid2d(C4).field(C4.regular), 4, padding_mode="circular")
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial), 5)


@register_layer
class BlurPool3d(_BlurPool):
    """:class:`BlurPool2d` in 3-space.

    Args:
        in_type: fields on a ``Grid3d``.
        kernel_size: the number of weights along each axis: even for even sizes, odd for odd sizes.
        stride: the factor by which the output is coarser.
        padding: the number of samples added on each side; by default ``(kernel_size - 1) // 2``.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> O = Octahedral()
    >>> BlurPool3d(Grid3d(O).field(O.irreps[3]))(torch.zeros(1, 3, 6, 6, 6)).shape
    torch.Size([1, 3, 3, 3, 3])
    """

    dimension = 3

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        O = Octahedral()
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial))
        yield cls(Grid3d(O).field(O.irreps[1]), 3, padding_mode="replicate")
