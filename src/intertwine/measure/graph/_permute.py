"""Permute the channels of a network, and check that its function stays the same."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..._checked import checked
from ...errors import InputError
from ._axes import Atom, Axis, Segment
from ._channel_graph import ChannelGraph, channel_graph
from ._slices import wholes

Permutations = Mapping[str, Tensor]
_NONE = Atom(0)


@checked
def random_permutations(graph: ChannelGraph, *, seed: int = 0) -> dict[str, Tensor]:
    """A random permutation for every group of channels."""
    generator = torch.Generator().manual_seed(seed)
    permutations = {g.name: torch.randperm(g.size, generator=generator) for g in graph.groups}
    for g in graph.groups:
        if g.heads is not None:
            heads = permutations[g.heads]
            inside = torch.rand(len(heads), g.size // len(heads), generator=generator).argsort(1)
            permutations[g.name] = (heads[:, None] * inside.shape[1] + inside).flatten()
    return permutations


def axis_index(graph: ChannelGraph, axis: Axis, permutations: Permutations) -> Tensor | None:
    """The index that reorders an axis; None if it stays as it is."""
    known = [f.atom for segment in axis for f in segment if graph.names.get(f.atom or _NONE) in permutations]
    if not known:
        return None
    return torch.cat(axis_sources(graph, axis, permutations), 1)[0]


def axis_sources(graph: ChannelGraph, axis: Axis, sources: Mapping[str, Tensor], copies: int = 1) -> list[Tensor]:
    """For each copy of a network, the old entry of every new entry of an axis, segment by segment.

    Args:
        graph: the channel graph.
        axis: the axis.
        sources: by group, the old channel of every new channel, as (channels) or (copies, channels).
        copies: the number of copies.
    """
    out = []
    for segment, (whole, places) in zip(axis, wholes(axis), strict=True):
        entries = places.flatten()[_segment_sources(graph, whole, sources, copies)]
        for k, f in enumerate(segment):
            if f.is_slice:
                entries = entries.unflatten(1, places.shape).narrow(1 + k, f.first, f.size).flatten(1)
        out.append(entries)
    return out


def _segment_sources(graph: ChannelGraph, segment: Segment, sources: Mapping[str, Tensor], copies: int) -> Tensor:
    """The same for one segment, whose entries are counted from 0."""
    atoms = [f.atom for f in segment]
    grids, sizes = [], []
    for f in segment:
        source = sources.get(graph.names.get(f.atom or _NONE, ""))
        grids.append(torch.arange(f.size).expand(copies, -1) if source is None else source.cpu().expand(copies, -1))
        outer = graph.outers.get(f.atom or _NONE)
        heads = outer.size if source is not None and outer is not None and outer in atoms else 1
        sizes.append(grids[-1].shape[1] // heads)
    index = torch.zeros(copies, *sizes, dtype=torch.long)
    for k, (f, grid) in enumerate(zip(segment, grids, strict=True)):
        shape = [copies, *[1] * len(segment)]
        shape[1 + k] = sizes[k]
        if grid.shape[1] > sizes[k]:  # each head has its own order
            head = atoms.index(graph.outers[f.atom])  # type: ignore[index]
            grid = (grid % f.size).reshape(copies, -1, sizes[k])
            grid = grid if head < k else grid.mT
            shape[1 + head] = sizes[head]
        index = index * f.size + grid.reshape(shape)
    return index.flatten(1)


def permuted_state(graph: ChannelGraph, state: Mapping[str, Tensor], permutations: Permutations) -> dict[str, Tensor]:
    """Parameters and buffers with permuted channels: entry i is the old entry p[i]."""
    out = dict(state)
    for name, label in graph.axes.items():
        if name not in state:
            continue
        value = state[name]
        for k, axis in enumerate(label):
            index = axis_index(graph, axis, permutations)
            if index is not None:
                value = value.index_select(k, index.to(value.device))
        if name in graph.grouped:
            value = _reordered_blocks(graph, name, value, permutations)
        out[name] = value
    return out


def _reordered_blocks(graph: ChannelGraph, name: str, value: Tensor, permutations: Permutations) -> Tensor:
    """Reorder the second axis of a grouped weight, each block of rows by its own permutation."""
    axis, groups = graph.grouped[name]
    index = axis_index(graph, axis, permutations)
    if index is None:
        return value
    size = value.shape[1]
    columns = (index.reshape(groups, size) % size).repeat_interleave(value.shape[0] // groups, 0)
    columns = columns.reshape(*columns.shape, *[1] * (value.dim() - 2)).expand_as(value)
    return value.gather(1, columns.to(value.device))


@checked
def permute(model: nn.Module, permutations: Permutations, *, graph: ChannelGraph) -> nn.Module:
    """A copy of the network with permuted channels and the same function.

    Slot i of a group of channels receives what was in slot p[i]: rows of the weights and biases that produce the
    channels, their norms and running statistics, and columns of everything that consumes them.

    Args:
        model: the network.
        permutations: group name → index p; groups that are not named stay in place.
        graph: the channel graph of this network.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> graph = channel_graph(net, (4,))
    >>> other = permute(net, {"0": torch.arange(7, -1, -1)}, graph=graph)
    >>> x = torch.randn(5, 4)
    >>> torch.allclose(net(x), other(x), atol=1e-6), torch.equal(net[0].weight, other[0].weight)
    (True, False)
    """
    sizes = {g.name: g.size for g in graph.groups}
    for name, p in permutations.items():
        if name not in sizes or sorted(p.tolist()) != list(range(sizes.get(name, 0))):
            raise InputError(
                "permute",
                expected="permutations of " + ", ".join(f"{n} ({s})" for n, s in sizes.items())[:200],
                got=f"{name!r} with {len(p)} entries",
                fix="Groups and sizes are in channel_graph(model, input_shape).groups.",
            )
    for g in graph.groups:
        if g.name in permutations and g.heads is not None:
            count = sizes[g.heads]
            heads = permutations.get(g.heads, torch.arange(count))
            if not torch.equal(
                permutations[g.name].cpu() // (g.size // count), heads.cpu().repeat_interleave(g.size // count)
            ):
                raise InputError(
                    "permute",
                    expected=f"{g.name} to move channels from head to head as {g.heads} moves the heads",
                    got="a permutation that tears heads apart",
                )
    return with_state(model, permuted_state(graph, full_state(model), permutations))


def full_state(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, including buffers that a state dict leaves out."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: value.detach() for name, value in named}


def with_state(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """A copy of the network with these parameters and buffers."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for name, value in full_state(twin).items():
            value.copy_(state[name])
    return twin


