"""Equivariant networks stored by their free parameters only, so that training keeps them equivariant."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..._checked import checked
from ..graph._channel_graph import ChannelGraph, channel_graph
from ..graph._permute import full_state, permuted_state, with_state
from ..graph._transform import transformed_state
from ..matching._match import Matching


def graph_of(model: nn.Module, matching: Matching) -> ChannelGraph:
    """The channel graph of a network, with the same groups of channels as in a matching.

    It is the graph of the matching, unless REPAIR added biases to layers without one; the groups keep their names.
    """
    known = matching.graph.axes
    if all(name in known for name, p in model.named_parameters()):
        return matching.graph
    return channel_graph(model, matching.input_shape)


def parameter_orbits(model: nn.Module, matching: Matching) -> dict[str, Tensor]:
    """For each parameter, the index of the orbit of every entry under the group.

    In an equivariant network the entries of an orbit are equal: each orbit is one free parameter.
    """
    return orbits_of({name: p.shape for name, p in model.named_parameters()}, graph_of(model, matching), matching)


def orbits_of(shapes: Mapping[str, Sequence[int]], graph: ChannelGraph, matching: Matching) -> dict[str, Tensor]:
    """For tensors of a network, given by name and shape, the index of the orbit of every entry."""
    symmetry = matching.symmetry
    # Number all entries, move the numbers as the weights move, and label each orbit by its smallest number.
    state = {name: torch.arange(math.prod(shape)).reshape(tuple(shape)) for name, shape in shapes.items()}
    smallest = dict(state)
    for g in range(1, symmetry.order):
        moved = transformed_state(graph, state, symmetry, g, matching.input_shape)
        moved = permuted_state(graph, moved, matching.permutations[g])
        smallest = {name: torch.minimum(smallest[name], moved[name]) for name in state}
    return {name: labels.unique(return_inverse=True)[1] for name, labels in smallest.items()}


def orbit_means(value: Tensor, orbits: Tensor) -> Tensor:
    """The mean over each orbit."""
    index = orbits.flatten().to(value.device)
    count = torch.bincount(index).to(value)
    return torch.zeros_like(count).index_add(0, index, value.flatten()) / count


def projected(network: nn.Module, matching: Matching) -> nn.Module:
    """A copy of a network whose parameters and buffers are averaged over the group, with matched channels.

    W ↦ (1/|G|) Σ_g P_g(out) τ_g(W) P_g(in)ᵀ is the orthogonal projection onto the layerwise equivariant networks, if
    the permutations form a representation. The average over the group is the mean over each orbit of entries. Taken
    once per orbit, all its entries are equal to the last bit.
    """
    state = full_state(network)
    floating = {name: value for name, value in state.items() if value.is_floating_point()}
    orbits = orbits_of({n: v.shape for n, v in floating.items()}, graph_of(network, matching), matching)
    return with_state(network, {**state, **{n: tied(v, orbits[n]) for n, v in floating.items()}})


def tied(value: Tensor, orbits: Tensor) -> Tensor:
    """The nearest tensor that is constant on orbits; averaged in float64."""
    return orbit_means(value.double(), orbits)[orbits.to(value.device)].to(value.dtype)


class Tied(nn.Module):
    """A tensor made from free parameters, each of them repeated along one orbit."""

    index: Tensor

    def __init__(self, orbits: Tensor) -> None:
        super().__init__()
        self.register_buffer("index", orbits, persistent=False)

    def forward(self, free: Tensor) -> Tensor:
        """All entries from the free parameters."""
        return free[self.index]

    def right_inverse(self, full: Tensor) -> Tensor:
        """The means over orbits: the free parameters of the nearest equivariant tensor."""
        return orbit_means(full, self.index)


@checked
def tie(model: nn.Module, matching: Matching) -> nn.Module:
    """A copy of a symmetrized network that stores only its free parameters, about 1/|G| as many.

    It is a group-convolutional network in the basis of the matching. Training changes only the free parameters, so it
    stays exactly equivariant, except for the running statistics of batch norms: symmetrize again after training.
    ``torch.nn.utils.parametrize.remove_parametrizations`` restores plain parameters.

    Args:
        model: a symmetrized network; any other network of the same architecture is projected.
        matching: the constrained matching it was made with.

    >>> from intertwine.measure import symmetrize
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    >>> twin = symmetrize(net, torch.randn(20, 1, 6, 6), "hflip", repair=False)
    >>> sum(p.numel() for p in tie(twin.model, twin.matching).parameters()) == twin.free_parameters
    True
    """
    twin = copy.deepcopy(model)
    for name, orbits in parameter_orbits(model, matching).items():
        path, _, attribute = name.rpartition(".")
        module = twin.get_submodule(path)
        # unsafe=True, because the free parameters have another shape than the tensor.
        parametrize.register_parametrization(module, attribute, Tied(orbits.to(_device(model))), unsafe=True)
    return twin


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
