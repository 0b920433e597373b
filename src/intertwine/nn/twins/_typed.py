"""Typed networks from symmetrized plain ones."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked, describe
from ...errors import InputError
from ...groups import Representation, direct_sum
from ...spaces import Grid2d
from ..networks._sequential import Sequential
from ._dataflow import Weights
from ._orbit_types import finite, orbit_type
from ._translate import Translator

if TYPE_CHECKING:
    from ...measure import ChannelGraph, Symmetrized, Symmetry

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}
"""The largest allowed distance of a twin from equivariance; it was averaged in float64 and then rounded."""


@checked
def typed(twin: Symmetrized) -> Sequential:
    """The result of :func:`intertwine.measure.symmetrize` as a network of layers with field types.

    The matched permutations of a group of channels are a representation of the symmetry group. Its orbits become
    fields: trivial for a fixed channel, regular for |G| channels, and quotient otherwise. Convolutions, linear maps,
    batch norms, pointwise functions and pools become layers between these types, sums become :class:`Residual`,
    concatenations :class:`Concat`. A linear map of a flattened map becomes a convolution with a filter as large as the
    map. Operations without a counterpart are wrapped in :class:`Plain`, with tied weights and fixed running statistics,
    after a check that they commute.

    The network computes what the twin computes, on channels in another order. Its weights are the twin's free
    parameters, about 1/|G| of all, so training keeps it equivariant. Dropout drops whole fields. If the twin has a
    linear map of a flattened map, the network also takes larger images and averages over the positions of the filter.

    Args:
        twin: a symmetrized network.

    >>> from torch import nn
    >>> from intertwine.measure import symmetrize
    >>> from intertwine.testing import assert_equivariant
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    >>> images = torch.randn(50, 1, 6, 6)
    >>> twin = symmetrize(net, images, "hflip")
    >>> network = typed(twin)
    >>> network[0].in_type, network[-1].out_type
    (Field(trivial on Grid2d(D1)), Field(2 trivial on Grid2d(D1)))
    >>> torch.allclose(network(images), twin.model(images), atol=1e-5)
    True
    >>> sum(p.numel() for p in network.parameters()) == twin.free_parameters
    True
    >>> assert_equivariant(network, size=6) < 1e-10
    True
    """
    # Importing measure takes a tenth of a second, which users of the layers alone should not pay.
    from ...measure import Symmetrized, channel_graph, permute

    if not isinstance(twin, Symmetrized):
        raise InputError("typed", expected="what intertwine.measure.symmetrize returned", got=describe(twin))
    matching, symmetry, model = twin.matching, twin.matching.symmetry, twin.model
    graph = channel_graph(model, matching.input_shape)
    if graph.groups != matching.graph.groups:
        raise InputError(
            "typed",
            expected="a twin with the channels of the network that was matched",
            got="another network",
        )
    plane = _plane(symmetry)
    types: dict[str, Representation] = {}
    orders: dict[str, Tensor] = {}
    for group in graph.groups:
        if group.heads is not None or graph.inside(group.name):
            # Heads stay in order, so that the channels of a head stay together; no layer outside attention sees them.
            moved = torch.stack([matching.permutations[g][group.name].cpu() for g in range(symmetry.order)])
            matrices = torch.eye(group.size, dtype=torch.float64)[moved]
            orders[group.name] = torch.arange(group.size)
            types[group.name] = finite(plane).representation(matrices, name="heads")
            continue
        # h(τ_g x)_i = τ_g h(x)_{p[i]}, so element g sends channel p[i] to i.
        table = torch.stack([matching.permutations[g][group.name].cpu().argsort() for g in range(symmetry.order)])
        orders[group.name], types[group.name] = orbit_type(finite(plane), table)
    ordered = permute(model, orders, graph=graph).cpu()
    example = next(iter(model.parameters()))
    tolerance = TOLERANCES.get(example.dtype, 1e-3)
    with torch.random.fork_rng(devices=[]):  # layers draw initial weights, which are replaced below
        network = Translator(
            graph,
            types,
            plane,
            _image(plane, symmetry, matching.input_shape[0]),
            _weights(ordered, twin, graph, orders),
            tolerance=tolerance,
        ).network()
    _require_same_output(network, model, matching.input_shape, tolerance)
    return network.to(example.device, example.dtype).eval()


def _weights(model: torch_nn.Module, twin: Symmetrized, graph: ChannelGraph, orders: dict[str, Tensor]) -> Weights:
    """The state of the network with ordered channels, and the orbits of its entries."""
    from ...measure import tie

    matching = twin.matching
    permutations = {
        g: {name: orders[name].argsort()[p.cpu()[orders[name]]] for name, p in by_group.items()}
        for g, by_group in matching.permutations.items()
    }
    tied = tie(model, replace(matching, graph=graph, permutations=permutations))
    orbits: dict[str, tuple[Tensor, Tensor]] = {}
    for name, _ in model.named_parameters():
        path, _, attribute = name.rpartition(".")
        part: Any = tied.get_submodule(path).parametrizations
        orbits[name] = part[attribute].original.detach(), part[attribute][0].index
    state = dict([*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)])
    return Weights({**{n: v.detach() for n, v in state.items()}, **_on_cpu(graph.constants)}, orbits)


def _on_cpu(constants: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in constants.items() if isinstance(value, Tensor)}


def _plane(symmetry: Symmetry) -> Grid2d:
    """The plane that the symmetry acts on: its own, or one with a group that acts like its maps."""
    space = getattr(symmetry.action, "space", None)
    if isinstance(space, Grid2d):
        return space
    group = symmetry.require_finite(caller="typed")
    moves = [symmetry.require_axis_move(g, caller="typed") for g in range(symmetry.order)]
    index = torch.zeros(len(moves), 2, 2, dtype=torch.float64)
    for g, move in enumerate(moves):
        for row, (column, flip) in enumerate(zip(move.order, move.flips, strict=True)):
            index[g, row, column] = -1.0 if flip else 1.0
    to_point = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)  # (x, y) of (row, column)
    return Grid2d(group, action=group.representation(to_point @ index @ to_point.T, name=symmetry.name))


def _image(plane: Grid2d, symmetry: Symmetry, channels: int) -> Representation:
    """The representation on the channels of images: trivial, unless the symmetry permutes colors."""
    orders = [symmetry.channel_order(g, channels) or tuple(range(channels)) for g in range(symmetry.order)]
    group = finite(plane)
    if all(order == tuple(range(channels)) for order in orders):
        return direct_sum([group.trivial] * channels)
    return group.representation(torch.eye(channels, dtype=torch.float64)[torch.tensor(orders)], name="colors")


def _require_same_output(network: Sequential, model: torch_nn.Module, shape: tuple[int, ...], tolerance: float) -> None:
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        ours = deepcopy(network).cpu().double().eval()(x)
        theirs = deepcopy(model).cpu().double().eval()(x)
    error = float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-300))
    if not error <= 10 * tolerance:
        raise InputError(
            "typed",
            expected="layers that compute what the twin computes",
            got=f"outputs that differ by {error:.1e} of the largest",
            fix="In-place operations (inplace=True) on tensors that are used again can cause this.",
        )
