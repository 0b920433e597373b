"""Trace a network to find which axes of which parameters must be permuted together."""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..._checked import checked
from . import _shape_rules as _shape_rules  # registers its rules
from ._axes import Atom, Axes, Axis, Factor, Label, Lookup, Segment, fixed, fresh, kind_of, plane
from ._rules import RULES, Call, Labeled, unknown
from ._slices import Slices, counted, exchangeable, runs, sliced, slices_of, wholes
from ._trace import Trace, trace

_NONLINEAR = """
relu relu6 gelu silu sigmoid tanh hardswish hardsigmoid hardtanh leaky_relu elu selu celu softplus mish prelu
softsign threshold
"""
NONLINEAR = frozenset(_NONLINEAR.split())


@checked
@dataclass(frozen=True)
class ChannelGroup:
    """``size`` channels that one permutation moves, wherever they occur.

    Attributes:
        name: the name of the group.
        size: the number of channels.
        heads: for the channels of attention heads, the name of the group of heads. Channels are listed head by head,
            and a permutation maps the channels of a head to those of one head, as the permutation of heads says.
    """

    name: str
    size: int
    heads: str | None = None


@checked
@dataclass(frozen=True)
class Untraced:
    """Channels that are left in place: where and why, and how many."""

    where: str
    channels: int


@checked
@dataclass(frozen=True)
class Site:
    """Where channels can be observed: a node of the graph, the axis, and the group's channels as runs (start, size)."""

    node: str
    module: str
    axis: int
    runs: tuple[tuple[int, int], ...]
    positions: int
    nonlinear: bool

    @property
    def size(self) -> int:
        """The number of channels."""
        return sum(size for _, size in self.runs)


@checked
@dataclass
class ChannelGraph:
    """The channels of a network, and which of them must be permuted together.

    Attributes:
        groups: groups of channels that can be permuted independently, in the order in which the network uses them.
        axes: for each parameter and buffer, what the entries of each axis stand for.
        grouped: for weights of grouped convolutions, the channels on the second axis, block by block.
        untraced: channels that were pinned because an operation is not supported.
        lost: where rows and columns could not be followed, so that filters cannot be flipped.
        colors_cut: whether the network splits the channels of the image.
        sites: where the channels of each group can be observed, in the order of the network.
        blocks: modules that add two streams, such as residual blocks.
        output: what the axes of the output stand for.
        labels: what the axes of each intermediate value stand for, by node of the traced program.
        padded: groups whose number of channels is fixed by a padding.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    >>> graph = channel_graph(net, (3, 8, 8))
    >>> graph.groups
    (ChannelGroup(name='0', size=8, heads=None),)
    >>> graph.describe("3.weight")
    '(f5) (0:8·h6·w6)'
    """

    groups: tuple[ChannelGroup, ...]
    axes: dict[str, Label]
    grouped: dict[str, tuple[Axis, int]]
    untraced: tuple[Untraced, ...]
    lost: tuple[str, ...]
    colors_cut: bool
    sites: dict[str, tuple[Site, ...]]
    blocks: tuple[str, ...]
    output: Label
    program: fx.GraphModule
    inputs: dict[str, str]
    constants: dict[str, Any] = field(repr=False, default_factory=dict)
    names: dict[Atom, str] = field(repr=False, default_factory=dict)
    labels: dict[str, Label] = field(repr=False, default_factory=dict)
    outers: dict[Atom, Atom] = field(repr=False, default_factory=dict)
    """For the channels inside heads, the heads."""
    padded: frozenset[str] = frozenset()

    def group(self, name: str) -> ChannelGroup:
        """The group with this name."""
        return next(g for g in self.groups if g.name == name)

    def inside(self, name: str) -> tuple[ChannelGroup, ...]:
        """The groups of channels inside the heads of this name; none for other groups."""
        return tuple(g for g in self.groups if g.heads == name)

    def describe(self, parameter: str) -> str:
        """The axes of a parameter as text."""
        texts = []
        for axis in self.axes[parameter]:
            parts = [
                "·".join((self.names[f.atom] + ":" if f.atom else f.kind) + str(f.size) for f in segment)
                for segment in axis
            ]
            texts.append("(" + " + ".join(parts) + ")")
        return " ".join(texts)


