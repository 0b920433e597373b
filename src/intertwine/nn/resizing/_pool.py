"""Pooling over the channels of a field, over space, and over symmetric windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import avg_pool2d, avg_pool3d, max_pool2d, max_pool3d

from ..._checked import checked
from ...errors import InputError
from ...groups import Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid2d, Grid3d
from .._centers import Centers, placed, require_even_hand
from .._layer import Approximate, Claim, Layer, pointwise_claim, register_layer, require_grid
from .._traced import TracedLayer
from .._window import Window
from ..basis._summands import join, runs, split
from ..nonlinear._nonlinearity import require_orthogonal, require_permutation


def _scalars(field: FieldType) -> FieldType:
    return field.space.field(len(field.rho.atoms) * field.space.stabilizer.trivial)


@register_layer
class GroupPool(TracedLayer):
    """The maximum over the channels of each permutation field: one invariant value per field.

    Shapes: ``(batch, d, ...)`` to ``(batch, fields, ...)``. Equivariance: the maximum does not depend on the order.

    >>> C4 = Cyclic(4)
    >>> GroupPool(Grid2d(C4).field(5 * C4.regular)).out_type
    Field(5 trivial on Grid2d(C4))
    """

    @checked
    def __init__(self, in_type: FieldType) -> None:
        require_permutation("GroupPool", in_type)
        super().__init__(in_type, _scalars(in_type), pointwise_claim(in_type.space))
        self._runs = runs(in_type.rho)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4 = Dihedral(4)
        yield cls(Grid2d(D4).field(2 * D4.regular + D4.quotient(D4.subgroup([4]))))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return join([part.amax(2) for part in split(x, self._runs)])


@register_layer
class NormPool(TracedLayer):
    """|v| of every summand v of an orthogonal representation: one invariant value per field.

    Shapes: ``(batch, d, ...)`` to ``(batch, fields, ...)``. Equivariance: |ρ(h)v| = |v|.

    >>> C4 = Cyclic(4)
    >>> NormPool(Grid2d(C4).field(C4.irrep(1))).out_type
    Field(trivial on Grid2d(C4))
    """

    @checked
    def __init__(self, in_type: FieldType, *, eps: float = 1e-6) -> None:
        require_orthogonal("NormPool", in_type)
        super().__init__(in_type, _scalars(in_type), pointwise_claim(in_type.space))
        self.eps, self._runs = eps, runs(in_type.rho)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4 = Dihedral(4)
        yield cls(Grid2d(D4).field(2 * D4.irrep(1) + D4.regular))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks; eps gives the root a finite gradient at 0."""
        return join([part.square().sum(2).clamp_min(self.eps**2).sqrt() for part in split(x, self._runs)])


@register_layer
class GlobalPool(TracedLayer):
    """The mean over the plane or 3-space: ``(batch, d, *space)`` to ``(batch, d)``.

    Equivariance: translations do not change the mean, and h in H acts on it by ρ(h). For trivial fields it is
    invariant.

    >>> C4 = Cyclic(4)
    >>> import torch
    >>> GlobalPool(Grid2d(C4).field(10 * C4.trivial))(torch.zeros(2, 10, 7, 7)).shape
    torch.Size([2, 10])
    """

    needs_space = True
    keeps_space = False

    @checked
    def __init__(self, in_type: FieldType) -> None:
        grid = require_grid("GlobalPool", in_type)
        super().__init__(in_type, in_type, pointwise_claim(grid))
        self._axes = tuple(range(2, 2 + grid.dimension))

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, O = Cyclic(4), Octahedral()
        yield cls(Grid2d(C4).field(C4.regular + C4.irrep(1)))
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return x.mean(self._axes)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """No spatial axes remain."""
        return ()


