"""Weight matching: coordinate descent over the groups of channels, by inner products of parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..graph._axes import Axis
from ..graph._channel_graph import ChannelGraph
from ..graph._permute import permuted_state
from ._assignment import best_involution, best_permutation

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
    names = [g.name for g in graph.groups]
    atoms = {name: atom for atom, name in graph.names.items()}
    permutations = {g.name: torch.arange(g.size) for g in graph.groups}
    uses = {name: _uses(graph, name) for name in names}
    used = {
        p: (first[p].double(), second[p].double())
        for p in {u[0] for us in uses.values() for u in us}
        if p in first and first[p].is_floating_point() and not p.endswith(BUFFERS)
    }
    generator = torch.Generator().manual_seed(seed)
    for _ in range(sweeps):
        gained = False
        for k in torch.randperm(len(names), generator=generator).tolist():
            name = names[k]
            others = {n: p for n, p in permutations.items() if n != name}
            parts = {p: used[p][1] for p, *_ in uses[name] if p in used}
            moved = permuted_state(graph, parts, others)
            table = torch.zeros(len(permutations[name]), len(permutations[name]), dtype=torch.float64)
            for parameter, axis, grouped in uses[name]:
                if parameter in used:
                    table += _products(
                        graph, atoms[name], parameter, axis, grouped, used[parameter][0], moved[parameter]
                    )
            if involution:
                table = (table + table.T) / 2  # involutions score the same; equal ones then gain exactly 0
            new = best_involution(table) if involution else best_permutation(table)
            gain = (table.gather(1, new[:, None]) - table.gather(1, permutations[name][:, None])).sum()
            if float(gain) > 1e-12:
                permutations[name], gained = new, True
        if not gained:
            break
    return permutations


def _uses(graph: ChannelGraph, name: str) -> list[tuple[str, int, bool]]:
    """The parameters and axes where a group of channels occurs; the last entry marks blocks of a grouped weight."""
    atom = next(a for a, n in graph.names.items() if n == name)

    def holds(axis: Axis) -> bool:
        return any(f.atom is atom for segment in axis for f in segment)

    places = [(p, k, False) for p, label in graph.axes.items() for k, axis in enumerate(label) if holds(axis)]
    return places + [(p, 1, True) for p, (axis, _) in graph.grouped.items() if holds(axis)]


def _products(graph: ChannelGraph, atom: object, parameter: str, k: int, grouped: bool, a: Tensor, b: Tensor) -> Tensor:
    """The inner products of all channels of ``a`` with all channels of ``b`` along one axis."""
    axis, groups = graph.grouped[parameter] if grouped else (graph.axes[parameter][k], 1)
    total: Tensor | None = None
    start = 0
    for segment in axis:
        sizes = [f.size for f in segment]
        size = int(torch.Size(sizes).numel())
        for position, factor in enumerate(segment):
            if factor.atom is atom:
                rows = [_slots(t, k, start, size, sizes, position, groups if grouped else 0) for t in (a, b)]
                product = (rows[0] @ rows[1].T).cpu()
                total = product if total is None else total + product
        start += size
    if total is None:
        raise RuntimeError(f"{parameter} does not hold the channels it was listed for")
    return total


def _slots(t: Tensor, k: int, start: int, size: int, sizes: list[int], position: int, groups: int) -> Tensor:
    """One segment of an axis as a matrix of channels by everything else."""
    if groups:  # the second axis holds the channels of one group, for one block of rows
        rows, columns = t.shape[0] // groups, t.shape[1]
        block = start // columns
        t, start = t[block * rows : (block + 1) * rows], start % columns
    part = t.narrow(k, start, size).movedim(k, 0)
    part = part.reshape(*sizes, -1).movedim(position, 0)
    return part.reshape(sizes[position], -1)