@checked
def require_preserved(model: nn.Module, graph: ChannelGraph, input_shape: Sequence[int], *, seed: int = 0) -> float:
    """Permute all groups at random, compare outputs in float64, and return the maximum difference.

    The difference is relative to the largest output. More than 1e-10 is an error that names the groups at fault.
    All parameters are perturbed first: a network with a zero last layer, or with equal norms, would pass whatever the
    permutation does.
    """
    twin = _perturbed(model, seed)
    first = next(iter(twin.parameters()), torch.zeros(()))
    x = torch.randn(2, *input_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = x.to(first.device)
    permutations = random_permutations(graph, seed=seed)
    state = full_state(twin)
    with torch.no_grad():
        before = _outputs(twin(x))
        if not all(bool(torch.isfinite(t).all()) for t in before):
            raise InputError(
                "channel_graph",
                expected="a network with finite outputs",
                got="NaN or infinity for random images",
                fix="Check the weights.",
            )
        scale = max(float(t.abs().max()) for t in before) or 1.0

        def difference(chosen: Permutations) -> float:
            _load(twin, permuted_state(graph, state, chosen))
            after = _outputs(twin(x))
            return max(float((a - b).abs().max()) for a, b in zip(before, after, strict=True)) / scale

        state = {name: value.clone() for name, value in state.items()}
        error = difference(permutations)
        if not error <= 1e-10:
            guilty = [name for name, p in permutations.items() if not difference({name: p}) <= 1e-10]
            raise InputError(
                "channel_graph",
                expected="permutations of hidden channels that preserve the output",
                got=f"a relative difference of {error:.1e}, from {', '.join(guilty[:5]) or 'several groups together'}",
                fix="The tracer misreads this network: please report it, with the module.",
            )
    return error


def _perturbed(model: nn.Module, seed: int) -> nn.Module:
    twin = copy.deepcopy(model).eval().double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in twin.parameters():
            size = float(p.std()) if p.numel() > 1 else 0.0
            p.add_((size or 0.1) * torch.randn(p.shape, dtype=torch.float64, generator=generator).to(p))
        for m in twin.modules():
            if (
                isinstance(m, nn.modules.batchnorm._NormBase)
                and m.running_var is not None
                and m.running_mean is not None
            ):
                noise = torch.rand(m.running_var.shape, dtype=torch.float64, generator=generator)
                m.running_var.mul_(0.5 + noise.to(m.running_var))
                m.running_mean.add_(0.1 * noise.flip(0).to(m.running_mean))
    return twin


def _load(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    for name, value in full_state(model).items():
        value.copy_(state[name])


def _outputs(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for f in value.values() for t in _outputs(f)]
    return [t for f in value for t in _outputs(f)] if isinstance(value, list | tuple) else []


def checked_graph(model: nn.Module, input_shape: Sequence[int]) -> ChannelGraph:
    """The channel graph of a network, after checking that permutations preserve its output."""
    graph = channel_graph(model, tuple(input_shape))
    require_preserved(model, graph, input_shape)
    return graph
