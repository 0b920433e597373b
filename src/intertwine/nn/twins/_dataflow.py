"""How data flows through a traced network: which operations everything passes, and what lies between two of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch import nn as torch_nn

from ...errors import InputError

if TYPE_CHECKING:
    from torch.fx import Graph, GraphModule, Node

Enter = Literal["flatten", "unflatten"] | None


class Dataflow:
    """The tensors of a traced program that depend on its input.

    Args:
        program: a program of ``torch.export``.
        parameters: names of the placeholders that stand for parameters and buffers, with their names in the network.
    """

    def __init__(self, program: GraphModule, parameters: Mapping[str, str]) -> None:
        self.program, self.parameters = program, parameters
        nodes = list(program.graph.nodes)
        self._place = {node: number for number, node in enumerate(nodes)}
        inputs = [n for n in nodes if n.op == "placeholder" and n.name not in parameters]
        outputs = [n for n in next(n for n in nodes if n.op == "output").all_input_nodes if n.name not in parameters]
        if len(inputs) != 1 or len(outputs) != 1:
            raise InputError(
                "typed",
                expected="a network with one input and one output",
                got=f"{len(inputs)} inputs and {len(outputs)} outputs",
            )
        self.input, self.output = inputs[0], outputs[0]
        self.sources: dict[Node, list[Node]] = {self.input: []}
        self._dominators: dict[Node, set[Node]] = {self.input: {self.input}}
        for node in nodes:
            data = [n for n in node.all_input_nodes if n in self.sources]
            if node.op == "call_function" and data and isinstance(node.meta.get("val"), Tensor | tuple | list):
                self.sources[node] = data
                self._dominators[node] = set.intersection(*(self._dominators[n] for n in data)) | {node}

    def bottlenecks(self, source: Node, target: Node) -> list[Node]:
        """The tensors after ``source`` through which all data on its way to ``target`` passes, in order."""
        if source not in self._dominators.get(target, ()):
            raise InputError("typed", expected=f"data that reaches {target} through {source}", got="another way")
        later = [n for n in self._dominators[target] if self._place[n] > self._place[source]]
        return sorted((n for n in later if isinstance(n.meta["val"], Tensor)), key=self._place.__getitem__)

    def between(self, source: Node, target: Node) -> set[Node]:
        """The tensors that ``target`` needs besides ``source``."""
        return _ancestors(source, target, self.sources.__getitem__)

    def users(self, node: Node) -> list[Node]:
        """The operations that take this tensor as data."""
        return [user for user in node.users if user in self.sources]


def operation(node: Node) -> str:
    """The bare name of an operation: ``aten.relu_.default`` is ``relu``."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.split("::")[1].rstrip("_")
    return str(getattr(target, "__name__", target))


def module_of(node: Node) -> str:
    """The module in whose forward a node was recorded."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def sizes_of(node: Node) -> tuple[int, ...]:
    """The sizes of the tensor of a node behind the batch."""
    return tuple(int(n) for n in node.meta["val"].shape[1:])


@dataclass(frozen=True)
class Weights:
    """The parameters and buffers of a network by name, and for parameters their free numbers and orbits.

    Attributes:
        state: all parameters and buffers.
        tied: for each parameter its free numbers, and for each entry the number that stands there.
    """

    state: Mapping[str, Tensor]
    tied: Mapping[str, tuple[Tensor, Tensor]]


def region(flow: Dataflow, source: Node, target: Node, weights: Weights, *, enter: Enter = None) -> GraphModule:
    """The part of a program between two tensors, as a module of torch with tied weights.

    Args:
        flow: the program.
        source: the tensor that becomes the module's input.
        target: its output.
        weights: parameters become free numbers that are spread over their orbits, so that training keeps them tied.
        enter: whether the input is a map where the program has a flattened one, or a vector where it has one pixel.
    """
    from torch.fx import Graph, GraphModule

    root, graph = torch_nn.Module(), Graph()
    x = graph.placeholder("x")
    made: dict[Node, Any] = {source: x}
    if enter == "flatten":
        made[source] = graph.call_function(torch.flatten, (x, 1))
    elif enter == "unflatten":
        made[source] = graph.call_function(operator.getitem, (x, (slice(None), slice(None), None, None)))
    inside = flow.between(source, target) | {source}
    for node in _needed(flow, inside, source, target):
        if node.op == "placeholder":
            made[node] = _weight(root, graph, flow.parameters[node.name], weights)
        elif node.op == "get_attr":
            name = str(node.target).replace(".", "_")
            root.register_buffer(name, operator.attrgetter(str(node.target))(flow.program))
            made[node] = graph.get_attr(name)
        elif _outer_size(node, inside):
            made[node] = _size(graph, x, node)
        else:
            args, kwargs = (_replaced(part, made) for part in (node.args, node.kwargs))
            made[node] = graph.call_function(_functional(node.target), args, kwargs)
    graph.output(made[target])
    return GraphModule(root, graph, class_name="Region")


def _needed(flow: Dataflow, inside: set[Node], source: Node, target: Node) -> list[Node]:
    """All nodes that ``target`` needs besides ``source``, in the order of the program."""
    needed = _ancestors(source, target, lambda node: [] if _outer_size(node, inside) else node.all_input_nodes)
    return [node for node in flow.program.graph.nodes if node in needed]


def _ancestors(source: Node, target: Node, parents: Callable[[Node], list[Node]]) -> set[Node]:
    """The target and what it is made from, back to ``source``."""
    found: set[Node] = set()
    rest = [target]
    while rest:
        node = rest.pop()
        if node is not source and node not in found:
            found.add(node)
            rest += parents(node)
    return found


def _outer_size(node: Node, inside: set[Node]) -> bool:
    return node.op == "call_function" and operation(node) == "sym_size" and node.args[0] not in inside


def _size(graph: Graph, x: Node, node: Node) -> Any:
    """The batch is the same everywhere; the other sizes of tensors outside are those of the trace."""
    axis: Any = node.args[1]
    tensor: Any = node.args[0]
    return (
        graph.call_function(torch.ops.aten.sym_size.int, (x, 0)) if axis == 0 else int(tensor.meta["val"].shape[axis])
    )


def _replaced(arguments: Any, made: Mapping[Node, Any]) -> Any:
    from torch.fx import map_arg

    return map_arg(arguments, lambda node: made[node])


def _weight(root: torch_nn.Module, graph: Graph, name: str, weights: Weights) -> Any:
    attribute = name.replace(".", "_")
    if name not in weights.tied:
        root.register_buffer(attribute, weights.state[name].clone())
        return graph.get_attr(attribute)
    free, orbits = weights.tied[name]
    root.register_parameter(attribute, torch_nn.Parameter(free.clone()))
    root.register_buffer(f"{attribute}_orbits", orbits)
    return graph.call_function(operator.getitem, (graph.get_attr(attribute), graph.get_attr(f"{attribute}_orbits")))


def _functional(target: Any) -> Any:
    """The operation that leaves its input alone, for one that writes into it: ``aten.relu_`` becomes ``aten.relu``."""
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.split("::")[1]
        if name.endswith("_") and not name.startswith("_"):
            return getattr(getattr(torch.ops.aten, name.rstrip("_")), target._overloadname)
    return target
