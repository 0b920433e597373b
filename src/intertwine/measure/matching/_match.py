"""Which channels of a network correspond to those of its mirror image, or of another network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, batches, measuring
from .._symmetry import Symmetry, SymmetryLike, parse_symmetry
from ..graph._channel_graph import ChannelGraph, ChannelGroup, channel_graph
from ..graph._permute import full_state, require_preserved
from ..graph._transform import transformed_state
from ._assignment import best_permutation, cycle_lengths
from ._heads import HEADS, best_head_representation, best_heads
from ._moments import CrossMoments, Moments, chosen_sites, lockstep, samples
from ._representation import best_representation
from ._weights import weight_matching

Method = Literal["activation", "weight", "identity"]
Table: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Correlations, and which channels are dead in the first and in the other network."""


@checked
@dataclass
class Matching:
    """For each element g of a symmetry and each group of channels, the permutation p_g.

    Channel i of the network corresponds to channel p_g[i] of the network moved by τ_g. In an equivariant network the
    hidden features obey h(τ_g x)_i = τ_g h(x)_{p_g[i]}.

    Attributes:
        symmetry: the symmetry.
        graph: the channel graph of the network.
        permutations: element → group of channels → permutation.
        correlations: the same with the correlation of each matched pair; empty for weight matching.
        dead: which channels do not vary on the data, by group of channels.
        method: how the channels were matched.
        constrained: whether the permutations form a representation, p_gh = p_h ∘ p_g.
        input_shape: the shape of one image.
    """

    symmetry: Symmetry
    graph: ChannelGraph = field(repr=False)
    permutations: dict[int, dict[str, Tensor]] = field(repr=False)
    correlations: dict[int, dict[str, Tensor]] = field(repr=False)
    dead: dict[str, Tensor] = field(repr=False)
    method: str
    constrained: bool
    input_shape: tuple[int, ...]

    def order_histogram(self, element: int = 1) -> dict[str, dict[int, int]]:
        """For each group of channels, how many lie on cycles of length 1, 2, 3, ... of the permutation."""
        histogram = {}
        for name, p in self.permutations[element].items():
            lengths, counts = cycle_lengths(p).unique(return_counts=True)
            histogram[name] = dict(zip(lengths.tolist(), counts.tolist(), strict=True))
        return histogram

    def mean_correlation(self, element: int = 1) -> dict[str, float]:
        """The mean correlation of matched live channels, by group of channels."""
        means = {}
        for name, values in self.correlations[element].items():
            live = values[~self.dead[name]]
            means[name] = float(live.mean()) if len(live) else float("nan")
        return means


@checked
def match(
    model: nn.Module,
    data: Images | None,
    symmetry: SymmetryLike,
    *,
    method: Method = "activation",
    constrained: bool = True,
    graph: ChannelGraph | None = None,
    input_shape: tuple[int, ...] | None = None,
    every_site: bool = True,
    batch_size: Positive = 128,
    max_images: Positive | None = None,
    check: bool = True,
    seed: int = 0,
) -> Matching:
    """Match the channels of a network with those of the network moved by each element of a symmetry.

    Activation matching: both networks see the same images, and channels are assigned to maximize the sum of
    correlations. One pass over the data serves all groups of channels, and the memory does not depend on the number of
    images. With ``constrained``, the permutations represent the group (they are involutions for mirrors), which makes
    the average over the group exactly equivariant; otherwise every element is matched on its own, as in the paper.

    Args:
        model: any network that can be traced.
        data: images, or batches of images; not needed for weight matching if ``input_shape`` is given.
        symmetry: a name, a space with its group, or a :class:`Symmetry`; it must move pixels by flips and quarter
            turns.
        method: ``activation``, ``weight`` (inner products of parameters, coordinate descent), or ``identity``.
        constrained: whether the permutations must form a representation.
        graph: the channel graph, if it is already computed.
        input_shape: the shape of one image; by default taken from the data.
        every_site: observe a group of channels at every map of about its largest size, not only at the last.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.
        check: whether to check first that permutations preserve the output.
        seed: the seed for the order in which weight matching visits the groups.

    >>> _ = torch.manual_seed(0)
    >>> half = torch.randn(4, 1, 3, 3)
    >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    >>> net[0].weight.data, net[0].bias.data = torch.cat([half, half.flip(3)]), torch.zeros(8)
    >>> match(net, torch.randn(50, 1, 6, 6), "hflip").permutations[1]["0"]
    tensor([4, 5, 6, 7, 0, 1, 2, 3])
    """
    symmetry = parse_symmetry(symmetry)
    shape = input_shape or _shape(data, "match")
    if method == "activation":
        if data is None:
            raise InputError("match", expected="images, for activation matching", got="none")
        options: dict[str, Any] = {"batch_size": batch_size, "max_images": max_images}
        correlations = channel_correlations(
            model, data, symmetry, shape, graph=graph, every=every_site, check=check, **options
        )
        return correlations.matching(constrained=constrained)
    graph = _matchable(model, symmetry, shape, graph, check)
    state, *moved = _states(model, symmetry, graph, shape)
    still = {g.name: torch.arange(g.size) for g in graph.groups}
    if method == "identity":
        return Matching(symmetry, graph, {g: dict(still) for g in range(symmetry.order)}, {}, {}, method, True, shape)
    if constrained and symmetry.order > 2:
        raise InputError(
            "match",
            expected="activation matching for a constrained match of more than two elements",
            got=f"method='weight' for {symmetry.name}",
            fix="Use method='activation', or constrained=False.",
        )
    permutations = {
        g: weight_matching(graph, state, other, involution=constrained, seed=seed) for g, other in enumerate(moved, 1)
    }
    return Matching(symmetry, graph, {**permutations, 0: still}, {}, {}, method, constrained, shape)


