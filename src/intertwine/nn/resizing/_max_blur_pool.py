"""The maximum over windows at every sample, then a blur, then downsampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ...errors import TypeMismatchError
from ...groups import Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid2d, Grid3d
from .._centers import Centers, placed
from .._layer import Layer, combined_claim, register_layer, require_grid
from .._window import Window
from ..nonlinear._nonlinearity import require_permutation
from ._blur_pool import BlurPool2d, BlurPool3d
from ._window_pool import MaxPool2d, MaxPool3d


@register_layer
class MaxBlurPool(Layer):
    """Antialiased max pooling: the maximum over windows at every sample, then :class:`BlurPool2d` with a stride.

    Max pooling with a stride lets through frequencies that the coarser lattice cannot represent, so a shift by one
    sample can change its output a lot. The blur removes them first (Zhang 2019).

    Shapes: with the default options ``(batch, d, n, n)`` to ``(batch, d, n/2, n/2)``, for even n. Equivariance: exact
    on sizes where the windows are symmetric about the center; a call with another size raises an error that names sizes
    that fit.

    Args:
        in_type: fields of permutation type on a ``Grid2d`` or ``Grid3d``.
        kernel_size: the size of the window of the maximum.
        stride: the factor by which the output is coarser.
        padding: samples added on each side before the maximum; by default ``(kernel_size - 1) // 2``.
        blur: the number of binomial weights of the blur along each axis: even for even sizes, odd for odd sizes.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> import torch
    >>> C4 = Cyclic(4); field = Grid2d(C4).field(C4.regular)
    >>> MaxBlurPool(field)(torch.zeros(1, 4, 8, 8)).shape, MaxBlurPool(field, blur=3)(torch.zeros(1, 4, 9, 9)).shape
    (torch.Size([1, 4, 4, 4]), torch.Size([1, 4, 5, 5]))
    >>> MaxBlurPool(field)(torch.zeros(1, 4, 9, 9))
    Traceback (most recent call last):
        ...
    intertwine.errors.InputError: MaxBlurPool: expected 8 or 10 along the height: ...
    """

    needs_space = True

    @checked
    def __init__(
        self,
        in_type: FieldType,
        kernel_size: int = 3,
        *,
        stride: int = 2,
        padding: int | None = None,
        blur: int = 4,
        allow_asymmetric: bool = False,
    ) -> None:
        require_permutation("MaxBlurPool", in_type)
        space = require_grid("MaxBlurPool", in_type)
        dimension = space.dimension
        if dimension == 1:
            raise TypeMismatchError(
                "MaxBlurPool", expected="fields on a plane or in 3-space", got=str(in_type), fix="Use MaxPool1d."
            )
        margin = (kernel_size - 1) // 2 if padding is None else padding
        pool, smooth = (MaxPool2d, BlurPool2d) if dimension == 2 else (MaxPool3d, BlurPool3d)
        maximum = pool(in_type, kernel_size, stride=1, padding=margin, allow_asymmetric=allow_asymmetric)
        after = smooth(in_type, blur, stride=stride, allow_asymmetric=allow_asymmetric)
        super().__init__(in_type, in_type, combined_claim([maximum.claim, after.claim]))
        self.maximum, self.blur = maximum, after
        self.window = Window.of(  # what both steps see together
            kernel_size + blur - 1, stride=stride, padding=margin + after.window.before[0], dimension=dimension
        )
        self._centers = None if allow_asymmetric else Centers.of(space)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O = Cyclic(4), Dihedral(4), Octahedral()
        yield cls(Grid2d(D4).field(D4.regular + D4.trivial))
        yield cls(Grid2d(C4).field(C4.regular), 2, blur=3)
        yield cls(Grid3d(O).field(O.trivial + O.quotient(O.subgroup([1]))))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        blurred: Tensor = self.blur(self.maximum(x))
        return blurred

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error if the windows would not be symmetric."""
        return placed("MaxBlurPool", self.window, sizes, self._centers)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, if it divides the size of a periodic field and nothing is padded."""
        return self.window.shift_step(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Where neither step sees padding."""
        return self.window.interior(sizes)

    def to_plain(self) -> torch_nn.Module:
        """A ``torch.nn.Sequential`` of both steps."""
        return torch_nn.Sequential(self.maximum.to_plain(), self.blur.to_plain())
