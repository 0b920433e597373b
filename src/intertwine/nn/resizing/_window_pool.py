"""Pooling over symmetric windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._cost_rules import channels_last_maximum_pays
from ...groups import Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid1d, Grid2d, Grid3d
from .._centers import Centers, is_hexagonal, placed, require_even_hand
from .._hexagon import traced
from .._layer import Approximate, Claim, Layer, pointwise_claim, register_layer, require_grid
from .._window import Window
from ..nonlinear._nonlinearity import require_permutation
from ..pointwise._turn import functional
from ._hexagonal_pool import HexagonalPool


class TorchPool(Layer):
    """The base class of layers that torch can pool, on sizes that preserve the symmetry."""

    needs_space = True
    _pooling: tuple[torch_nn.Module]  # in a tuple, so that it is no part of the network

    @classmethod
    def _require_type(cls, in_type: FieldType) -> None:
        """Raise an error for fields that cannot be pooled this way."""

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        pooled: Tensor = self._pooling[0](x)
        return pooled


class ChannelsLastMaxPool2d(torch_nn.MaxPool2d):
    """torch's maximum, computed in the channels-last layout, where torch's loop on a CPU is vectorized.

    The values and gradients are the same to the last bit.
    """

    def __init__(self, window: Window) -> None:
        (height, width), (down, right), (top, left) = window.kernel_size, window.stride, window.before
        super().__init__((height, width), (down, right), (top, left))
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        window = self.window
        if x.device.type != "cpu" or functional() or not channels_last_maximum_pays(window.kernel_size, window.stride):
            return super().forward(x)
        pooled = super().forward(x.contiguous(memory_format=torch.channels_last))
        return pooled if x.is_contiguous(memory_format=torch.channels_last) else pooled.contiguous()


class _WindowPool(TorchPool):
    """The base class of pooling over windows."""

    dimension: ClassVar[int]
    plain: ClassVar[Callable[..., torch_nn.Module]]
    takes_maximum: ClassVar[bool] = False

    @checked
    def __init__(
        self,
        in_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        allow_asymmetric: bool = False,
    ) -> None:
        caller, n = type(self).__name__, self.dimension
        self._require_type(in_type)
        space = require_grid(caller, in_type, dimension=n)
        step = kernel_size if stride is None else stride
        window = Window.of(kernel_size, stride=step, padding=padding, dimension=n, caller=caller)
        claim: Claim = pointwise_claim(space)
        if allow_asymmetric:
            claim = Approximate("sizes and strides that break the symmetry are allowed", bound=float("inf"))
        else:
            require_even_hand(caller, space, window)
        super().__init__(in_type, in_type, claim)
        self.window, self._centers = window, None if allow_asymmetric else Centers.of(space)
        self._hexagonal = is_hexagonal(space) and not allow_asymmetric
        self._pooling = (self._fast_module(),)

    def _fast_module(self) -> torch_nn.Module:
        """The pooling itself; the result may differ from that of `_module` in speed only."""
        return self._module()

    def _module(self) -> torch_nn.Module:
        if self._hexagonal:
            return HexagonalPool(self.window, maximum=self.takes_maximum)
        return type(self).plain(self.window.kernel_size, self.window.stride, self.window.before)

    def to_plain(self) -> torch_nn.Module:
        """The pooling of torch with the same window; on the hexagonal lattice, a graph of torch functions."""
        return traced(self._module()) if self._hexagonal else self._module()

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error if the windows would not be symmetric."""
        return placed(type(self).__name__, self.window, sizes, self._centers)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, if it divides the size of a periodic field."""
        return self.window.shift_step(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Where no window sees padding; unknown for a hexagon, whose border is not at the border of its array."""
        return None if self._hexagonal else self.window.interior(sizes)

    def extra_repr(self) -> str:
        """The type and the window."""
        w = self.window
        return f"{self.in_type.rho}, kernel_size={w.kernel_size}, stride={w.stride}, padding={w.before}"


class _AvgPool(_WindowPool):
    @classmethod
    def _require_type(cls, in_type: FieldType) -> None:
        """Accept every type: the mean of vectors transforms like the vectors."""


class _MaxPool(_WindowPool):
    takes_maximum = True

    @classmethod
    def _require_type(cls, in_type: FieldType) -> None:
        require_permutation(cls.__name__, in_type)