def _matchable(
    model: nn.Module, symmetry: Symmetry, shape: tuple[int, ...], graph: ChannelGraph | None, check: bool
) -> ChannelGraph:
    """The channel graph, with channels that the symmetry can permute."""
    symmetry.require_finite(caller="match")
    symmetry.require_plain_output(caller="match")
    graph = graph or channel_graph(model, shape)
    if not graph.groups:
        raise InputError(
            "match",
            expected="a network with hidden channels that can be permuted",
            got=f"none; {graph.untraced[0].where if graph.untraced else 'it has no hidden layer'}",
        )
    if check:
        require_preserved(model, graph, shape)
    return graph


def _states(
    model: nn.Module, symmetry: Symmetry, graph: ChannelGraph, shape: tuple[int, ...]
) -> list[Mapping[str, Tensor]]:
    """The weights of the network, moved by each element of the symmetry."""
    state = full_state(model)
    with torch.no_grad():
        return [state, *(transformed_state(graph, state, symmetry, g, shape) for g in range(1, symmetry.order))]


@dataclass(frozen=True)
class Correlations:
    """The correlations of the channels of a network with those of its moved copies: what a matching is made from.

    Attributes:
        symmetry: the symmetry.
        graph: the channel graph of the network.
        tables: for each group of channels, the table of each element but the identity.
        input_shape: the shape of one image.
    """

    symmetry: Symmetry
    graph: ChannelGraph
    tables: Mapping[str, Sequence[Table]]
    input_shape: tuple[int, ...]

    def matching(self, *, constrained: bool) -> Matching:
        """The best permutations, as :func:`match` finds them."""
        return _from_correlations(self.symmetry, self.graph, self.tables, constrained, self.input_shape)


def channel_correlations(
    model: nn.Module,
    data: Images,
    symmetry: Symmetry,
    shape: tuple[int, ...],
    *,
    graph: ChannelGraph | None = None,
    every: bool = True,
    check: bool = True,
    **options: Any,
) -> Correlations:
    """The correlations from one pass over the images; ``options`` go to :func:`batches`."""
    graph = _matchable(model, symmetry, shape, graph, check)
    states = _states(model, symmetry, graph, shape)
    with measuring(model) as device:
        images = (batch[0] for batch in batches(data, caller="match", **options))
        tables = correlate(graph, states, images, fit=Fitting("match", device), every=every)
    return Correlations(symmetry, graph, tables, shape)