@checked
def channel_graph(model: nn.Module, input_shape: tuple[int, ...]) -> ChannelGraph:
    """Trace a network to find which channels can be permuted, and which weights must follow.

    Permuting the channels of a hidden layer preserves the function of a network if all weights that produce and consume
    these channels are permuted too. Streams that are added share a permutation; concatenated streams keep their own;
    flattened maps move in blocks. Input channels and outputs stay in place. An unsupported operation pins all its
    inputs, and is listed in ``untraced``.

    Args:
        model: any module that ``torch.export`` can trace; it is traced in evaluation mode and not changed.
        input_shape: the shape of one input without the batch, such as (3, 224, 224).

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 3))
    >>> [(group.name, group.size) for group in channel_graph(net, (3, 8, 8)).groups]
    [('0', 8)]
    """
    first = next((p for p in model.parameters()), torch.zeros(()))
    x = torch.randn(2, *input_shape, generator=torch.Generator().manual_seed(0)).to(first.device, first.dtype)
    tracer = _Tracer(trace(model, x), model)
    tracer.run(x)
    return tracer.graph()


class _Tracer:
    """Runs the traced program once and propagates the labels of axes."""

    def __init__(self, traced: Trace, model: nn.Module) -> None:
        self.program, self.inputs, self.constants = traced.program, traced.inputs, traced.constants
        self.state = {
            **dict(model.named_parameters(remove_duplicate=False)),
            **dict(model.named_buffers(remove_duplicate=False)),
            **traced.constants,
        }
        self.axes = Axes()
        self.parameters: dict[str, Label] = {}
        self.values: dict[fx.Node, Any] = {}
        self.streams: list[tuple[fx.Node, Label]] = []
        self.blocks: dict[str, None] = {}
        self.output: Label = ()

    def run(self, x: Tensor) -> None:
        with torch.no_grad():
            for node in self.program.graph.nodes:
                if node.op == "placeholder":
                    self.values[node] = self._placeholder(node, x)
                elif node.op == "get_attr":
                    value = _attribute(self.program, node.target)
                    self.values[node] = (
                        Labeled(value, tuple(fixed(n) for n in value.shape)) if isinstance(value, Tensor) else value
                    )
                elif node.op == "call_function":
                    self.values[node] = self._call(node)
                elif node.op == "output":
                    returned = fx.map_arg(node.args, lambda n: self.values[n])
                    outputs = _tensors(returned)
                    for t in outputs:
                        self.axes.pin_all(t.label, "")
                    self.output = outputs[0].label if outputs else ()

    def _placeholder(self, node: fx.Node, x: Tensor) -> Labeled:
        name = self.inputs.get(node.name)
        if name is None:
            kinds = {2: "fi", 4: "fihw"}.get(x.dim(), "f" * x.dim())
            return Labeled(x, tuple(plane(kind, n) for kind, n in zip(kinds, x.shape, strict=True)), varies=True)
        value = self.state[name]
        if name not in self.parameters:
            # A tensor with two names is still one tensor.
            twin = next((o for o in self.parameters if self.state[o] is value), None)
            self.parameters[name] = self.parameters[twin] if twin else tuple(fresh(n) for n in value.shape)
        return Labeled(value.detach().clone(), self.parameters[name], name)

    def _call(self, node: fx.Node) -> Any:
        target: Any = node.target
        args: Any = fx.map_arg(node.args, lambda n: self.values[n])
        kwargs: Any = fx.map_arg(node.kwargs, lambda n: self.values[n])
        if target is operator.getitem and not isinstance(args[0], Labeled):
            return args[0][args[1]]
        out = target(*_bare(args), **_bare(kwargs))
        if not _holds_tensor(out):
            return out
        name, ordered = operation_of(node.target), [*args, *kwargs.values()]
        if isinstance(node.target, torch._ops.OpOverload):
            schema = node.target._schema.arguments
            named = dict(kwargs)
            ordered = [
                a if k < len(args) else named.get(s.name)
                for k, (s, a) in enumerate(zip(schema, [*args, *[None] * (len(schema) - len(args))], strict=True))
            ]
        call = Call(self.axes, ordered, out, f"{module_of(node) or 'network'} ({name})")
        handler = RULES.get(name)
        label = handler(call) if handler else unknown(call, "this operation is not supported")
        result = _labeled(out, label, any(t.varies for t in _tensors(ordered)))
        if isinstance(result, Labeled):
            self.streams.append((node, result.label))
            if name == "add" and self._adds_streams(ordered, result):
                self.blocks[module_of(node)] = None
        return result

    def _adds_streams(self, args: list[Any], out: Labeled) -> bool:
        terms = [a for a in args if isinstance(a, Labeled) and a.name is None and a.shape == out.shape]
        return len(terms) == 2 and len(out.shape) >= 3

    def graph(self) -> ChannelGraph:
        resolve = self.axes.resolve
        parameters = {name: tuple(resolve(a) for a in label) for name, label in self.parameters.items()}
        grouped = {name: (resolve(axis), groups) for name, (axis, groups) in self.axes.grouped.items()}
        # Twice, because resolving the grouped axes may pin some more.
        parameters = {name: tuple(resolve(a) for a in label) for name, label in parameters.items()}
        self._settle_lookups(parameters)
        parameters = {name: tuple(resolve(a) for a in label) for name, label in parameters.items()}
        outers = self._outers(parameters)
        slices = self._slices(parameters, outers)
        names = self._names({n: sliced(label, slices) for n, label in parameters.items()}, set(outers.values()))
        sites = self._sites(names, outers, slices)
        # Parameters that are not used in evaluation have channels that cannot be observed. Heads are observed by
        # the channels inside them.
        watched = {o for atom, o in outers.items() if sites[names[atom]]}
        idle = {atom: name for atom, name in names.items() if not sites[name] and atom not in watched}
        for atom in idle:
            for part in [a for a, f in slices.items() if f.atom is atom] or [atom]:
                part.parts = fixed(part.size)
        names = {atom: name for atom, name in names.items() if atom not in idle}
        outers = {atom: o for atom, o in outers.items() if atom in names and o in names}

        def described(label: Label) -> Label:
            return sliced(tuple(resolve(a) for a in label), slices)

        parameters = {name: described(label) for name, label in parameters.items()}
        untraced = Counter[str]()
        for why, channels in self.axes.pinned:
            if why:
                untraced[why] += channels
        return ChannelGraph(
            groups=tuple(
                ChannelGroup(name, atom.size * outers[atom].size, names[outers[atom]])
                if atom in outers
                else ChannelGroup(name, atom.size)
                for atom, name in names.items()
            ),
            axes=parameters,
            grouped={name: (described((axis,))[0], groups) for name, (axis, groups) in grouped.items()},
            untraced=tuple(Untraced(where, n) for where, n in untraced.items()),
            lost=tuple(self.axes.lost),
            colors_cut=self.axes.colors_cut,
            sites={name: places for name, places in sites.items() if places},
            blocks=tuple(b for b in self.blocks if b),
            output=described(self.output),
            program=self.program,
            inputs=self.inputs,
            constants=self.constants,
            names=names,
            labels={node.name: described(label) for node, label in self.streams},
            outers=outers,
            padded=frozenset(
                names[atom]
                for atom in (slices[a].atom if a in slices else a for a in counted(self.axes))
                if atom is not None and atom in names
            ),
        )

    def _settle_lookups(self, parameters: dict[str, Label]) -> None:
        """Tables move as what is read from them; channels that are read keep their order."""
        for label in parameters.values():
            for axis in label:
                for segment in axis:
                    for f in segment:
                        if isinstance(f.link, Lookup):
                            f.link.label = tuple(part for a in f.link.label for part in self.axes.product(a))
                            self.axes.pin_all(f.link.label, "")
                            f.link.label = tuple(self.axes.resolve(a) for a in f.link.label)

    def _outers(self, parameters: dict[str, Label]) -> dict[Atom, Atom]:
        """For each atom whose channels each head may permute in its own way, the heads.

        That needs the heads wherever the atom occurs: in the same segment of a parameter, or in the same value. An atom
        that occurs without its heads, such as in a norm with the same weights for all heads, has one permutation.
        """
        labels = [tuple(self.axes.resolve(a) for a in label) for _, label in self.streams]
        segments = [(s,) for label in parameters.values() for axis in label for s in axis]
        segments += [(s,) for axis, _ in self.axes.grouped.values() for s in self.axes.resolve(axis)]
        places = segments + [tuple(s for axis in label for s in axis) for label in labels]
        outers: dict[Atom, Atom | None] = {}
        for place in places:
            present = {f.atom for s in place for f in s if f.atom is not None}
            for atom in present:
                if atom not in outers:
                    outers[atom] = self.axes.outer(atom)
                if outers[atom] not in present:
                    outers[atom] = None
        inner = {atom: o for atom, o in outers.items() if o is not None}
        # One level: what is inside a head contains no heads.
        return {atom: o for atom, o in inner.items() if o not in inner and atom not in inner.values()}

    def _slices(self, parameters: dict[str, Label], outers: dict[Atom, Atom]) -> dict[Atom, Factor]:
        """Atoms that are part of a larger group, because their channels may be exchanged."""
        resolve = self.axes.resolve
        labels = [*parameters.values(), *(label for _, label in self.streams)]
        places = [resolve(axis) for label in labels for axis in label]
        places += [resolve(axis) for axis, _ in self.axes.grouped.values()]
        places += [resolve(piece) for piece in self.axes.pieces]
        heads = {*outers, *outers.values()}
        return slices_of(atoms for atoms in exchangeable(self.axes, places) if heads.isdisjoint(atoms))

    def _names(self, parameters: dict[str, Label], heads: set[Atom]) -> dict[Atom, str]:
        """Name each group after the first module that produces its channels."""
        names: dict[Atom, str] = {}
        used = Counter[str]()
        order = [self.inputs[n.name] for n in self.program.graph.nodes if n.name in self.inputs]
        for name in sorted(parameters, key=lambda n: order.index(n)):
            for axis in parameters[name]:
                for segment in axis:
                    for factor in segment:
                        if factor.atom is not None and factor.atom not in names:
                            base = name.rpartition(".")[0] or name
                            base = f"{base}.heads" if factor.atom in heads else base
                            used[base] += 1
                            names[factor.atom] = base if used[base] == 1 else f"{base}#{used[base]}"
        return names

    def _sites(self, names: dict[Atom, str], outers: dict[Atom, Atom], slices: Slices) -> dict[str, tuple[Site, ...]]:
        by_group: dict[str, list[Site]] = {name: [] for name in names.values()}
        for node, label in self.streams:
            shape = self.values[node].shape
            label = sliced(tuple(self.axes.resolve(a) for a in label), slices)
            # Where the channels inside heads are seen too, their order differs from head to head.
            mixed = {outers.get(f.atom) for axis in label for s in axis for f in s if f.atom is not None}
            for k, axis in enumerate(label):
                if not any(f.atom in names for segment in axis for f in segment):
                    continue
                for segment, (_, channels) in zip(axis, wholes(axis), strict=True):
                    atom = _observed(segment, outers)
                    if atom in names and atom not in mixed and k > 0 and not segment[-1].first:  # slices count once
                        positions = int(torch.Size(shape[1:]).numel()) // shape[k]
                        nonlinear = operation_of(node.target) in NONLINEAR
                        site = Site(node.name, module_of(node), k, runs(channels), positions, nonlinear)
                        by_group[names[atom]].append(site)
        return {name: tuple(sites) for name, sites in by_group.items()}


