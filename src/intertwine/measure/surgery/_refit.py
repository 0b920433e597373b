"""Refit a reduced network layer by layer, so that it computes what the group-averaged ensemble computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from ...errors import InputError
from ..graph._axes import Label
from ..graph._channel_graph import ChannelGraph
from ..graph._permute import full_state, permuted_state, with_state
from ..graph._transform import transformed_state
from ..matching._match import Matching
from ._layout import Layout, averaged, axis_layout
from ._least_squares import LinearMoments, Relabeling
from ._samples import Places, filter_samples, picked
from ._schedule import Fit, Program
from ._tied import orbits_of, tied

Progress = Callable[[int, int, str], None]
LARGEST = 8192
"""Layers with more features per output keep their merged weights: their moments would not fit into memory."""
IMAGES = 1000
MEMORY = 4 * 2**30
"""At most this many images are used, and as many as keep their feature maps within this many bytes."""


def refitted(
    reduced: nn.Module,
    after: Matching,
    copies: Sequence[Mapping[str, Tensor]],
    before: ChannelGraph,
    layouts: Mapping[str, Layout],
    images: Sequence[Tensor],
    *,
    ridge: float,
    seed: int,
    progress: Progress | None = None,
) -> nn.Module:
    """A copy of a reduced network with refitted layers.

    From front to back, every convolution, linear map and batch norm is fitted by least squares to what the ensemble
    computes there, averaged to the channels that were kept. Its features are those of the reduced network with all
    layers before it refitted, so later layers correct the errors of earlier ones. The moments are averaged over the
    group, which makes the solution equivariant; ties are then restored to the last bit. No labels are used.

    Args:
        reduced: the network to refit.
        after: its matching.
        copies: the state of each copy of the original network.
        before: the channel graph of the original network.
        layouts: how the channels of the reduced network are made of those of the copies.
        images: calibration images, in batches; those that fit into memory are used.
        ridge: the pull towards the present weights.
        seed: the seed of the places at which feature maps are sampled.
        progress: called with the number of layers done, their total number, and the name of the next.
    """
    teacher, student = Program(before), Program(after.graph)
    images = _fitting(images, teacher.peak() * len(copies) + student.peak())
    if [str(n.target) for n in teacher.nodes if n.op != "placeholder"] != [
        str(n.target) for n in student.nodes if n.op != "placeholder"
    ]:
        raise InputError("symmetrize", expected="a network whose operations do not depend on its width", got="others")
    state = {n: v.clone() for n, v in full_state(reduced).items()}
    runs = [Run(teacher, c, images) for c in copies]
    run = Run(student, state, images)
    goal = Goal(before, layouts, len(copies), teacher)
    orbits = orbits_of({n: v.shape for n, v in state.items() if v.is_floating_point()}, after.graph, after)
    fits = {f.node: f for f in student.fits()}
    generator = torch.Generator().manual_seed(seed)
    done = 0
    with torch.no_grad():
        for k in student.order:
            fit = fits.get(k)
            if fit is not None:
                if progress is not None:
                    progress(done, len(fits), fit.layer)
                done += 1
                if goal.fits(fit):
                    for r in runs:
                        r.advance(fit.target)
                    _refit(fit, run, runs, goal, state, after, orbits, ridge, generator)
            run.advance(k)
    if progress is not None:
        progress(len(fits), len(fits), "")
    return with_state(reduced, state)


def _fitting(images: Sequence[Tensor], numbers: int) -> list[Tensor]:
    """The images whose feature maps fit into memory, at most a thousand."""
    room = min(IMAGES, max(1, MEMORY // max(1, numbers * images[0].element_size())))
    kept = []
    for x in images:
        kept.append(x[:room])
        room -= len(kept[-1])
        if room <= 0:
            break
    return kept


class Run:
    """A program that runs on all images node by node; values are dropped after their last use."""

    def __init__(self, program: Program, state: Mapping[str, Tensor], images: Sequence[Tensor]) -> None:
        self.program, self.state, self.images = program, state, images
        self.values: list[dict[fx.Node, Any]] = [{} for _ in images]
        self.next = 0

    def advance(self, position: int) -> None:
        """Run up to and including a position of the program."""
        while self.next <= self.program.rank[position]:
            k = self.program.order[self.next]
            for x, values in zip(self.images, self.values, strict=True):
                self._step(self.program.nodes[k], x, values)
                for old in self.program.last.get(k, ()):
                    values.pop(self.program.nodes[old], None)
            self.next += 1

    def _step(self, node: fx.Node, x: Tensor, values: dict[fx.Node, Any]) -> None:
        if node.op in ("placeholder", "output"):
            return

        def value(n: fx.Node) -> Any:
            return self._placeholder(n, x) if n.op == "placeholder" else values[n]

        if node.op == "get_attr":
            values[node] = getattr(self.program.module, str(node.target))
        else:
            values[node] = node.target(*fx.map_arg(node.args, value), **fx.map_arg(node.kwargs, value))  # type: ignore[operator]

    def _placeholder(self, node: fx.Node, x: Tensor) -> Any:
        name = self.program.graph.inputs.get(node.name)
        if name is None:
            return x
        return self.state[name] if name in self.state else self.program.graph.constants[name]

    def at(self, position: int, batch: int) -> Tensor:
        """The value at a position, for one batch."""
        node = self.program.nodes[position]
        value = self._placeholder(node, self.images[batch]) if node.op == "placeholder" else self.values[batch][node]
        return value

    def argument(self, position: int, number: int, batch: int) -> Tensor:
        """An argument of the operation at a position."""
        return self.at(self.program.position[self.program.nodes[position].args[number]], batch)  # type: ignore[index]


class Goal:
    """What the ensemble computes at a node, averaged to the channels of the reduced network."""

    def __init__(self, graph: ChannelGraph, layouts: Mapping[str, Layout], order: int, program: Program) -> None:
        self.graph, self.layouts, self.order, self.program = graph, layouts, order, program

    def label(self, position: int) -> Label:
        """What the axes of a value stand for."""
        return self.graph.labels.get(self.program.nodes[position].name, ())

    def channel_axis(self, fit: Fit) -> int:
        """The axis of the channels that a layer computes."""
        return len(self.label(fit.node)) - 1 if fit.kind == "linear" else 1

    def fits(self, fit: Fit) -> bool:
        """Whether the channels of a layer lie on one axis, so that the others are samples."""
        label, axis = self.label(fit.target), self.channel_axis(fit)
        return bool(label) and not any(
            f.atom is not None for k, a in enumerate(label) if k != axis for s in a for f in s
        )

    def layout(self, fit: Fit) -> tuple[Tensor, Tensor]:
        """The layout of the channels of the target."""
        return axis_layout(self.graph, self.label(fit.target)[self.channel_axis(fit)], self.layouts, self.order)


def _refit(
    fit: Fit,
    run: Run,
    runs: Sequence[Run],
    goal: Goal,
    state: dict[str, Tensor],
    matching: Matching,
    orbits: Mapping[str, Tensor],
    ridge: float,
    generator: torch.Generator,
) -> None:
    name = fit.weight or (fit.norm.weight if fit.norm else "")
    weight = state[name]
    node = run.program.nodes[fit.node]
    blocks = len(weight) if fit.kind == "norm" else int(_get(node, 6, 1)) if fit.kind == "conv2d" else 1
    features = weight[0].numel()
    if features > LARGEST:
        return
    layout, axis = goal.layout(fit), goal.channel_axis(fit)
    moments = LinearMoments(blocks, features, len(weight))
    count = sum(len(x) for x in run.images)
    for b in range(len(run.images)):
        places = Places.draw(runs[0].at(fit.target, b), axis, features, count, generator)
        x = filter_samples(fit.kind, node, run.argument(fit.node, 0, b), weight, places)
        targets = [picked(r.at(fit.target, b), places) for r in runs]
        t = averaged(targets, [None, layout], [])
        if fit.other is not None:
            t = t - picked(run.at(fit.other, b), places)
        moments.add(x.view(len(t), blocks, features), t)
    moments = moments.averaged([_relabeling(name, weight, blocks, matching, g) for g in range(len(runs))])
    with_bias = fit.norm is not None or fit.bias is not None
    start = weight.reshape(len(weight), features)
    if fit.kind == "norm" and fit.norm is not None:
        start = start / (state[fit.norm.variance] + fit.norm.eps).sqrt()[:, None]
    elif fit.norm is not None:
        scale = state[fit.norm.weight] / (state[fit.norm.variance] + fit.norm.eps).sqrt()
        start = start * scale[:, None]
    solved, bias = moments.solution(start.cpu(), ridge=ridge, with_bias=with_bias)
    _write(fit, solved, bias, moments, state, orbits)


def _write(
    fit: Fit,
    solved: Tensor,
    bias: Tensor,
    moments: LinearMoments,
    state: dict[str, Tensor],
    orbits: Mapping[str, Tensor],
) -> None:
    """Store y = solved · x + bias in a layer and its norm, with the statistics of the norm's new input."""

    def put(name: str, value: Tensor) -> None:
        state[name] = tied(value.view(state[name].shape), orbits[name]).to(state[name])

    if fit.norm is not None:
        plain = torch.ones_like(solved) if fit.kind == "norm" else solved
        mean, variance = moments.statistics(plain)
        scale = (variance + fit.norm.eps).sqrt()
        put(fit.norm.mean, mean)
        put(fit.norm.variance, variance)
        put(fit.norm.weight, scale * solved[:, 0] if fit.kind == "norm" else scale)
        put(fit.norm.bias, bias + mean * (solved[:, 0] if fit.kind == "norm" else 1))
    if fit.weight is not None:
        put(fit.weight, solved)
    if fit.bias is not None:
        put(fit.bias, torch.zeros_like(bias) if fit.norm is not None else bias)


def _relabeling(name: str, weight: Tensor, blocks: int, matching: Matching, element: int) -> Relabeling:
    numbers = {name: torch.arange(weight.numel()).reshape(weight.shape)}
    moved = transformed_state(matching.graph, numbers, matching.symmetry, element, matching.input_shape)
    moved = permuted_state(matching.graph, moved, matching.permutations[element])
    return Relabeling.of(moved[name].reshape(len(weight), -1), blocks)


def _get(node: fx.Node, number: int, default: Any) -> Any:
    return node.args[number] if len(node.args) > number else default