def _from_correlations(
    symmetry: Symmetry,
    graph: ChannelGraph,
    crosses: Mapping[str, Sequence[Table]],
    constrained: bool,
    shape: tuple[int, ...],
) -> Matching:
    elements = range(1, symmetry.order)
    permutations: dict[int, dict[str, Tensor]] = {g: {} for g in range(symmetry.order)}
    correlations: dict[int, dict[str, Tensor]] = {g: {} for g in elements}
    dead: dict[str, Tensor] = {}
    for group in graph.groups:
        if group.name in crosses:
            dead[group.name] = crosses[group.name][0][1].cpu()
        if group.heads is not None:
            continue  # matched with its heads
        if graph.inside(group.name):
            chosen = _matched_heads(symmetry, graph, group, crosses, constrained)
        else:
            tables = {g: crosses[group.name][g - 1] for g in elements}
            chosen = {g: {group.name: p} for g, p in _matched(symmetry, group, tables, constrained).items()}
        for g, matched in chosen.items():
            permutations[g].update(matched)
    for g in elements:
        for name, tables_of in crosses.items():
            correlations[g][name] = tables_of[g - 1][0].cpu().gather(1, permutations[g][name][:, None])[:, 0]
        for group in graph.groups:
            if group.name not in crosses:  # heads that are observed by their channels only
                dead[group.name] = torch.zeros(group.size, dtype=torch.bool)
                parts = [correlations[g][i.name].view(group.size, -1) for i in graph.inside(group.name)]
                correlations[g][group.name] = torch.cat(parts, 1).mean(1)
    return Matching(symmetry, graph, permutations, correlations, dead, "activation", constrained, shape)


def _matched(
    symmetry: Symmetry, group: ChannelGroup, tables: Mapping[int, Table], constrained: bool
) -> dict[int, Tensor]:
    if not constrained:
        chosen = {g: best_permutation(t[0], dead=(t[1], t[2])) for g, t in tables.items()}
        return {0: torch.arange(group.size), **chosen}
    # A channel that is dead on these images may have a live partner on the moved images, so only channels that are dead
    # in all networks are frozen.
    frozen = next(iter(tables.values()))[1].cpu().clone()
    for _, _, other in tables.values():
        frozen &= other.cpu()
    whole = symmetry.require_finite(caller="match")
    return best_representation(whole, {g: t[0] for g, t in tables.items()}, dead=frozen)


def _matched_heads(
    symmetry: Symmetry,
    graph: ChannelGraph,
    heads: ChannelGroup,
    crosses: Mapping[str, Sequence[Table]],
    constrained: bool,
) -> dict[int, dict[str, Tensor]]:
    scores = {
        g: head_scores(graph, heads, {n: t[g - 1][0] for n, t in crosses.items()}) for g in range(1, symmetry.order)
    }
    if constrained:
        chosen = best_head_representation(symmetry.require_finite(caller="match"), heads.size, scores)
    else:
        chosen = {g: best_heads(heads.size, s) for g, s in scores.items()}
        chosen[0] = {n: torch.arange(len(p)) for n, p in chosen[1].items()}
    return {g: {n or heads.name: p for n, p in matched.items()} for g, matched in chosen.items()}


