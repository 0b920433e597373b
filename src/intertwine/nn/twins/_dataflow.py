"""The data flow of a traced network: its bottlenecks, and the operations between two of them."""

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
        parameters: maps the placeholders of parameters and buffers to their names in the network.
    """

    def __init__(self, program: GraphModule, parameters: Mapping[str, str]) -> None:
        self.program, self.parameters = program, parameters
        nodes = list(program.graph.nodes)
        self._order = {node: number for number, node in enumerate(nodes)}
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
        """The tensors after ``source`` that all data on the way to ``target`` passes through, in order."""
        if source not in self._dominators.get(target, ()):
            raise InputError("typed", expected=f"data that reaches {target} through {source}", got="another way")
        later = [n for n in self._dominators[target] if self._order[n] > self._order[source]]
        return sorted((n for n in later if isinstance(n.meta["val"], Tensor)), key=self._order.__getitem__)

    def between(self, source: Node, target: Node) -> set[Node]:
        """The tensors that ``target`` needs in addition to ``source``."""
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
    """The name of the module whose forward recorded a node."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def sizes_of(node: Node) -> tuple[int, ...]:
    """The sizes of the tensor of a node, without the batch."""
    return tuple(int(n) for n in node.meta["val"].shape[1:])


@dataclass(frozen=True)
class Weights:
    """The parameters and buffers of a network by name, and the free parameters and orbits of each parameter.

    Attributes:
        state: all parameters and buffers.
        tied: the free parameters of each parameter, and the index of the free parameter of each entry.
    """

    state: Mapping[str, Tensor]
    tied: Mapping[str, tuple[Tensor, Tensor]]


def region(flow: Dataflow, source: Node, target: Node, weights: Weights, *, enter: Enter = None) -> GraphModule:
    """The part of a program between two tensors, as a torch module with tied weights.

    Args:
        flow: the program.
        source: the tensor that becomes the module's input.
        target: its output.
        weights: the weights; free parameters are spread over their orbits, which keeps entries tied in training.
        enter: ``flatten`` if the program expects a flattened map, ``unflatten`` if it expects a map of one pixel.
    """
    from torch.fx import Graph, GraphModule

    root, graph = torch_nn.Module(), Graph()
    x = graph.placeholder("x")
    copies: dict[Node, Any] = {source: x}
    if enter == "flatten":
        copies[source] = graph.call_function(torch.flatten, (x, 1))
    elif enter == "unflatten":
        copies[source] = graph.call_function(operator.getitem, (x, (slice(None), slice(None), None, None)))
    inside = flow.between(source, target) | {source}
    for node in _needed(flow, inside, source, target):
        if node.op == "placeholder":
            copies[node] = _weight(root, graph, flow.parameters[node.name], weights)
        elif node.op == "get_attr":
            name = str(node.target).replace(".", "_")
            root.register_buffer(name, operator.attrgetter(str(node.target))(flow.program))
            copies[node] = graph.get_attr(name)
        elif _outer_size(node, inside):
            copies[node] = _size(graph, x, node)
        else:
            args, kwargs = (_replaced(part, copies) for part in (node.args, node.kwargs))
            copies[node] = graph.call_function(_functional(node.target), args, kwargs)
    graph.output(copies[target])
    return GraphModule(root, graph, class_name="Region")


def _needed(flow: Dataflow, inside: set[Node], source: Node, target: Node) -> list[Node]:
    """All nodes that ``target`` needs in addition to ``source``, in program order."""
    needed = _ancestors(source, target, lambda node: [] if _outer_size(node, inside) else node.all_input_nodes)
    return [node for node in flow.program.graph.nodes if node in needed]


def _ancestors(source: Node, target: Node, parents: Callable[[Node], list[Node]]) -> set[Node]:
    """The target and everything it depends on, back to ``source``."""
    ancestors: set[Node] = set()
    rest = [target]
    while rest:
        node = rest.pop()
        if node is not source and node not in ancestors:
            ancestors.add(node)
            rest += parents(node)
    return ancestors


def _outer_size(node: Node, inside: set[Node]) -> bool:
    return node.op == "call_function" and operation(node) == "sym_size" and node.args[0] not in inside


def _size(graph: Graph, x: Node, node: Node) -> Any:
    """The size of a tensor outside the region: the batch of the input, or a constant from the trace."""
    axis: Any = node.args[1]
    tensor: Any = node.args[0]
    return (
        graph.call_function(torch.ops.aten.sym_size.int, (x, 0)) if axis == 0 else int(tensor.meta["val"].shape[axis])
    )


def _replaced(arguments: Any, copies: Mapping[Node, Any]) -> Any:
    from torch.fx import map_arg

    return map_arg(arguments, lambda node: copies[node])


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
    """The out-of-place version of an operation: ``aten.relu_`` becomes ``aten.relu``."""
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.split("::")[1]
        if name.endswith("_") and not name.startswith("_"):
            return getattr(getattr(torch.ops.aten, name.rstrip("_")), target._overloadname)
    return target
