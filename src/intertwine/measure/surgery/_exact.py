"""Is a network exactly symmetric, and if not, which layer breaks the symmetry?"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ...errors import NumericalError
from .._batches import as_tensor
from .._symmetry import Symmetry
from ..graph._axes import Label
from ..graph._channel_graph import ChannelGraph, channel_graph, module_of
from ..graph._permute import Permutations, axis_index
from ..graph._transform import moved_tensor
from ..matching._match import Matching
from ..matching._moments import lockstep
from ..metrics import equivariance_error, invariance_error
from ._tied import graph_of
from ._windows import require_windows

TOLERANCE = 1e-9
"""The largest relative error in float64 of a network that counts as exact; rounding alone gives about 1e-14."""


def require_exact(model: nn.Module, images: Tensor, matching: Matching, *, caller: str) -> float:
    """Measure the error of a symmetrized network in float64; raise an error that names the layer if it is not exact."""
    twin = copy.deepcopy(model).cpu().double().eval()
    x = images[:8].cpu().double()
    error = symmetry_error(twin, x, matching.symmetry)
    if not error <= TOLERANCE:
        graph = graph_of(model, matching)
        layer, node = breaking_layer(twin, x, matching)
        require_windows(twin, tuple(x.shape[1:]), matching.symmetry, layer)  # type: ignore[arg-type]
        causes = [u.where for u in graph.untraced] + list(graph.lost)
        raise NumericalError(
            caller,
            expected=f"a network that commutes with {matching.symmetry.name}",
            got=f"an error of {error:.1e}, first in {layer or f'the network itself ({node})'}"
            + (f"; not followed: {'; '.join(causes)}" if causes else ""),
            fix="Write this part with layers that can commute: convolutions, linear maps, norms, pooling, attention. "
            "GroupAverage, the average over the group at run time, is symmetric for every network.",
        )
    return error


def symmetry_error(model: nn.Module, x: Tensor, symmetry: Symmetry) -> float:
    """The mean equivariance error for outputs that are images, the mean invariance error for all others."""
    with torch.no_grad():
        dense = as_tensor(model(x[:1]), caller="symmetrize").dim() == 4
    measure = equivariance_error if dense else invariance_error
    return measure(model, x, symmetry).mean


def breaking_layer(model: nn.Module, x: Tensor, matching: Matching, *, tolerance: float = 1e-6) -> tuple[str, str]:
    """The first value that does not move as it should, h(τ_g x) = P_g τ_g h(x): its module and its name."""
    x = x[:2]  # as traced: where windows or heads join the batch, its axis is described for two images
    # Traced again, because the program may contain the precision in which the network was traced before.
    graph, symmetry = channel_graph(model, matching.input_shape), matching.symmetry
    state = {name: v.detach() for name, v in [*model.named_parameters(), *model.named_buffers()]}
    nodes = {n.name: n for n in graph.program.graph.nodes}
    with torch.no_grad():
        before = {
            name: values[0].clone()
            for name, values in _run(graph, state, x)
            if name in graph.labels and _is_map(values[0]) and _is_described(graph, graph.labels[name])
        }
        for g in range(1, symmetry.order):
            move = symmetry.require_axis_move(g, caller="symmetrize")
            order = torch.tensor(symmetry.channel_order(g, x.shape[1]))
            for name, values in _run(graph, state, symmetry.apply(g, x)):
                if name not in before or name not in graph.labels:  # the output has no label
                    continue
                label = graph.labels[name]
                expected = _permuted(
                    moved_tensor(name, before[name], label, move, order), graph, label, matching.permutations[g]
                )
                if float((values[0] - expected).norm()) > tolerance * float(expected.norm()):
                    return module_of(nodes[name]), name
    return "", "its output"


def _run(graph: ChannelGraph, state: Mapping[str, Tensor], x: Tensor):  # type: ignore[no-untyped-def]
    return lockstep(graph, [state], x, set(graph.labels))


def _is_map(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_described(graph: ChannelGraph, label: Label) -> bool:
    """Whether each axis moves on its own: not the channels inside heads, where the heads are another axis."""
    for axis in label:
        for segment in axis:
            atoms = {f.atom for f in segment}
            if any(f.kind in "sx" or (f.atom in graph.outers and graph.outers[f.atom] not in atoms) for f in segment):
                return False
    return True


def _permuted(value: Tensor, graph: ChannelGraph, label: Label, permutations: Permutations) -> Tensor:
    for k, axis in enumerate(label):
        index = axis_index(graph, axis, permutations)
        if index is not None:
            value = value.index_select(k, index)
    return value