def head_scores(graph: ChannelGraph, heads: ChannelGroup, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The scores of heads, if they are observed themselves, and of the channels inside them."""
    scores = {HEADS: tables[heads.name]} if heads.name in tables else {}
    return {**scores, **{g.name: tables[g.name] for g in graph.inside(heads.name)}}


def correlate(
    graph: ChannelGraph,
    states: Sequence[Mapping[str, Tensor]],
    images: Iterable[Tensor],
    *,
    fit: Fitting | None = None,
    every: bool = True,
) -> dict[str, list[Table]]:
    """Correlations of the channels of the first network with those of each other network, in one pass over the images.

    For each group of channels and each other network: the correlations K, and which channels are dead in the first and
    in the other.
    """
    sites = chosen_sites(graph, every=every)
    keys_of_node: dict[str, list[tuple[str, int]]] = {}
    for name, chosen in sites.items():
        for k, site in enumerate(chosen):
            keys_of_node.setdefault(site.node, []).append((name, k))
    moments: dict[tuple[str, int], tuple[list[Moments], list[CrossMoments]]] = {}

    def run(x: Tensor) -> None:
        seen = []
        for node, values in lockstep(graph, states, x, set(keys_of_node)):
            for key in keys_of_node.get(node, ()):
                rows = [samples(v, sites[key[0]][key[1]]) for v in values]
                if key in moments:
                    single, cross = moments[key]
                else:
                    single = [Moments(r) for r in rows]
                    cross = [CrossMoments(single[0], m) for m in single[1:]]
                shifted = [m.shifted(r) for m, r in zip(single, rows, strict=True)]
                sums = [(r.sum(1), torch.linalg.vector_norm(r, dim=1)) for r in shifted]
                products = [shifted[0] @ r.T for r in shifted[1:]]
                seen.append((key, single, cross, shifted[0].shape[1], sums, products))
        # Add everything at the end: if memory runs out halfway and the batch is tried again, no image counts twice.
        for key, single, cross, count, sums, products in seen:
            moments[key] = single, cross
            for m, (total, norm) in zip(single, sums, strict=True):
                m.add(count, total, norm)
            for c, product in zip(cross, products, strict=True):
                c.add(product)

    fitting = fit or Fitting("match")
    for x in images:
        fitting(run, x)
    correlations: dict[str, list[Table]] = {}
    for name, chosen in sites.items():
        parts = [moments[name, k] for k in range(len(chosen))]
        correlations[name] = [
            (
                torch.stack([p[1][b].correlation() for p in parts]).mean(0),
                torch.stack([p[0][0].dead for p in parts]).all(0),
                torch.stack([p[0][b + 1].dead for p in parts]).all(0),
            )
            for b in range(len(states) - 1)
        ]
    return correlations


@checked
def match_networks(
    first: nn.Module,
    second: nn.Module,
    data: Images | None,
    *,
    method: Method = "activation",
    graph: ChannelGraph | None = None,
    input_shape: tuple[int, ...] | None = None,
    batch_size: Positive = 128,
    max_images: Positive | None = None,
    seed: int = 0,
) -> tuple[ChannelGraph, dict[str, Tensor]]:
    """Permutations of the channels of ``second`` that bring it closest to ``first``.

    Args:
        first: a network.
        second: a network of the same architecture.
        data: images, or batches of images; not needed for weight matching if ``input_shape`` is given.
        method: as for :func:`match`.
        graph: the channel graph, if it is already computed.
        input_shape: the shape of one image; by default taken from the data.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.
        seed: the seed for the order in which weight matching visits the groups.

    Returns:
        The channel graph and the permutations, ready for :func:`permute`.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    >>> graph, permutations = match_networks(net, net, torch.randn(20, 1, 6, 6))
    >>> permutations["0"]
    tensor([0, 1, 2, 3])
    """
    shape = input_shape or _shape(data, "match_networks")
    graph = graph or channel_graph(first, shape)
    states = [full_state(first), full_state(second)]
    different = [n for n in states[0] if n not in states[1] or states[0][n].shape != states[1][n].shape]
    if different or len(states[0]) != len(states[1]):
        raise InputError(
            "match_networks",
            expected="two networks of the same architecture",
            got=f"a difference at {different[0] if different else 'parameters of the second'}",
        )
    with torch.no_grad():
        if method == "identity":
            return graph, {g.name: torch.arange(g.size) for g in graph.groups}
        if method == "weight":
            return graph, weight_matching(graph, states[0], states[1], seed=seed)
        if data is None:
            raise InputError("match_networks", expected="images, for activation matching", got="none")
        device = next(iter(states[0].values())).device
        images = (b[0] for b in batches(data, caller="match_networks", batch_size=batch_size, max_images=max_images))
        crosses = correlate(graph, states, images, fit=Fitting("match_networks", device))
    permutations: dict[str, Tensor] = {}
    for group in graph.groups:
        if graph.inside(group.name):
            matched = best_heads(group.size, head_scores(graph, group, {n: t[0][0] for n, t in crosses.items()}))
            permutations.update({n or group.name: p for n, p in matched.items()})
        elif group.heads is None:
            table, *dead = crosses[group.name][0]
            permutations[group.name] = best_permutation(table, dead=(dead[0], dead[1]))
    return graph, permutations


def _shape(data: Images | None, caller: str) -> tuple[int, ...]:
    if isinstance(data, Tensor):
        return tuple(data.shape[1:])
    if data is None:
        raise InputError(caller, expected="data, or input_shape=(C, H, W)", got="neither")
    return tuple(next(iter(batches(data, caller=caller)))[0].shape[1:])
