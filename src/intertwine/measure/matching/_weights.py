"""Weight matching: coordinate descent over the groups of channels, by inner products of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from ...groups import Cyclic
from ..graph._axes import Segment
from ..graph._channel_graph import ChannelGraph
from ..graph._permute import permuted_state
from ..graph._slices import wholes
from ._assignment import best_involution, best_permutation
from ._heads import HEADS, best_head_representation, best_heads

BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def weight_matching(
    graph: ChannelGraph,
    first: Mapping[str, Tensor],
    second: Mapping[str, Tensor],
    *,
    involution: bool = False,
    sweeps: int = 100,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Permutations of the second network that (locally) maximize Σ over parameters of ⟨W_first, permuted W_second⟩.

    The groups of channels are visited in random order. With all others fixed, the best permutation of one group is an
    assignment. This is repeated until no visit gains, at most ``sweeps`` times. Kernels, biases and norms count;
    running statistics only follow. With one hidden layer the first sweep is already optimal.
    """
    names = [g.name for g in graph.groups if g.heads is None]
    permutations = {g.name: torch.arange(g.size) for g in graph.groups}
    uses = {g.name: _uses(graph, g.name) for g in graph.groups}
    used = {
        p: (first[p].double(), second[p].double())
        for p in {u[0] for us in uses.values() for u in us}
        if p in first and first[p].is_floating_point() and not p.endswith(BUFFERS)
    }

    def scores(name: str, together: Sequence[str]) -> Tensor:
        """The inner products of all channels of a group, with the groups that are not visited together in place."""
        others = {n: p for n, p in permutations.items() if n not in together}
        parts = {p: used[p][1] for p, *_ in uses[name] if p in used}
        moved = permuted_state(graph, parts, others)
        table = torch.zeros(len(permutations[name]), len(permutations[name]), dtype=torch.float64)
        for parameter, axis, grouped in uses[name]:
            if parameter in used:
                table += _products(graph, name, parameter, axis, grouped, used[parameter][0], moved[parameter])
        return (table + table.T) / 2 if involution else table  # equal involutions then gain exactly 0

    generator = torch.Generator().manual_seed(seed)
    for _ in range(sweeps):
        gained = False
        for k in torch.randperm(len(names), generator=generator).tolist():
            together = [names[k], *(g.name for g in graph.inside(names[k]))]
            tables = {n: scores(n, together) for n in together}
            new = _best(tables, names[k], involution)
            gain = sum(
                float((tables[n].gather(1, new[n][:, None]) - tables[n].gather(1, permutations[n][:, None])).sum())
                for n in together
            )
            if gain > 1e-12:
                permutations.update(new)
                gained = True
        if not gained:
            break
    return permutations


def _best(tables: Mapping[str, Tensor], name: str, involution: bool) -> dict[str, Tensor]:
    """The best permutations of one group, or of heads and what is inside them."""
    heads = len(tables[name])
    if len(tables) == 1:
        return {name: best_involution(tables[name]) if involution else best_permutation(tables[name])}
    scores = {HEADS if n == name else n: t for n, t in tables.items()}
    # The heads count by the sum over their channels here, not by the mean.
    scores = {n: t if n == HEADS else t * (len(t) // heads) for n, t in scores.items()}
    best = best_head_representation(Cyclic(2), heads, {1: scores})[1] if involution else best_heads(heads, scores)
    return {n or name: p for n, p in best.items()}


def _uses(graph: ChannelGraph, name: str) -> list[tuple[str, int, bool]]:
    """The parameters and axes where a group of channels occurs; the last entry marks blocks of a grouped weight."""
    places = [
        (p, k, False)
        for p, label in graph.axes.items()
        for k, axis in enumerate(label)
        if any(_positions(graph, name, s) for s in axis)
    ]
    return places + [
        (p, 1, True) for p, (axis, _) in graph.grouped.items() if any(_positions(graph, name, s) for s in axis)
    ]


def _positions(graph: ChannelGraph, name: str, segment: Segment) -> list[int]:
    """Which factors of a segment are the channels of a group: two for channels inside heads, none if it has others."""
    atoms = [f.atom for f in segment]
    inside = {graph.outers[a] for a in atoms if a in graph.outers}
    for k, atom in enumerate(atoms):
        if atom is not None and graph.names.get(atom) == name and atom not in inside:
            return [atoms.index(graph.outers[atom]), k] if atom in graph.outers else [k]
    return []


def _products(graph: ChannelGraph, name: str, parameter: str, k: int, grouped: bool, a: Tensor, b: Tensor) -> Tensor:
    """The inner products of all channels of ``a`` with all channels of ``b`` along one axis."""
    axis, groups = graph.grouped[parameter] if grouped else (graph.axes[parameter][k], 1)
    total: Tensor | None = None
    for segment, (whole, places) in zip(axis, wholes(axis), strict=True):
        positions = _positions(graph, name, whole)
        if positions and not any(f.first for f in segment):  # slices count once
            rows = [_slots(t, k, places, positions, groups if grouped else 0) for t in (a, b)]
            product = (rows[0] @ rows[1].T).cpu()
            total = product if total is None else total + product
    if total is None:
        raise RuntimeError(f"{parameter} does not hold the channels it was listed for")
    return total


def _slots(t: Tensor, k: int, places: Tensor, positions: list[int], groups: int) -> Tensor:
    """Some places of an axis as a matrix of channels by everything else."""
    if groups:  # the second axis holds the channels of one group, for one block of rows
        rows, columns = t.shape[0] // groups, t.shape[1]
        block = int(places.min()) // columns
        t, places = t[block * rows : (block + 1) * rows], places % columns
    part = t.index_select(k, places.flatten().to(t.device)).movedim(k, 0)
    part = part.reshape(*places.shape, -1).movedim(positions, list(range(len(positions))))
    return part.reshape(prod(places.shape[p] for p in positions), -1)
