"""Layers in sequence, with matching types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil

from torch import Tensor
from torch import nn as torch_nn

from ..._checked import describe
from ...errors import InputError, TypeMismatchError
from ...groups import Cyclic
from ...spaces import Cloud3d, Grid2d
from .._layer import Claim, Exact, Layer, combined_claim, companions_by_name, register_layer
from ..clouds._point_conv import PointConv
from ..linear._conv2d import Conv2d
from ..nonlinear._gated import Gated
from ..nonlinear._nonlinearity import ReLU
from ..norms._norm import BatchNorm
from ..resizing._global_pool import GlobalPool
from ..resizing._pool import GroupPool
from ..resizing._window_pool import AvgPool2d
from ._passing import joint_companions, passed_on


@register_layer
class Sequential(Layer):
    """Φ_n ∘ … ∘ Φ_1. The out_type of each layer must be the in_type of the next; a mismatch raises an error.

    Companions, such as positions and edges, go to every layer that takes them.

    Shapes: those of the first layer's input and the last layer's output. Equivariance: that of the layers.

    Args:
        layers: one or more layers.

    >>> C4 = Cyclic(4); plane = Grid2d(C4)
    >>> rgb, hidden = plane.field(3 * C4.trivial), plane.field(4 * C4.regular)
    >>> Sequential(Conv2d(rgb, hidden, 3), ReLU(rgb))
    Traceback (most recent call last):
        ...
    intertwine.errors.TypeMismatchError: Sequential: expected layer 1 (ReLU) to take Field(4 regular on Grid2d(C4)),
    which layer 0 (Conv2d) returns; got Field(3 trivial on Grid2d(C4)).
    """

    def __init__(self, *layers: Layer) -> None:
        wrong = [layer for layer in layers if not isinstance(layer, Layer)]
        if wrong or not layers:
            raise InputError(
                "Sequential",
                expected="one or more layers with field types",
                got=describe(wrong[0]) if wrong else "nothing",
                fix="Pass the layers one by one: Sequential(*layers)."
                if wrong and isinstance(wrong[0], Sequence)
                else "Wrap your own modules in intertwine.nn.Plain.",
            )
        for number, (first, second) in enumerate(pairwise(layers)):
            names = f"layer {number + 1} ({type(second).__name__})", f"layer {number} ({type(first).__name__})"
            if first.out_type != second.in_type:
                raise TypeMismatchError(
                    "Sequential",
                    expected=f"{names[0]} to take {first.out_type}, which {names[1]} returns",
                    got=f"{second.in_type}",
                )
            if second.needs_space and not all(layer.keeps_space for layer in layers[: number + 1]):
                raise TypeMismatchError(
                    "Sequential",
                    expected=f"fields with spatial axes for {names[0]}",
                    got=f"values without spatial axes from {names[1]}",
                    fix="Put it before the pooling over space.",
                )
        super().__init__(layers[0].in_type, layers[-1].out_type, Exact())
        self.needs_space = any(layer.needs_space for layer in layers)
        self.keeps_space = all(layer.keeps_space for layer in layers)
        self.fixed_sizes = layers[0].fixed_sizes
        self.companions = joint_companions(layers)
        for number, layer in enumerate(layers):
            self.add_module(str(number), layer)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4 = Cyclic(4)
        plane = Grid2d(C4)
        rgb, hidden = plane.field(3 * C4.trivial), plane.field(2 * C4.regular)
        conv = Conv2d(rgb, hidden, 3, padding=1), BatchNorm(hidden), ReLU(hidden), AvgPool2d(hidden, 2)
        yield cls(
            *conv, Conv2d(hidden, hidden, 3, padding=1), GroupPool(hidden), GlobalPool(plane.field(2 * C4.trivial))
        )
        periodic = Conv2d(hidden, hidden, 3, padding=1, padding_mode="circular")
        yield cls(cls(periodic, ReLU(hidden)), AvgPool2d(hidden, 2))
        cloud = Cloud3d("O(3)")
        gated = Gated(cloud.field("2*irrep0 + irrep1"))
        scalars = cloud.field("2*irrep0")
        yield cls(
            PointConv(scalars, gated.in_type, radius=1.0), gated, PointConv(gated.out_type, gated.out_type, radius=1.0)
        )

    @property
    def claim(self) -> Claim:
        """The combined claim of the layers."""
        return combined_claim([layer.claim for layer in self])

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, number: int) -> Layer:
        return list(self)[number]

    def forward(self, x: Tensor, *companions: Tensor, **named: Tensor) -> Tensor:
        values = companions_by_name(self, companions, named)
        for layer in self._modules.values():
            x = layer(x, *passed_on(layer, values))  # type: ignore[misc, arg-type]
        return x

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error if a layer would break the symmetry."""
        for layer in self:
            sizes = layer.output_sizes(sizes)
        return tuple(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The product of the layers' steps."""
        total = 1
        for layer in self:
            step = layer.shift_step(sizes)
            if step is None:
                return None
            total, sizes = total * step, layer.output_sizes(sizes)
        return total

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """The product of the layers' steps; later layers spread the effect of a border inward."""
        step, margin = 1, 0
        for layer in self:
            interior = layer.interior(sizes)
            if interior is None:
                return None
            step, margin = step * interior[0], ceil(margin / interior[0]) + interior[1]
            sizes = layer.output_sizes(sizes)
        return step, margin

    def to_plain(self) -> torch_nn.Module:
        """A ``torch.nn.Sequential`` of plain layers; a graph of them if they take companions."""
        plain = torch_nn.Sequential(*(layer.to_plain() for layer in self))
        if not self.companions:
            return plain
        from torch.fx import Graph, GraphModule  # imported here because it is slow to import

        graph = Graph()
        x = graph.placeholder("x")
        values = {companion.name: graph.placeholder(companion.name) for companion in self.companions}
        for number, layer in enumerate(self):
            x = graph.call_module(str(number), (x, *passed_on(layer, values)))
        graph.output(x)
        return GraphModule(plain, graph, class_name="PlainSequential")

    def extra_repr(self) -> str:
        """Nothing: the layers print themselves."""
        return ""