@register_layer
class AvgPool2d(_AvgPool):
    """The mean over windows, for fields of any type.

    Shapes: as ``torch.nn.AvgPool2d``. Equivariance: exact on sizes where the windows are symmetric about the center;
    a call with another size raises an error that names sizes that fit.

    Args:
        in_type: fields on a ``Grid2d``.
        kernel_size: the size of the window; on the hexagonal lattice, the diameter of a hexagon.
        stride: by default the kernel size.
        padding: the number of zeros added on each side.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> C4 = Cyclic(4)
    >>> import torch
    >>> AvgPool2d(Grid2d(C4).field(C4.regular), 2)(torch.zeros(1, 4, 9, 9))
    Traceback (most recent call last):
        ...
    intertwine.errors.InputError: AvgPool2d: expected 8 or 10 along the height: ...
    """

    dimension = 2
    plain = torch_nn.AvgPool2d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4 = Cyclic(4), Dihedral(4)
        yield cls(Grid2d(C4).field(C4.irrep(1) + C4.regular), 2)
        yield cls(Grid2d(D4).field(D4.irrep(1)), 3, stride=2, padding=1)
        yield cls(Grid2d("C6", lattice="hexagonal").field("irrep1 + regular"), 3, stride=2, padding=1)


@register_layer
class AvgPool3d(_AvgPool):
    """The mean over windows, for fields of any type.

    Shapes: as ``torch.nn.AvgPool3d``. Equivariance: exact on sizes where the windows are symmetric about the center;
    a call with another size raises an error that names sizes that fit.

    Args:
        in_type: fields on a ``Grid3d``.
        kernel_size: the size of the window.
        stride: by default the kernel size.
        padding: the number of zeros added on each side.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> cube = Octahedral()
    >>> import torch
    >>> AvgPool3d(Grid3d(cube).field(cube.irreps[3]), 2)(torch.zeros(1, 3, 8, 8, 8)).shape
    torch.Size([1, 3, 4, 4, 4])
    """

    dimension = 3
    plain = torch_nn.AvgPool3d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        cube = Octahedral()
        yield cls(Grid3d(cube).field(cube.irreps[3] + cube.trivial), 2)
        yield cls(Grid3d(cube).field(cube.irreps[4]), 3, stride=2, padding=1)


@register_layer
class MaxPool2d(_MaxPool):
    """The maximum over windows, channel by channel, for permutation types.

    Shapes: as ``torch.nn.MaxPool2d``. Equivariance: exact on sizes where the windows are symmetric about the center;
    a call with another size raises an error that names sizes that fit.

    Args:
        in_type: fields of permutation type on a ``Grid2d``.
        kernel_size: the size of the window; on the hexagonal lattice, the diameter of a hexagon.
        stride: by default the kernel size.
        padding: the number of samples added on each side.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> C4 = Cyclic(4)
    >>> import torch
    >>> MaxPool2d(Grid2d(C4).field(C4.regular), 3, stride=2, padding=1)(torch.zeros(1, 4, 9, 9)).shape
    torch.Size([1, 4, 5, 5])
    """

    dimension = 2
    plain = torch_nn.MaxPool2d

    def _fast_module(self) -> torch_nn.Module:
        return self._module() if self._hexagonal else ChannelsLastMaxPool2d(self.window)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4 = Cyclic(4)
        yield cls(Grid2d(C4).field(2 * C4.regular), 2)
        yield cls(Grid2d(C4).field(2 * C4.regular), 3, stride=2, padding=1)
        yield cls(Grid2d("D6", lattice="hexagonal").field("regular"), 3, stride=2, padding=1)


@register_layer
class MaxPool3d(_MaxPool):
    """The maximum over windows, channel by channel, for permutation types.

    Shapes: as ``torch.nn.MaxPool3d``. Equivariance: exact on sizes where the windows are symmetric about the center;
    a call with another size raises an error that names sizes that fit.

    Args:
        in_type: fields of permutation type on a ``Grid3d``.
        kernel_size: the size of the window.
        stride: by default the kernel size.
        padding: the number of samples added on each side.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> cube = Octahedral()
    >>> import torch
    >>> MaxPool3d(Grid3d(cube).field(cube.regular), 2)(torch.zeros(1, 24, 8, 8, 8)).shape
    torch.Size([1, 24, 4, 4, 4])
    """

    dimension = 3
    plain = torch_nn.MaxPool3d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        cube = Octahedral()
        yield cls(Grid3d(cube).field(cube.regular), 2)
        yield cls(Grid3d(cube).field(cube.regular + cube.trivial), 3, stride=2, padding=1)


@register_layer
class AvgPool1d(_AvgPool):
    """:class:`AvgPool2d` for signals.

    >>> import torch
    >>> AvgPool1d(Grid1d("D1").field("regular"), 2)(torch.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 4])
    """

    dimension = 1
    plain = torch_nn.AvgPool1d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        yield cls(Grid1d("D1").field("regular + irrep(0,-1)"), 2)


@register_layer
class MaxPool1d(_MaxPool):
    """:class:`MaxPool2d` for signals.

    >>> import torch
    >>> MaxPool1d(Grid1d("D1").field("regular"), 3, stride=2, padding=1)(torch.zeros(1, 2, 9)).shape
    torch.Size([1, 2, 5])
    """

    dimension = 1
    plain = torch_nn.MaxPool1d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        yield cls(Grid1d("D1").field("2*regular"), 3, stride=2, padding=1)
