"""Translates a traced network with symmetric channels, operation by operation, to layers between field types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch import nn as torch_nn

from ...errors import InputError, IntertwineError
from ...groups import Representation, direct_sum
from ...spaces import FieldType, Grid2d
from .._layer import Exact, Layer
from ..linear._conv2d import Conv2d
from ..linear._linear import Linear
from ..networks._branches import Concat, Residual
from ..networks._identity import Identity
from ..networks._plain import Plain
from ..networks._sequential import Sequential
from ..nonlinear._nonlinearity import Pointwise, ReLU
from ..norms._dropout import Dropout
from ..norms._norm import BatchNorm
from ..resizing._global_pool import GlobalPool
from ..resizing._window_pool import AvgPool2d, MaxPool2d
from ._dataflow import Dataflow, Enter, Weights, module_of, operation, region, sizes_of
from ._fit import fit_filter_, fit_norm_
from ._orbit_types import finite

if TYPE_CHECKING:
    from torch.fx import Node

    from ...measure import ChannelGraph

Form = Literal["map", "flat", "vector"]
"""The form of a tensor for our layers: ``(batch, d, h, w)``, a map that the program flattened, or ``(batch, d)``."""

MODULES: dict[str, Callable[[], torch_nn.Module]] = {
    "gelu": torch_nn.GELU,
    "silu": torch_nn.SiLU,
    "sigmoid": torch_nn.Sigmoid,
    "tanh": torch_nn.Tanh,
    "hardswish": torch_nn.Hardswish,
    "hardsigmoid": torch_nn.Hardsigmoid,
    "mish": torch_nn.Mish,
    "relu6": torch_nn.ReLU6,
}
"""Functions with a torch module, for default arguments."""

OTHERS = ("hardtanh", "leaky_relu", "elu", "selu", "celu", "softplus", "softsign", "threshold", "clamp", "abs", "exp")
"""Functions with arguments or without a torch module."""

NOTHING = ("contiguous", "clone", "alias", "detach", "lift_fresh_copy")
LOOSE = "sizes and strides that break the symmetry are allowed"


class _NoCounterpartError(Exception):
    """An operation that no layer computes."""


@dataclass(frozen=True)
class Value:
    """The type and form of a tensor; for a flattened map also its sizes before."""

    field: FieldType
    form: Form
    sizes: tuple[int, ...] = ()


class Translator:
    """Turns the operations of a program into layers.

    Args:
        graph: the channel graph of the network.
        types: the representation that each group of channels carries.
        space: the plane with the group.
        image: the representation on the channels of the network's input.
        weights: the weights of the network, with channels in the order of the types.
        tolerance: the largest allowed distance of weights from equivariant weights.
    """

    def __init__(
        self,
        graph: ChannelGraph,
        types: Mapping[str, Representation],
        space: Grid2d,
        image: Representation,
        weights: Weights,
        *,
        tolerance: float,
    ) -> None:
        self.graph, self.types, self.weights = graph, types, weights
        self.tolerance = tolerance
        self.flow = Dataflow(graph.program, graph.inputs)
        self.space, self.group = space, finite(space)
        self.values: dict[Node, Value] = {self.flow.input: Value(space.field(image), "map")}
        self._shared: dict[tuple[Any, ...], Layer] = {}

    def network(self) -> Sequential:
        """The translated program."""
        layers = self._chain(self.flow.input, self.flow.output)
        if self.values[self.flow.output].form == "flat" or not layers:
            raise InputError("typed", expected="a network that ends in values or in a map", got="a flattened map")
        return Sequential(*layers)

    # -- structure ---------------------------------------------------------------------------------------------

    def _chain(self, source: Node, target: Node) -> list[Layer]:
        """The layers between two tensors. Operations without a counterpart become one :class:`Plain` layer."""
        layers: list[Layer] = []
        rest = self.flow.bottlenecks(source, target)
        while rest:
            try:
                layers += self._step(source, rest[0])
                source, rest = rest[0], rest[1:]
            except _NoCounterpartError as reason:
                number, layer = self._plain(source, rest, str(reason))
                layers.append(layer)
                source, rest = rest[number], rest[number + 1 :]
        return layers

    def _step(self, source: Node, node: Node) -> list[Layer]:
        """The layers for one operation, or for the branches that it joins."""
        name, value = operation(node), self.values[source]
        data = self.flow.sources[node]
        if name == "add" and len(data) == 2 and not node.kwargs and sizes_of(data[0]) == sizes_of(data[1]):
            body, shortcut = self._branches(source, data)
            layer: Layer = Residual(shortcut, body) if isinstance(body, Identity) else Residual(body, shortcut)
            return self._join(node, data, layer)
        if name == "cat" and self._is_channel_axis(node):
            return self._join(node, data, Concat(*self._branches(source, list(node.args[0]))))  # type: ignore[arg-type]
        if set(data) != {source}:
            raise _NoCounterpartError(name)
        rule = RULES.get(name)
        if rule is None or any(n in self.flow.sources for n in _later(node)):
            raise _NoCounterpartError(name)
        try:
            layers, after = rule(self, node, value)
        except IntertwineError as error:
            if isinstance(error, InputError) and error.caller == "typed":
                raise
            raise _NoCounterpartError(f"{name}: {error}") from error
        self.values[node] = after
        return layers

    def _branches(self, source: Node, ends: list[Node]) -> list[Layer]:
        parts = [self.flow.between(source, end) for end in ends]
        if any(a & b for k, a in enumerate(parts) for b in parts[:k]):
            raise _NoCounterpartError("branches that share layers")
        branches: list[Layer] = []
        for end in ends:
            layers = self._chain(source, end)
            start = self.values[source]
            branches.append(Sequential(*layers) if len(layers) > 1 else layers[0] if layers else Identity(start.field))
        return branches

    def _join(self, node: Node, ends: list[Node], layer: Layer) -> list[Layer]:
        forms = {(self.values[end].form, self.values[end].sizes) for end in ends}
        if len(forms) > 1 or self.values[ends[0]].form == "flat":
            raise _NoCounterpartError("branches with and without space")
        self.values[node] = Value(layer.out_type, self.values[ends[0]].form)
        return [layer]

    def _is_channel_axis(self, node: Node) -> bool:
        axis: Any = node.args[1] if len(node.args) > 1 else 0
        tensors: Any = node.args[0]
        return axis % node.meta["val"].dim() == 1 and all(n in self.flow.sources for n in tensors)

    # -- what has no counterpart -------------------------------------------------------------------------------

    def _plain(self, source: Node, rest: list[Node], reason: str) -> tuple[int, Layer]:
        """The shortest sequence of operations after ``source`` that maps between field types, wrapped unchanged."""
        value = self.values[source]
        enter: Enter = "flatten" if value.form == "flat" else None
        if value.form == "vector" and len(sizes_of(source)) == 3:
            enter = "unflatten"
        for number, node in enumerate(rest):
            sizes = sizes_of(node)
            if len(sizes) == 1 or (len(sizes) == 3 and value.form != "vector"):
                layer = Plain(
                    region(self.flow, source, node, self.weights, enter=enter),
                    value.field,
                    self.space.field(self._channels(node, sizes[0])),
                    Exact(),
                    needs_space=value.form != "vector",
                    keeps_space=len(sizes) == 3 or value.form == "vector",
                    size=value.sizes or None,
                )
                if self._commutes(layer, source, value):
                    self.values[node] = Value(layer.out_type, "map" if len(sizes) == 3 else "vector")
                    return number, layer
        raise InputError(
            "typed",
            expected="operations that map channels of known types to channels of known types",
            got=f"{reason}, in {module_of(rest[0]) or 'the network'}",
            fix="Write this part with convolutions, norms, pooling and linear maps.",
        )

    def _channels(self, node: Node, size: int) -> Representation:
        """The representation on the channels of a tensor; the group fixes channels that belong to no channel group."""
        parts: list[Representation] = []
        offset = 0
        trivial = self.group.trivial
        runs = sorted(
            (*run, name)
            for name, sites in self.graph.sites.items()
            for site in sites
            if site.node == node.name and site.axis == 1
            for run in site.runs
        )
        for start, count, name in runs:
            parts += [trivial] * (start - offset) + self._part(name, count)
            offset = start + count
        return direct_sum([*parts, *[trivial] * (size - offset)])

    def _part(self, name: str, count: int) -> list[Representation]:
        """The representation on consecutive channels of a group: on all of them, or on some that the group fixes."""
        whole = self.types[name]
        if count == whole.dim:
            return [whole]
        if any(term.rho != self.group.trivial for term in whole.terms):
            raise InputError(
                "typed",
                expected="channels that move together to be neighbors",
                got=f"the channels {name}, which lie before and after those of a padded shortcut",
                fix="Write the shortcut as a 1 x 1 convolution before symmetrize.",
            )
        return [self.group.trivial] * count

    def _commutes(self, layer: Plain, source: Node, value: Value) -> bool:
        """Whether a module commutes with the generators of the group, on a random input in float64."""
        sizes = value.sizes or sizes_of(source)[1:] or (1, 1)
        x = torch.randn(2, value.field.dim, *sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        module = deepcopy(layer.module).double().eval()

        def run(x: Tensor) -> Tensor:
            out: Tensor = module(x if layer.needs_space else x.flatten(1))
            return out if out.dim() == 4 else out[..., None, None]

        with torch.no_grad():
            out = run(x)
            for h in self.group.generators:
                g = self.space.motion([0.0, 0.0], h)
                try:
                    error = run(value.field.transform(x, g)) - layer.out_type.transform(out, g)
                except InputError:  # its axes are not rows and columns
                    return False
                if not float(error.abs().max()) <= 10 * self.tolerance * float(out.abs().max()):
                    return False
        return True

    # -- weights -----------------------------------------------------------------------------------------------

    def parameter(self, node: Node, position: int) -> tuple[str, Tensor] | tuple[None, None]:
        """The name and value of a parameter or buffer argument of an operation."""
        from torch.fx import Node

        argument = node.args[position] if len(node.args) > position else None
        if argument is None:
            return None, None
        if not isinstance(argument, Node) or argument.name not in self.graph.inputs:
            raise _NoCounterpartError(f"{operation(node)} with computed weights")
        name = self.graph.inputs[argument.name]
        return name, self.weights.state[name]

    def made_by(self, name: str) -> FieldType:
        """The type of the channels along the first axis of a parameter."""
        parts: list[Representation] = []
        for segment in self.graph.axes[name][0]:
            if len(segment) > 1:
                raise _NoCounterpartError(f"{name}, whose rows are not plain channels")
            factor, trivial = segment[0], self.group.trivial
            atom = factor.atom
            parts += [trivial] * factor.size if atom is None else self._part(self.graph.names[atom], factor.size)
        return self.space.field(direct_sum(parts))

    def shared(self, key: tuple[Any, ...], make: Callable[[], Layer]) -> Layer:
        """The same layer for operations that share weights, as in the network."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]