def _observed(segment: Segment, outers: dict[Atom, Atom]) -> Atom | None:
    """The atom whose channels are the entries of a segment, in order."""
    atoms = [f.atom for f in segment]
    if len(segment) == 2 and atoms[1] is not None and outers.get(atoms[1]) is atoms[0]:
        return atoms[1]
    return atoms[0] if len(segment) == 1 and atoms[0] not in outers else None


def _tensors(value: Any) -> list[Labeled]:
    if isinstance(value, Labeled):
        return [value]
    return [t for f in value for t in _tensors(f)] if isinstance(value, list | tuple) else []


def _bare(value: Any) -> Any:
    if isinstance(value, Labeled):
        return value.value
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items()}
    return type(value)(_bare(v) for v in value) if isinstance(value, list | tuple) else value


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(_holds_tensor(v) for v in value))


def _labeled(out: Any, label: Any, varies: bool) -> Any:
    if isinstance(out, Tensor):
        return Labeled(out, label, varies=varies)
    return [_labeled(o, x, varies) for o, x in zip(out, label, strict=True)]


def operation_of(target: Any) -> str:
    """The bare name of an operation: ``aten.relu_.default`` is ``relu``."""
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.split("::")[1]
        return name if name.startswith("_") and name.endswith("__") else name.rstrip("_") or name
    return getattr(target, "__name__", str(target))


def _attribute(module: fx.GraphModule, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def module_of(node: fx.Node) -> str:
    """The name of the module whose forward recorded a node."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def spatial_kinds(label: Label) -> tuple[str, ...]:
    """For each axis h, w, f or c."""
    return tuple(kind_of(a) for a in label)
