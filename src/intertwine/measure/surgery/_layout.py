"""Which channels of the group-averaged ensemble a symmetric network keeps, merged or not.

The ensemble consists of |G| copies of a network, one with its filters moved by each τ_g; the mean of their outputs is
the average over the group. The group permutes the copies, so the ensemble is exactly equivariant, and |G| times as wide
as the network. Matched channels are nearly equal across copies: merging an orbit of them into its means saves |G| − 1
of |G| channels. Orbits that match badly can stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..graph._axes import Axis
from ..graph._channel_graph import ChannelGraph, operation_of
from ..graph._permute import axis_sources, permuted_state
from ..matching._match import Matching

_COUNTING = """
layer_norm rms_norm group_norm matmul bmm mm baddbmm einsum scaled_dot_product_attention softmax split
split_with_sizes tensor_split unbind slice narrow select pad constant_pad_nd
"""
COUNTING = frozenset(_COUNTING.split())
"""Operations that depend on the number of channels, or contain it."""


@dataclass(frozen=True)
class Layout:
    """How the slots of one group of channels are made of the channels of the ensemble.

    Attributes:
        source: for each copy g and each slot, the channel of copy g.
        copy: for each slot, the copy it belongs to; −1 for the mean over all copies.
        permutations: for each element g, the permutation of the slots, as in :class:`Matching`.
    """

    source: Tensor
    copy: Tensor
    permutations: Tensor

    @property
    def size(self) -> int:
        """The number of slots."""
        return len(self.copy)


def layout(matching: Matching, name: str, apart: Tensor) -> Layout:
    """The layout of a group of channels, whose channels ``apart`` (a union of orbits) are not merged."""
    group = matching.symmetry.require_finite(caller="symmetrize")
    p = torch.stack([matching.permutations[g][name].cpu() for g in range(group.order)])
    slots = [(i, h) for i, alone in enumerate(apart.tolist()) for h in (range(group.order) if alone else (-1,))]
    place = {slot: k for k, slot in enumerate(slots)}
    channel, copy = (torch.tensor(column) for column in zip(*slots, strict=True))
    source = torch.where(copy < 0, p[:, channel], channel)
    # Copy h of τ_k x is copy k⁻¹h of x, moved.
    moved = [
        [place[int(p[k, i]), -1] if h < 0 else place[i, int(group.compose(int(group.inverse(k)), h))] for i, h in slots]
        for k in range(group.order)
    ]
    return Layout(source, copy, torch.tensor(moved))


def chosen_layouts(matching: Matching, width: float) -> dict[str, Layout]:
    """The layouts of all groups of channels under one budget: ``width`` times the number of channels of the network.

    Orbits are left apart in the order of their correlation with the moved copies, the lowest first, wherever they are
    in the network. Channels that are cut or counted by norms, attention or grouped convolutions stay merged.
    """
    order, graph = matching.symmetry.order, matching.graph
    free = [g for g in graph.groups if g.name not in merged_groups(graph)]
    apart = {g.name: torch.zeros(g.size, dtype=torch.bool) for g in graph.groups}
    if width >= order:
        apart.update({g.name: torch.ones(g.size, dtype=torch.bool) for g in free})
    elif width > 1 and matching.correlations:
        room = (width - 1) * sum(g.size for g in graph.groups)
        for _, name, orbit in sorted(_orbits(matching, [g.name for g in free]), key=lambda o: o[0]):
            cost = len(orbit) * (order - 1)
            if cost <= room:
                room -= cost
                apart[name][orbit] = True
    return {name: layout(matching, name, mask) for name, mask in apart.items()}


def _orbits(matching: Matching, names: Iterable[str]) -> Iterable[tuple[float, str, Tensor]]:
    """The orbits of channels with their mean correlations."""
    for name in names:
        p = torch.stack([matching.permutations[g][name].cpu() for g in range(matching.symmetry.order)])
        score = torch.stack([matching.correlations[g][name] for g in range(1, len(p))]).mean(0)
        alive = ~matching.dead[name]
        for first in p.amin(0).unique().tolist():
            orbit = p[:, first].unique()
            if bool(alive[orbit].any()):
                yield float(score[orbit].mean()), name, orbit


def merged_groups(graph: ChannelGraph) -> set[str]:
    """The groups of channels whose number cannot change."""
    axes = [axis for axis, _ in graph.grouped.values()]
    for node in graph.program.graph.nodes:
        if node.op == "call_function" and operation_of(node.target) in COUNTING:
            labels = [graph.labels.get(n.name, ()) for n in (*node.all_input_nodes, node)]
            axes += [axis for label in labels for axis in label]
    named = {graph.names[f.atom] for axis in axes for segment in axis for f in segment if f.atom in graph.names}
    return named | graph.padded


def axis_layout(graph: ChannelGraph, axis: Axis, layouts: Mapping[str, Layout], order: int) -> tuple[Tensor, Tensor]:
    """For each copy, the old entry of every new entry of an axis; and the copy that each new entry belongs to."""
    copies = []
    tables = {name: layout.source for name, layout in layouts.items()}
    for segment in axis:
        copy = torch.full((1,), -1)
        for f in segment:
            # Channels inside heads are always merged, so they belong to no copy.
            chosen = layouts.get(graph.names.get(f.atom, "")) if f.atom and f.atom not in graph.outers else None
            owner = torch.full((f.size,), -1) if chosen is None or f.is_slice else chosen.copy  # slices are merged
            copy = torch.maximum(copy[:, None], owner[None]).flatten()
        copies.append(copy)
    return torch.cat(axis_sources(graph, axis, tables, order), 1), torch.cat(copies)


def averaged(values: Sequence[Tensor], axes: Sequence[tuple[Tensor, Tensor] | None], entering: Sequence[int]) -> Tensor:
    """A tensor of the reduced network from its |G| copies.

    Merged entries are means over the copies, the others belong to one copy each. Along ``entering`` axes, which are
    summed over, the reduced network feeds a merged channel to all copies, so entries add up instead.

    Args:
        values: the tensor in each copy.
        axes: the layout of each axis; None for an axis that stays as it is.
        entering: the axes that are summed over.
    """
    total: Tensor | None = None
    for g, value in enumerate(values):
        share = torch.ones((), dtype=torch.float64)
        owner = torch.full((), -1)
        for k, layout in enumerate(axes):
            if layout is None:
                continue
            source, copy = layout
            value = value.index_select(k, source[g].to(value.device))
            copy = copy.view(-1, *[1] * (value.dim() - 1 - k))
            if k in entering:
                share = share * ((copy < 0) | (copy == g))
            else:
                owner = torch.maximum(owner, copy)
        share = share * torch.where(owner < 0, 1 / len(values), (owner == g).double())
        part = value.double() * share.to(value.device)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("no copies to average")
    return total.to(values[0].dtype)


def reduced_state(
    graph: ChannelGraph,
    copies: Sequence[Mapping[str, Tensor]],
    layouts: Mapping[str, Layout],
    permutations: Mapping[int, Mapping[str, Tensor]],
) -> dict[str, Tensor]:
    """All parameters and buffers of the reduced network, from those of the copies.

    Args:
        graph: the channel graph of the network.
        copies: the state of each copy.
        layouts: the layout of each group of channels.
        permutations: the matched permutations, for grouped convolutions.
    """
    out, entering = dict(copies[0]), _entering(graph)
    for name, label in graph.axes.items():
        if name not in out or not out[name].is_floating_point():
            continue
        values = [c[name] for c in copies]
        if name in graph.grouped:
            moved = [permuted_state(graph, {name: v}, permutations[g])[name].double() for g, v in enumerate(values)]
            out[name] = torch.stack(moved).mean(0).to(values[0].dtype)
        else:
            axes = [axis_layout(graph, axis, layouts, len(copies)) for axis in label]
            out[name] = averaged(values, axes, [entering[name]] if name in entering else [])
    return out


def _entering(graph: ChannelGraph) -> dict[str, int]:
    """For each weight that is summed over its input channels, the axis of these channels."""
    axes = {}
    for node in graph.program.graph.nodes:
        name = operation_of(node.target) if node.op == "call_function" else ""
        if name == "linear" or name.startswith("conv"):
            weight = graph.inputs.get(getattr(node.args[1], "name", ""))
            if weight is not None:
                axes[weight] = 0 if name.startswith("conv_transpose") else 1
    return axes