Rule = Callable[[Translator, "Node", Value], tuple[list[Layer], Value]]
RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _later(node: Node) -> list[Node]:
    """The tensor arguments after the first."""
    return [n for n in node.all_input_nodes if n is not node.args[0]]


def _get(node: Node, position: int, default: Any) -> Any:
    return node.args[position] if len(node.args) > position and node.args[position] is not None else default


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _need(value: Value, form: Form, name: str) -> None:
    if value.form != form:
        raise _NoCounterpartError(f"{name} of a {value.form}")


@_rule(*NOTHING)
def _nothing(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    return [], value


@_rule("relu")
def _relu(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    return [ReLU(value.field)], value


@_rule(*MODULES, *OTHERS)
def _pointwise(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    name = operation(node)
    source = translator.flow.sources[node][0]
    plain = name in MODULES and len(node.args) == 1 and not node.kwargs
    module = MODULES[name]() if plain else region(translator.flow, source, node, translator.weights)
    return [Pointwise(value.field, module)], value


@_rule("dropout", "feature_dropout")
def _dropout(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    """Drop whole fields, at each position independently unless the network drops whole channels."""
    p = float(_get(node, 1, 0.5))
    return ([Dropout(value.field, p, everywhere=operation(node) != "dropout")] if p > 0 else []), value


@_rule("conv2d")
def _conv2d(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    _need(value, "map", "a convolution")
    name, filters = translator.parameter(node, 1)
    _, bias = translator.parameter(node, 2)
    if name is None or filters is None:
        raise _NoCounterpartError("a convolution without weights")
    padding = _get(node, 4, 0)
    options = {
        "stride": _pair(_get(node, 3, 1)),
        "padding": padding if isinstance(padding, str) else _pair(padding),
        "dilation": _pair(_get(node, 5, 1)),
        "groups": _get(node, 6, 1),
        "bias": bias is not None,
    }
    if padding == "valid":
        options["padding"] = 0
    out = translator.made_by(name)

    def make() -> Layer:
        layer = Conv2d(value.field, out, tuple(filters.shape[2:]), **options)
        fit_filter_(layer, filters, bias, tolerance=translator.tolerance, name=name)
        return layer

    layer = translator.shared(("conv2d", name, str(options), value.field), make)
    return [layer], Value(out, "map")


@_rule("linear")
def _linear(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    """A matrix on values; for a flattened map, a filter as large as the map."""
    name, matrix = translator.parameter(node, 1)
    _, bias = translator.parameter(node, 2)
    if name is None or matrix is None or value.form == "map":
        raise _NoCounterpartError("a linear map of a map's last axis")
    out = translator.made_by(name)
    sizes = value.sizes if value.form == "flat" else (1, 1)

    def make() -> Layer:
        filters = matrix.view(len(matrix), -1, *sizes)
        layer: Conv2d | Linear
        if value.form == "flat":
            layer = Conv2d(value.field, out, sizes, bias=bias is not None)
        else:
            layer = Linear(value.field, out, bias=bias is not None)
        fit_filter_(layer, filters, bias, tolerance=translator.tolerance, name=name)
        return layer

    layer = translator.shared(("linear", name, sizes, value.field), make)
    return [layer, GlobalPool(out)] if value.form == "flat" else [layer], Value(out, "vector")


@_rule("batch_norm")
def _batch_norm(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    _need(value, "map", "a batch norm")
    (name, weight), (_, bias), (_, mean), (_, var) = (translator.parameter(node, k) for k in range(1, 5))
    if mean is None or var is None or (weight is None) != (bias is None):
        raise _NoCounterpartError("a batch norm without statistics")
    momentum, eps = float(_get(node, 6, 0.1)), float(_get(node, 7, 1e-5))

    def make() -> Layer:
        layer = BatchNorm(value.field, eps=eps, momentum=momentum, affine=weight is not None)
        fit_norm_(layer, mean, var, weight, bias, tolerance=translator.tolerance, name=name or "a batch norm")
        return layer

    return [translator.shared(("batch_norm", name or node, value.field), make)], value


@_rule("max_pool2d", "avg_pool2d")
def _pool(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    largest = operation(node) == "max_pool2d"
    kernel, padding = _pair(_get(node, 1, 1)), _pair(_get(node, 3, 0))
    stride = _pair(_get(node, 2, []) or kernel)
    dilation, ceil = (_pair(_get(node, 4, 1)), _get(node, 5, False)) if largest else ((1, 1), _get(node, 4, False))
    plain = largest or not any(padding) or _get(node, 5, True)
    if value.form != "map" or ceil or dilation != (1, 1) or not plain or _get(node, 6, None) is not None:
        raise _NoCounterpartError("pooling with options that no layer has")
    kind = MaxPool2d if largest else AvgPool2d
    return [kind(value.field, kernel, stride=stride, padding=padding)], value


@_rule("adaptive_avg_pool2d")
def _adaptive(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    _need(value, "map", "a pooling")
    before, after = sizes_of(translator.flow.sources[node][0])[1:], sizes_of(node)[1:]
    if before == after:
        return [], value
    if set(after) == {1} and all(_drops_space(user) for user in translator.flow.users(node)):
        return [GlobalPool(value.field)], Value(value.field, "vector")
    if any(n % m for n, m in zip(before, after, strict=True)):
        raise _NoCounterpartError("an adaptive pooling with windows of several sizes")
    return [AvgPool2d(value.field, tuple(n // m for n, m in zip(before, after, strict=True)))], value


@_rule("mean")
def _mean(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    axes: Any = _get(node, 1, [])
    axes = {axis % 4 for axis in axes} if isinstance(axes, list | tuple) else set()
    keeps = bool(_get(node, 2, False)) and not all(_drops_space(user) for user in translator.flow.users(node))
    if value.form != "map" or axes != {2, 3} or keeps:
        raise _NoCounterpartError("a mean over other axes than the spatial ones")
    return [GlobalPool(value.field)], Value(value.field, "vector")


@_rule("flatten", "view", "reshape", "squeeze")
def _flatten(translator: Translator, node: Node, value: Value) -> tuple[list[Layer], Value]:
    before, after = sizes_of(translator.flow.sources[node][0]), sizes_of(node)
    if value.form == "vector" and (before[:1] == after or before == after):
        return [], value
    if before == after:
        return [], value
    if value.form != "map" or not _drops_space(node):
        raise _NoCounterpartError("a change of shape")
    if before[1:] == (1, 1):
        return [GlobalPool(value.field)], Value(value.field, "vector")
    return [], Value(value.field, "flat", before[1:])


def _drops_space(node: Node) -> bool:
    """Whether an operation flattens a map to ``(batch, channels · height · width)``."""
    before = node.args[0].meta["val"].shape  # type: ignore[union-attr]
    after = node.meta["val"].shape
    names = ("flatten", "view", "reshape", "squeeze")
    return operation(node) in names and len(before) == 4 and len(after) == 2 and after[1] == before[1:].numel()
