"""Makes a strided window symmetric about the center of an input of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor
from torch.nn.functional import avg_pool1d, avg_pool2d, avg_pool3d, pad

from ..._checked import checked
from ...groups import SO2, Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid1d, Grid2d, Grid3d
from .._centers import moving_axes, require_square_lattice
from .._layer import Layer, pointwise_claim, register_layer, require_grid
from .._traced import TracedLayer
from .._window import Window

_MEAN = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


@register_layer
class FitStride(TracedLayer):
    """Moves a field by half a sample where the strided layer after it would not be symmetric about the center.

    A window with stride s meets both borders of n samples in the same way only if it travels a whole number of strides.
    With kernel 3, stride 2 and padding 1, that is so for odd n. On even n, this layer replaces the samples by the means
    of neighbors, n - 1 of them, which are symmetric about the same center. For strides above 2, it also adds zeros, the
    same number on both sides. Where the window fits, it does nothing. A strided convolution after it is then a
    convolution with a kernel one sample larger, at the cost of the smaller one.

    Shapes: ``(batch, d, *space)`` to the same, up to one sample less, or as many more as the stride. Equivariance:
    exact on every size for groups that map the lattice to itself. Axes that the group does not reverse stay as they
    are.

    Args:
        in_type: fields on a ``Grid1d``, ``Grid2d`` or ``Grid3d``.
        kernel_size: that of the layer after it, as are the next two.
        stride: see ``kernel_size``.
        padding: see ``kernel_size``.

    >>> import torch
    >>> from intertwine.nn import Conv2d, Sequential
    >>> D4 = Dihedral(4); field = Grid2d(D4).field(D4.regular)
    >>> window = {"stride": 2, "padding": 1}
    >>> halve = Sequential(FitStride(field, 3, **window), Conv2d(field, field, 3, **window))
    >>> [tuple(halve(torch.zeros(1, 8, n, n)).shape[2:]) for n in (31, 32, 33)]
    [(16, 16), (16, 16), (17, 17)]
    """

    needs_space = True

    @checked
    def __init__(
        self,
        in_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int],
        padding: int | Sequence[int] = 0,
    ) -> None:
        space = require_grid("FitStride", in_type)
        require_square_lattice("FitStride", space)
        super().__init__(in_type, in_type, pointwise_claim(space))
        self.window = Window.of(
            kernel_size, stride=stride, padding=padding, dimension=space.dimension, caller="FitStride"
        )
        self._axes = tuple(axis for axis in moving_axes(space) if self.window.stride[axis] > 1)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, D1, O, so2 = Cyclic(4), Dihedral(4), Dihedral(1), Octahedral(), SO2()
        yield cls(Grid2d(D4).field(D4.regular + D4.irrep(1)), 2, stride=2)  # 7 samples: means
        yield cls(Grid2d(C4).field(C4.regular), 4, stride=4)  # zeros and means
        yield cls(Grid2d(D1).field(D1.regular), 2, stride=(2, 3))
        yield cls(Grid1d("D1").field("regular"), 4, stride=2, padding=1)
        yield cls(Grid3d(O).field(O.irreps[3]), 2, stride=2)
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial), 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        around, halves = zip(*self._changes(x.shape[2:]), strict=True)
        if any(around):
            x = pad(x, tuple(n for zeros in reversed(around) for n in (zeros, zeros)))
        return _MEAN[len(halves)](x, tuple(1 + half for half in halves), 1) if any(halves) else x

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks, and without branches: the mean of a sample with itself where nothing moves."""
        for axis in self._axes:
            zeros, half = self._change(axis, x.shape[2 + axis])
            if self.window.stride[axis] > 2:
                x = pad(x, (0, 0) * (self.window.dimension - 1 - axis) + (zeros, zeros))
            kept = x.shape[2 + axis] - half
            x = 0.5 * (x.narrow(2 + axis, 0, kept) + x.narrow(2 + axis, half, kept))
        return x

    def _changes(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        return [self._change(axis, n) if axis in self._axes else (0, 0) for axis, n in enumerate(sizes)]

    def _change(self, axis: int, n: int) -> tuple[int, int]:
        """How many zeros to add on both sides, and whether to take means after that; arithmetic that can be traced."""
        stride = self.window.stride[axis]
        excess = self.window.travel(axis, n) % stride
        # An excess of 1 is what means take away. For a larger one, the smallest padding that leaves 0 or 1.
        zeros = (excess + stride - 2) // stride * ((stride - excess + 1) // 2)
        return zeros, (excess + 2 * zeros) % stride

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes on which the window is symmetric; an error if it does not fit into them."""
        fitted = tuple([n + 2 * zeros - half for n, (zeros, half) in zip(sizes, self._changes(sizes), strict=True)])
        if any(self.window.travel(axis, n) < 0 for axis, n in enumerate(fitted)):
            self.window.require_room("FitStride", sizes)
        return fitted

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """1 where nothing changes; elsewhere a periodic field is cut open."""
        return 1 if self.output_sizes(sizes) == tuple(sizes) else None

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Everything but the zeros."""
        return 1, max(zeros for zeros, _ in self._changes(sizes))

    def extra_repr(self) -> str:
        """The type and the window."""
        w = self.window
        return f"{self.in_type.rho}, kernel_size={w.kernel_size}, stride={w.stride}, padding={w.before}"
