"""Means, variances and correlations of channels, computed in one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ..graph._channel_graph import ChannelGraph, Site

DEAD = 1e-10
"""A channel is dead if its variance is below this fraction of its own mean square plus the mean variance."""


class Moments:
    """Streaming mean and variance of the channels of one network at one site.

    Every position of every image is one sample. Samples are shifted by the means of the first batch: without the shift,
    E[x²] − E[x]² would cancel in float32. Samples are summed in the precision of the network, batches in float64.
    """

    def __init__(self, first: Tensor) -> None:
        self.shift = first.mean(tuple(range(1, first.dim())), keepdim=True)
        self.count = 0
        self.sum = torch.zeros(len(first), dtype=torch.float64, device=first.device)
        self.square = torch.zeros_like(self.sum)

    def shifted(self, samples: Tensor) -> Tensor:
        """Samples (channels first) minus the shift, as a matrix of channels by samples."""
        # Subtracting into a contiguous tensor rearranges and shifts in one pass over the data instead of two.
        shifted = torch.empty(samples.shape, dtype=samples.dtype, device=samples.device)
        return torch.sub(samples, self.shift, out=shifted).view(len(samples), -1)

    def add(self, count: int, total: Tensor, norm: Tensor) -> None:
        """Add shifted samples, given by their number, their sum and their norm."""
        self.count += count
        self.sum += total
        self.square += norm.double() ** 2

    @property
    def mean(self) -> Tensor:
        """The mean of each channel."""
        return self.shift.flatten().double() + self.sum / self.count

    @property
    def variance(self) -> Tensor:
        """The variance of each channel, over all samples."""
        return (self.square / self.count - (self.sum / self.count) ** 2).clamp_min(0)

    @property
    def dead(self) -> Tensor:
        """Which channels do not vary."""
        variance = self.variance
        return variance <= DEAD * (self.mean**2 + variance.mean())


class CrossMoments:
    """The Pearson correlation of the channels of two networks at one site; stores C² numbers for any number of images.

    >>> x = torch.randn(3, 50)
    >>> first, second = Moments(x), Moments(x.flip(0))
    >>> cross = CrossMoments(first, second)
    >>> rows = first.shifted(x), second.shifted(x.flip(0))
    >>> for moments, row in zip((first, second), rows):
    ...     moments.add(50, row.sum(1), row.norm(dim=1))
    >>> cross.add(rows[0] @ rows[1].T)
    >>> cross.correlation().argmax(1)
    tensor([2, 1, 0])
    """

    def __init__(self, first: Moments, second: Moments) -> None:
        self.first, self.second = first, second
        self.sum = torch.zeros(len(first.sum), len(second.sum), dtype=torch.float64, device=first.sum.device)

    def add(self, product: Tensor) -> None:
        """Add shifted samples of both, given by the product of their matrices."""
        self.sum += product

    def correlation(self, *, eps: float = 0.0) -> Tensor:
        """K[i, j] between channel i of the first and channel j of the second network; 0 for dead channels."""
        n = self.first.count
        covariance = self.sum / n - torch.outer(self.first.sum / n, self.second.sum / n)
        scale = torch.outer(self.first.variance.sqrt(), self.second.variance.sqrt()) + eps
        correlation = (covariance / scale).nan_to_num(0, 0, 0)
        correlation[self.first.dead] = 0
        correlation[:, self.second.dead] = 0
        return correlation


def samples(value: Tensor, site: Site) -> Tensor:
    """The activations at a site, channels first."""
    runs = [value.narrow(site.axis, start, size) for start, size in site.runs]
    return (torch.cat(runs, site.axis) if len(runs) > 1 else runs[0]).movedim(site.axis, 0)


def chosen_sites(graph: ChannelGraph, *, every: bool = True) -> dict[str, tuple[Site, ...]]:
    """Where each group of channels is observed.

    Sites after a nonlinearity are preferred, and maps much smaller than the largest are left out (a gate of one pixel
    says little). All remaining sites are observed: the channels of a residual stage at the output of each of its
    blocks. Without ``every``, only the last one is.
    """
    chosen = {}
    for name, sites in graph.sites.items():
        kept = [s for s in sites if s.nonlinear] or list(sites)
        largest = max(s.positions for s in kept)
        kept = [s for s in kept if 16 * s.positions >= largest]
        chosen[name] = tuple(kept if every else kept[-1:])
    return chosen


def lockstep(
    graph: ChannelGraph, states: Sequence[Mapping[str, Tensor]], x: Tensor, nodes: set[str]
) -> Iterator[tuple[str, list[Tensor]]]:
    """Run the traced program with several sets of weights side by side, and yield the values of ``nodes`` as they come.

    Running all networks node by node lets the caller correlate their activations at once, instead of storing those of
    one network while another one runs. A value is dropped after its last use, as in a plain forward pass.
    """
    last = _last_uses(graph.program)
    runs: list[dict[fx.Node, Any]] = [{} for _ in states]
    for node in graph.program.graph.nodes:
        if node.op == "output":
            yield "output", [_first_tensor(fx.map_arg(node.args, run.__getitem__)) for run in runs]
            return
        for run, state in zip(runs, states, strict=True):
            if node.op == "placeholder":
                name = graph.inputs.get(node.name)
                # A copy: the first operation of the network may work in place.
                run[node] = x.clone() if name is None else _value(graph, state, name)
            elif node.op == "get_attr":
                run[node] = _attribute(graph.program, node.target)
            else:
                args: Any = fx.map_arg(node.args, run.__getitem__)
                run[node] = node.target(*args, **fx.map_arg(node.kwargs, run.__getitem__))
        if node.name in nodes:
            yield node.name, [run[node] for run in runs]
        for old in last.get(node, ()):
            for run in runs:
                run.pop(old, None)


def _value(graph: ChannelGraph, state: Mapping[str, Tensor], name: str) -> Tensor:
    return state[name] if name in state else graph.constants[name]


def _attribute(program: fx.GraphModule, path: str) -> object:
    value: object = program
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _first_tensor(value: object) -> Tensor:
    while isinstance(value, list | tuple):
        value = value[0]
    return value  # type: ignore[return-value]


def _last_uses(program: fx.GraphModule) -> dict[fx.Node, list[fx.Node]]:
    """For each node, the values whose last use it is."""
    seen: set[fx.Node] = set()
    uses: dict[fx.Node, list[fx.Node]] = {}
    for node in reversed(program.graph.nodes):
        for used in node.all_input_nodes:
            if used not in seen and used.op != "placeholder":
                seen.add(used)
                uses.setdefault(node, []).append(used)
    return uses