class _WindowPool(Layer):
    """The base class of pooling over windows."""

    needs_space = True
    dimension: ClassVar[int]

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
            if getattr(space, "lattice", "square") == "hexagonal":
                raise InputError(
                    caller,
                    expected=f"a window on the square lattice, which {space.stabilizer.name} maps to itself",
                    got=space.name,
                    fix="Pass allow_asymmetric=True.",
                )
        super().__init__(in_type, in_type, claim)
        self.window, self._centers = window, None if allow_asymmetric else Centers.of(space)

    @classmethod
    @abstractmethod
    def _require_type(cls, in_type: FieldType) -> None:
        """Raise an error for fields that cannot be pooled this way."""

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        return self.pool(x)

    @abstractmethod
    def pool(self, x: Tensor) -> Tensor:
        """The map without checks."""

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error if the windows would not be symmetric."""
        return placed(type(self).__name__, self.window, sizes, self._centers)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, if it divides the size of a periodic field."""
        return self.window.shift_step(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Where no window sees padding."""
        return self.window.interior(sizes)

    def extra_repr(self) -> str:
        """The type and the window."""
        w = self.window
        return f"{self.in_type.rho}, kernel_size={w.kernel_size}, stride={w.stride}, padding={w.before}"


class _AvgPool(_WindowPool):
    @classmethod
    def _require_type(cls, in_type: FieldType) -> None:
        """Accept every type: the mean of vectors transforms like the vectors."""


class _MaxPool(_WindowPool):
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
        kernel_size: the size of the window.
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

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4 = Cyclic(4), Dihedral(4)
        yield cls(Grid2d(C4).field(C4.irrep(1) + C4.regular), 2)
        yield cls(Grid2d(D4).field(D4.irrep(1)), 3, stride=2, padding=1)

    def pool(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return avg_pool2d(x, self.window.kernel_size, self.window.stride, self.window.before)

    def to_plain(self) -> torch_nn.AvgPool2d:
        """A ``torch.nn.AvgPool2d``."""
        return torch_nn.AvgPool2d(self.window.kernel_size, self.window.stride, self.window.before)  # type: ignore[arg-type]


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

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        cube = Octahedral()
        yield cls(Grid3d(cube).field(cube.irreps[3] + cube.trivial), 2)
        yield cls(Grid3d(cube).field(cube.irreps[4]), 3, stride=2, padding=1)

    def pool(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return avg_pool3d(x, self.window.kernel_size, self.window.stride, self.window.before)

    def to_plain(self) -> torch_nn.AvgPool3d:
        """A ``torch.nn.AvgPool3d``."""
        return torch_nn.AvgPool3d(self.window.kernel_size, self.window.stride, self.window.before)  # type: ignore[arg-type]


@register_layer
class MaxPool2d(_MaxPool):
    """The maximum over windows, channel by channel, for permutation types.

    Shapes: as ``torch.nn.MaxPool2d``. Equivariance: exact on sizes where the windows are symmetric about the center;
    a call with another size raises an error that names sizes that fit.

    Args:
        in_type: fields of permutation type on a ``Grid2d``.
        kernel_size: the size of the window.
        stride: by default the kernel size.
        padding: the number of samples added on each side.
        allow_asymmetric: whether to accept sizes that break the symmetry.

    >>> C4 = Cyclic(4)
    >>> import torch
    >>> MaxPool2d(Grid2d(C4).field(C4.regular), 3, stride=2, padding=1)(torch.zeros(1, 4, 9, 9)).shape
    torch.Size([1, 4, 5, 5])
    """

    dimension = 2

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4 = Cyclic(4)
        yield cls(Grid2d(C4).field(2 * C4.regular), 2)
        yield cls(Grid2d(C4).field(2 * C4.regular), 3, stride=2, padding=1)

    def pool(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return max_pool2d(x, self.window.kernel_size, self.window.stride, self.window.before)

    def to_plain(self) -> torch_nn.MaxPool2d:
        """A ``torch.nn.MaxPool2d``."""
        return torch_nn.MaxPool2d(self.window.kernel_size, self.window.stride, self.window.before)


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

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        cube = Octahedral()
        yield cls(Grid3d(cube).field(cube.regular), 2)
        yield cls(Grid3d(cube).field(cube.regular + cube.trivial), 3, stride=2, padding=1)

    def pool(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return max_pool3d(x, self.window.kernel_size, self.window.stride, self.window.before)

    def to_plain(self) -> torch_nn.MaxPool3d:
        """A ``torch.nn.MaxPool3d``."""
        return torch_nn.MaxPool3d(self.window.kernel_size, self.window.stride, self.window.before)
