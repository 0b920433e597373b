"""Layers in parallel: residual blocks and concatenation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked, describe
from ...errors import InputError, TypeMismatchError
from ...groups import Cyclic, Dihedral, direct_sum
from ...spaces import Cloud2d, FieldType, Grid2d
from .._layer import Claim, Exact, Layer, combined_claim, companions_by_name, register_layer
from ..clouds._point_conv import PointConv
from ..linear._conv2d import Conv2d
from ..nonlinear._nonlinearity import ReLU
from ..norms._norm import BatchNorm
from ..resizing._global_pool import GlobalPool
from ..resizing._window_pool import AvgPool2d
from ._identity import Identity
from ._passing import joint_companions, passed_on
from ._sequential import Sequential


class Branches(Layer):
    """Several layers with the same input, and a way to join their outputs."""

    def __init__(self, out_type: FieldType, branches: Sequence[Layer]) -> None:
        super().__init__(branches[0].in_type, out_type, Exact())
        self.fixed_sizes = next((b.fixed_sizes for b in branches if b.fixed_sizes is not None), None)
        self.needs_space = any(branch.needs_space for branch in branches)
        self.keeps_space = branches[0].keeps_space
        self.companions = joint_companions(branches)

    @abstractmethod
    def join(self, outputs: Sequence[Tensor]) -> Tensor:
        """Combine the outputs of the branches; also called on ``torch.fx`` proxies."""

    @property
    def branches(self) -> list[Layer]:
        """The layers, in order."""
        return list(self._modules.values())  # type: ignore[arg-type]

    @property
    def claim(self) -> Claim:
        """The combined claim of the branches."""
        return combined_claim([branch.claim for branch in self.branches])

    def forward(self, x: Tensor, *companions: Tensor, **named: Tensor) -> Tensor:
        self.check_input(x)
        values = companions_by_name(self, companions, named)
        outputs = [branch(x, *passed_on(branch, values)) for branch in self.branches]
        self._same_sizes([tuple(output.shape[2:]) for output in outputs])
        return self.join(outputs)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output, on which all branches must agree."""
        return self._same_sizes([branch.output_sizes(sizes) for branch in self.branches])

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The step on which all branches agree."""
        steps = {branch.shift_step(sizes) for branch in self.branches}
        return steps.pop() if len(steps) == 1 else None

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """The step on which all branches agree, and the largest of their margins."""
        interiors = [branch.interior(sizes) for branch in self.branches]
        known = [interior for interior in interiors if interior is not None]
        if len(known) < len(interiors) or len({step for step, _ in known}) > 1:
            return None
        return known[0][0], max(margin for _, margin in known)

    def to_plain(self) -> torch_nn.Module:
        """A graph of the plain branches."""
        from torch.fx import Graph, GraphModule, Proxy, Tracer  # imported here because it is slow to import

        root, graph, tracer = torch_nn.Module(), Graph(), Tracer()
        tracer.graph = graph  # `join` records its operations on the proxies here
        x = graph.placeholder("x")
        values = {companion.name: graph.placeholder(companion.name) for companion in self.companions}
        outputs = []
        for name, branch in zip(self._modules, self.branches, strict=True):
            root.add_module(name, branch.to_plain())
            inputs = (x, *passed_on(branch, values))
            outputs.append(Proxy(graph.call_module(name, inputs), tracer))
        graph.output(self.join(outputs).node)  # type: ignore[arg-type, attr-defined]
        return GraphModule(root, graph, class_name=f"Plain{type(self).__name__}")

    def extra_repr(self) -> str:
        """Nothing: the branches print themselves."""
        return ""

    def _same_sizes(self, sizes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        if any(other != sizes[0] for other in sizes[1:]):
            raise InputError(
                type(self).__name__,
                expected="branches with outputs of the same sizes",
                got=" and ".join(map(str, sizes)),
                fix="Give them the same strides and paddings.",
            )
        return sizes[0]


@register_layer
class Residual(Branches):
    """Φ(f) = body(f) + shortcut(f), as in a ResNet.

    Shapes: those of the body, which the shortcut must share. Equivariance: that of the two layers.

    Args:
        body: any layer, such as a :class:`Sequential`.
        shortcut: a layer with the same types and output sizes, such as a strided 1 x 1 convolution; by default the
            identity.

    >>> D4 = Dihedral(4); plane = Grid2d(D4)
    >>> x, y = plane.field(2 * D4.regular), plane.field(4 * D4.regular)
    >>> body = Sequential(Conv2d(x, y, 3, stride=2, padding=1), BatchNorm(y), ReLU(y), Conv2d(y, y, 3, padding=1))
    >>> block = Residual(body, Conv2d(x, y, 1, stride=2))
    >>> block(torch.randn(1, 16, 9, 9)).shape
    torch.Size([1, 32, 5, 5])
    >>> Residual(body)
    Traceback (most recent call last):
        ...
    intertwine.errors.TypeMismatchError: Residual: expected a shortcut from Field(2 regular on Grid2d(D4)) to Field(4
    regular on Grid2d(D4)), as the body; got the identity. ...
    """

    @checked
    def __init__(self, body: Layer, shortcut: Layer | None = None) -> None:
        other = Identity(body.in_type) if shortcut is None else shortcut
        if (other.in_type, other.out_type) != (body.in_type, body.out_type):
            raise TypeMismatchError(
                "Residual",
                expected=f"a shortcut from {body.in_type} to {body.out_type}, as the body",
                got="the identity" if shortcut is None else f"one from {other.in_type} to {other.out_type}",
                fix="Pass a shortcut with these types, such as a 1 x 1 convolution.",
            )
        _require_same_rank("Residual", [body, other])
        super().__init__(body.out_type, [body, other])
        self.body, self.shortcut = body, other

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, C4, C8 = Dihedral(4), Cyclic(4), Cyclic(8)
        plane = Grid2d(D4)
        x, y = plane.field(D4.regular + D4.trivial), plane.field(2 * D4.regular)
        body = Sequential(
            Conv2d(x, y, 3, stride=2, padding=1, bias=False),
            BatchNorm(y),
            ReLU(y),
            Conv2d(y, y, 3, padding=1, bias=False),
            BatchNorm(y),
        )
        yield cls(body, Sequential(Conv2d(x, y, 1, stride=2, bias=False), BatchNorm(y)))
        field = Grid2d(C4).field(2 * C4.regular)
        yield cls(Sequential(ReLU(field), Conv2d(field, field, 3, padding=1, padding_mode="circular")))
        field = Grid2d(C8).field(C8.regular)
        yield cls(Conv2d(field, field, 5, padding=2))
        field = Cloud2d("SO(2)").field("trivial + irrep1")
        yield cls(PointConv(field, field, radius=1.0))

    def join(self, outputs: Sequence[Tensor]) -> Tensor:
        """The sum."""
        return outputs[0] + outputs[1]


@register_layer
class Concat(Branches):
    """Φ(f) = (Φ_1(f), …, Φ_n(f)): the fields of all branches, one after the other.

    Shapes: those of the branches, with the sum of their channels. Equivariance: that of the branches. ``out_type`` is
    the direct sum of their output types.

    Args:
        branches: layers with the same input type and the same output sizes; :class:`Identity` keeps the input.

    >>> C4 = Cyclic(4); plane = Grid2d(C4)
    >>> x = plane.field(2 * C4.regular)
    >>> layer = Concat(Identity(x), Conv2d(x, plane.field(3 * C4.trivial), 3, padding=1))
    >>> layer.out_type
    Field(2 regular + 3 trivial on Grid2d(C4))
    >>> layer(torch.randn(1, 8, 5, 5)).shape
    torch.Size([1, 11, 5, 5])
    """

    def __init__(self, *branches: Layer) -> None:
        wrong = [branch for branch in branches if not isinstance(branch, Layer)]
        if wrong or not branches:
            raise InputError(
                "Concat",
                expected="one or more layers with field types",
                got=describe(wrong[0]) if wrong else "nothing",
                fix="Wrap your own modules in intertwine.nn.Plain.",
            )
        first = branches[0]
        for number, branch in enumerate(branches):
            if branch.in_type != first.in_type or branch.out_type.space != first.out_type.space:
                raise TypeMismatchError(
                    "Concat",
                    expected=f"branches from {first.in_type} to fields on {first.out_type.space.name}",
                    got=f"branch {number} from {branch.in_type} to {branch.out_type}",
                )
        _require_same_rank("Concat", branches)
        super().__init__(first.out_type.space.field(direct_sum(b.out_type.rho for b in branches)), branches)
        for number, branch in enumerate(branches):
            self.add_module(str(number), branch)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, C4 = Dihedral(4), Cyclic(4)
        plane = Grid2d(D4)
        x, y = plane.field(D4.regular + D4.trivial), plane.field(D4.irrep(1) + D4.regular)
        yield cls(AvgPool2d(x, 2), Conv2d(x, y, 4, stride=2, padding=1))
        field = Grid2d(C4).field(C4.regular)
        yield cls(Identity(field), Conv2d(field, field, 3, padding=1, padding_mode="circular"))
        yield cls(GlobalPool(field), Sequential(ReLU(field), GlobalPool(field)))

    def join(self, outputs: Sequence[Tensor]) -> Tensor:
        """All channels."""
        return torch.cat(list(outputs), 1)


def _require_same_rank(caller: str, branches: Sequence[Layer]) -> None:
    if len({branch.keeps_space for branch in branches}) > 1:
        flat = next(type(branch).__name__ for branch in branches if not branch.keeps_space)
        raise TypeMismatchError(
            caller,
            expected="branches that all keep the spatial axes, or none",
            got=f"{flat}, which does not, beside others that do",
            fix="Pool over space after the branches, or in all of them.",
        )
