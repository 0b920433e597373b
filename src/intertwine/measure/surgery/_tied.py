"""An equivariant network stored by its free parameters only, so that training keeps it equivariant."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..._checked import checked
from ..graph._channel_graph import ChannelGraph, channel_graph
from ..graph._permute import permuted_state
from ..graph._transform import transformed_state
from ..matching._match import Matching


def graph_of(model: nn.Module, matching: Matching) -> ChannelGraph:
    """The channel graph of a network with the groups of channels of a matching.

    It is the matching's own unless REPAIR gave a bias to layers that had none; the groups keep their names.
    """
    known = matching.graph.axes
    if all(name in known for name, p in model.named_parameters()):
        return matching.graph
    return channel_graph(model, matching.input_shape)


def parameter_orbits(model: nn.Module, matching: Matching) -> dict[str, Tensor]:
    """For each parameter, the number of the orbit of every entry under the group, numbered from 0.

    Entries of one orbit are equal in an equivariant network: one free number each.
    """
    symmetry, graph = matching.symmetry, graph_of(model, matching)
    state = {name: torch.arange(p.numel()).reshape(p.shape) for name, p in model.named_parameters()}
    smallest = dict(state)
    for g in range(1, symmetry.order):
        moved = transformed_state(graph, state, symmetry, g, matching.input_shape)
        moved = permuted_state(graph, moved, matching.permutations[g])
        smallest = {name: torch.minimum(smallest[name], moved[name]) for name in state}
    return {name: labels.unique(return_inverse=True)[1] for name, labels in smallest.items()}


class Tied(nn.Module):
    """A tensor made from free parameters, each at the places of one orbit."""

    index: Tensor

    def __init__(self, orbits: Tensor) -> None:
        super().__init__()
        self.register_buffer("index", orbits, persistent=False)

    def forward(self, free: Tensor) -> Tensor:
        """All entries from the free parameters."""
        return free[self.index]

    def right_inverse(self, full: Tensor) -> Tensor:
        """The means over orbits: the free parameters of the nearest equivariant tensor."""
        index = self.index.flatten()
        count = torch.bincount(index).to(full)
        return torch.zeros_like(count).index_add(0, index, full.flatten()) / count


@checked
def tie(model: nn.Module, matching: Matching) -> nn.Module:
    """A copy of a symmetrized network whose parameters are the free parameters: about 1/|G| as many.

    It is a group-convolutional network in the basis of the matching: training changes the free parameters only, so it
    stays exactly equivariant (running statistics of batch norms excepted: symmetrize once more after training).
    ``torch.nn.utils.parametrize.remove_parametrizations`` gives plain parameters again.

    Args:
        model: a symmetrized network; any other of the same architecture is projected.
        matching: the constrained matching it was made with.
    """
    twin = copy.deepcopy(model)
    for name, orbits in parameter_orbits(model, matching).items():
        path, _, attribute = name.rpartition(".")
        module = twin.get_submodule(path)
        # The free parameters have another shape than the tensor, which the careful mode does not allow.
        parametrize.register_parametrization(module, attribute, Tied(orbits.to(_device(model))), unsafe=True)
    return twin


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
