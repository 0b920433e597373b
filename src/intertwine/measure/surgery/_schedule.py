"""In which order the layers of a network are refitted, and what each of them is fitted to."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..graph._channel_graph import ChannelGraph, module_of, operation_of

_FILTERS = ("linear", "conv2d")
_NORM = "batch_norm"
_NOTHING = ("dropout", "feature_dropout", "contiguous", "clone", "alias")
"""Operations that change nothing in evaluation mode."""


@dataclass(frozen=True)
class Norm:
    """The names of the tensors of an affine batch norm in evaluation mode, and its ε."""

    weight: str
    bias: str
    mean: str
    variance: str
    eps: float


@dataclass(frozen=True)
class Fit:
    """One layer to refit, by positions in the program.

    Attributes:
        layer: the name of its module.
        kind: ``linear``, ``conv2d``, or ``norm`` for a batch norm on its own.
        node: the position of the operation.
        target: the position of the value it is fitted to: its own output, after a batch norm that follows it, after a
            sum that follows these.
        other: the position of the other term of the sum.
        weight: the name of the weight; None for a norm.
        bias: the name of the bias.
        norm: the batch norm that follows, or the norm itself.
    """

    layer: str
    kind: str
    node: int
    target: int
    other: int | None
    weight: str | None
    bias: str | None
    norm: Norm | None


class Program:
    """A traced program without operations in place, in an order in which sums can be fitted.

    The last term of a sum to be computed is fitted to what the other term leaves over. The order therefore computes
    shortcuts first: of two terms, the one whose last layer has fewer weights.
    """

    def __init__(self, graph: ChannelGraph) -> None:
        self.graph = graph
        self.module = functional(graph.program)
        self.nodes: list[fx.Node] = list(self.module.graph.nodes)
        self.position = {node: k for k, node in enumerate(self.nodes)}
        self.order = self._ordered()
        self.rank = {k: r for r, k in enumerate(self.order)}
        self.last = self._last_uses()

    @property
    def output(self) -> int:
        """The position of the output."""
        return len(self.nodes) - 1

    def _arguments(self, node: fx.Node) -> list[fx.Node]:
        inputs = node.all_input_nodes
        if operation(node) == "add":
            return sorted(inputs, key=self._weight_behind)
        return inputs

    def _weight_behind(self, node: fx.Node) -> int:
        """The number of weights of the layer that ends a branch; 0 for a shortcut without a layer."""
        while operation(node) == _NORM:
            node = node.args[0]  # type: ignore[assignment]
        if operation(node) not in _FILTERS:
            return 0
        value = node.args[1].meta.get("val")  # type: ignore[union-attr]
        return int(value.numel()) if isinstance(value, torch.Tensor) else 1

    def _ordered(self) -> list[int]:
        """Positions in the order of a depth-first search from the output."""
        order: list[int] = []
        done: set[fx.Node] = set()
        stack: list[tuple[fx.Node, Iterator[fx.Node]]] = [(self.nodes[-1], iter(self._arguments(self.nodes[-1])))]
        while stack:
            node, rest = stack[-1]
            following = next((n for n in rest if n not in done), None)
            if following is not None:
                stack.append((following, iter(self._arguments(following))))
                continue
            stack.pop()
            if node not in done:
                done.add(node)
                order.append(self.position[node])
        return order

    def _last_uses(self) -> dict[int, list[int]]:
        """For each position, the values that nothing after it uses."""
        last: dict[int, int] = {}
        for k in self.order:
            for used in self.nodes[k].all_input_nodes:
                last[self.position[used]] = k
        uses: dict[int, list[int]] = {}
        for value, user in last.items():
            uses.setdefault(user, []).append(value)
        return uses

    def peak(self) -> int:
        """How many numbers per image are kept at most while the program runs."""
        live = highest = 0
        for k in self.order:
            if self.nodes[k].op == "call_function":
                live += _numbers(self.nodes[k])
            highest = max(highest, live)
            live -= sum(
                _numbers(self.nodes[old]) for old in self.last.get(k, ()) if self.nodes[old].op != "placeholder"
            )
        return highest

    def name(self, node: Any) -> str | None:
        """The name of the parameter or buffer that a node stands for."""
        return self.graph.inputs.get(node.name) if isinstance(node, fx.Node) and node.op == "placeholder" else None

    def fits(self) -> list[Fit]:
        """The layers to refit, in order."""
        used = Counter(self.name(n) for k in self.order for n in self.nodes[k].all_input_nodes)
        found: list[Fit] = []
        behind: set[fx.Node] = set()
        for k in self.order:
            node = self.nodes[k]
            if operation(node) in _FILTERS and used[self.name(node.args[1])] == 1 and self.name(node.args[1]):
                fit = self._filter_fit(node)
                found.append(fit)
                if fit.norm is not None:
                    behind.add(next(iter(node.users)))
            elif operation(node) == _NORM and node not in behind:
                norm = self._norm(node)
                if norm is not None and used[norm.weight] == 1:
                    found.append(Fit(module_of(node), "norm", k, k, None, None, None, norm))
        return found

    def _norm(self, node: fx.Node) -> Norm | None:
        weight, bias, mean, variance = (self.name(a) for a in node.args[1:5])
        if not (weight and bias and mean and variance) or node.args[5] is not False:
            return None
        return Norm(weight, bias, mean, variance, float(node.args[7]))  # type: ignore[arg-type]

    def _filter_fit(self, node: fx.Node) -> Fit:
        bias = self.name(node.args[2]) if len(node.args) > 2 else None
        end, norm = node, None
        after = _only_user(end)
        if after is not None and operation(after) == _NORM and after.args[0] is end:
            norm = self._norm(after)
            end = after if norm is not None else end
        other: int | None = None
        after = _only_user(end)
        while after is not None and operation(after) in _NOTHING:
            end, after = after, _only_user(after)
        if after is not None and (norm is not None or bias is not None) and operation(after) == "add":
            rest = [a for a in after.args if a is not end]
            if len(after.args) == 2 and not after.kwargs and len(rest) == 1 and isinstance(rest[0], fx.Node):
                same = _shape(rest[0]) == _shape(end)
                if same and self.rank[self.position[rest[0]]] < self.rank[self.position[node]]:
                    end, other = after, self.position[rest[0]]
        return Fit(
            module_of(node),
            operation(node),
            self.position[node],
            self.position[end],
            other,
            self.name(node.args[1]),
            bias,
            norm,
        )


def operation(node: Any) -> str:
    """The bare name of the operation of a node; empty for inputs and outputs."""
    return operation_of(node.target) if isinstance(node, fx.Node) and node.op == "call_function" else ""


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _shape(node: fx.Node) -> Any:
    value = node.meta.get("val")
    return tuple(value.shape[1:]) if isinstance(value, torch.Tensor) else None


def _numbers(node: fx.Node) -> int:
    shape = _shape(node)
    return math.prod(shape) if shape is not None and all(isinstance(n, int) for n in shape) else 0


def functional(program: fx.GraphModule) -> fx.GraphModule:
    """A copy of a traced program that never changes a value: relu_ becomes relu, and later uses read its result."""
    twin = copy.deepcopy(program)
    for node in twin.graph.nodes:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
            continue
        name = target._schema.name.split("::")[1]
        packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
        changed = node.args[0] if node.args else None
        if packet is None or not isinstance(changed, fx.Node):
            continue
        node.target = getattr(packet, target._overloadname)
        passed = False
        for user in list(twin.graph.nodes):
            if passed and user is not node:
                user.replace_input_with(changed, node)
            passed |= user is node
    twin.recompile()
    return twin
