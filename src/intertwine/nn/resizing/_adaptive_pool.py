"""Pooling to a given output size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ...errors import InputError
from ...groups import SO2, Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid1d, Grid2d, Grid3d
from .._centers import mixed_axes, require_square_lattice
from .._layer import Approximate, Exact, Layer, axis_names, register_layer, require_grid
from .._traced import TracedLayer
from .._window import per_axis
from ..nonlinear._nonlinearity import require_permutation
from ._window_pool import TorchPool


class _AdaptivePool(TorchPool):
    """The base class: window i of m covers samples ⌊in/m⌋ to ⌈(i+1)n/m⌉ − 1 of n.

    Reversing the samples reverses the windows, so reflections commute on every size.
    """

    plain: ClassVar[dict[int, Callable[..., torch_nn.Module]]]

    @checked
    def __init__(self, in_type: FieldType, output_size: int | Sequence[int]) -> None:
        caller = type(self).__name__
        self._require_type(in_type)
        space = require_grid(caller, in_type)
        sizes = per_axis(output_size, space.dimension, caller=caller, what="output_size", least=1)
        require_square_lattice(caller, space)
        names = axis_names(space)
        for a, b in mixed_axes(space):
            if sizes[a] != sizes[b]:
                raise InputError(
                    caller,
                    expected=f"equal output sizes along {names[a]} and {names[b]}, which {space.stabilizer.name} mixes",
                    got=str(sizes),
                )
        unbounded = Approximate(
            "the group does not preserve windows, whose size depends on the input", bound=float("inf")
        )
        super().__init__(in_type, in_type, Exact() if space.exact else unbounded)
        self.output_size, self._even_windows = sizes, not space.exact
        self._pooling = (type(self).plain[space.dimension](sizes),)

    def to_plain(self) -> torch_nn.Module:
        """The adaptive pooling of torch."""
        return type(self).plain[len(self.output_size)](self.output_size)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The given sizes; an error if the group does not map the lattice to itself and the windows are uneven."""
        names = axis_names(self.in_type.space)
        for n, m, name in zip(sizes, self.output_size, names, strict=True):
            if n < m or (self._even_windows and n % m):
                raise InputError(
                    type(self).__name__,
                    expected=f"a multiple of {m} along the {name}: {self.in_type.space.stabilizer.name} rotates by "
                    "other than right angles, so the windows must be equally spaced"
                    if n >= m
                    else f"at least {m} samples along the {name}, one per window",
                    got=str(n),
                    fix="Crop or pad the input, or choose another output size.",
                )
        return self.output_size

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The size of the windows, if all are equal."""
        steps = {n // m if n % m == 0 else None for n, m in zip(sizes, self.output_size, strict=True)}
        return steps.pop() if len(steps) == 1 else None

    def extra_repr(self) -> str:
        """The type and the output size."""
        return f"{self.in_type.rho}, output_size={self.output_size}"


@register_layer
class AdaptiveAvgPool(_AdaptivePool):
    """The mean over ``output_size`` windows along every axis, for fields of any type.

    Shapes: ``(batch, d, *space)`` to ``(batch, d, *output_size)``, as torch's adaptive pooling. Equivariance: exact on
    every size for groups that map the lattice to itself, because the windows are symmetric about the center. For other
    groups, such as C8, the windows must also be equally spaced; other sizes raise an error. How well other rotations
    commute then depends on how smooth the field is over a window.

    Args:
        in_type: fields on a ``Grid1d``, ``Grid2d`` or ``Grid3d``.
        output_size: the number of windows, for all axes or per axis.

    >>> import torch
    >>> C4 = Cyclic(4); field = Grid2d(C4).field(C4.irrep(1))
    >>> AdaptiveAvgPool(field, 3)(torch.zeros(1, 2, 32, 32)).shape
    torch.Size([1, 2, 3, 3])
    >>> AdaptiveAvgPool(field, (3, 5))
    Traceback (most recent call last):
        ...
    intertwine.errors.InputError: AdaptiveAvgPool: expected equal output sizes along height and width, which C4 mixes...
    """

    plain: ClassVar[dict[int, Callable[..., torch_nn.Module]]] = {
        1: torch_nn.AdaptiveAvgPool1d,
        2: torch_nn.AdaptiveAvgPool2d,
        3: torch_nn.AdaptiveAvgPool3d,
    }

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, D1, O, so2 = Dihedral(4), Dihedral(1), Octahedral(), SO2()
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.regular), 3)
        yield cls(Grid2d(D1).field(D1.regular + D1.irrep(0, -1)), (2, 5))
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial), 2)
        yield cls(Grid2d(so2).field(so2.irrep(1)), 8)


@register_layer
class AdaptiveMaxPool(_AdaptivePool, TracedLayer):
    """The maximum over ``output_size`` windows along every axis, for permutation types; see :class:`AdaptiveAvgPool`.

    Args:
        in_type: fields of permutation type on a ``Grid1d``, ``Grid2d`` or ``Grid3d``.
        output_size: the number of windows, for all axes or per axis.

    >>> import torch
    >>> C4 = Cyclic(4)
    >>> AdaptiveMaxPool(Grid2d(C4).field(C4.regular), 3)(torch.zeros(1, 4, 32, 32)).shape
    torch.Size([1, 4, 3, 3])
    """

    plain: ClassVar[dict[int, Callable[..., torch_nn.Module]]] = {
        1: torch_nn.AdaptiveMaxPool1d,
        2: torch_nn.AdaptiveMaxPool2d,
        3: torch_nn.AdaptiveMaxPool3d,
    }

    @classmethod
    def _require_type(cls, in_type: FieldType) -> None:
        require_permutation(cls.__name__, in_type)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks, window by window along one axis after the other."""
        for axis, m in enumerate(self.output_size, start=2):
            n = x.shape[axis]
            ends = [((i * n) // m, -(-((i + 1) * n) // m)) for i in range(m)]
            x = torch.cat([x.narrow(axis, start, stop - start).amax(axis, keepdim=True) for start, stop in ends], axis)
        return x

    def to_plain(self) -> torch_nn.Module:
        """A graph of maxima over slices: the exporter to ONNX does not know torch's adaptive max pooling."""
        return TracedLayer.to_plain(self)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, O = Cyclic(4), Octahedral()
        yield cls(Grid2d(C4).field(2 * C4.regular), 3)
        yield cls(Grid1d("D1").field("regular"), 4)
        yield cls(Grid3d(O).field(O.quotient(O.subgroup([1]))), 2)
