"""The nearest exactly equivariant network."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Images
from .._symmetry import Symmetry, SymmetryLike, parse_symmetry
from ..graph._channel_graph import ChannelGraph
from ..graph._permute import full_state, permuted_state, with_state
from ..graph._transform import transformed_state
from ..matching._match import Matching, match
from ._barrier import moved_and_matched
from ._merge import batch_norms, reset_batch_norms
from ._orbit_average import OrbitAverage
from ._repair import repair as repaired
from ._stride import StrideReport, stride_artifacts
from ._tied import graph_of, parameter_orbits


@checked
@dataclass
class Symmetrized:
    """An exactly equivariant network and how it was made.

    Attributes:
        model: the network, with the same architecture.
        fields: for each group of channels, the number of orbits of each size: size 1 is an invariant channel, size |G|
            a regular field.
        strides: the layers that cannot commute with the symmetry at this input size. If there are any, the network is
            equivariant except for them.
        distance: how far each parameter moved, relative to its norm.
        free_parameters: the number of free parameters, about 1/|G| of all; :func:`tie` stores only these.
        matching: the matching that was used.
    """

    model: nn.Module
    fields: dict[str, dict[int, int]]
    strides: StrideReport
    distance: dict[str, float]
    free_parameters: int
    matching: Matching = field(repr=False)


def averaged_state(
    graph: ChannelGraph,
    state: Mapping[str, Tensor],
    symmetry: Symmetry,
    permutations: Mapping[int, Mapping[str, Tensor]],
    input_shape: tuple[int, ...],
) -> dict[str, Tensor]:
    """The average of the moved and permuted parameters over the group: the projection onto equivariant parameters.

    W ↦ (1/|G|) Σ_g P_g(out) τ_g(W) P_g(in)ᵀ. If the permutations form a representation, the result is a fixed point
    of every term, and the network is layerwise equivariant. Computed in float64.
    """
    total = {n: torch.zeros_like(v, dtype=torch.float64) for n, v in state.items() if v.is_floating_point()}
    for g in range(symmetry.order):
        moved = transformed_state(graph, state, symmetry, g, input_shape) if g else dict(state)
        moved = permuted_state(graph, moved, permutations[g])
        for name, value in total.items():
            value += moved[name].double() / symmetry.order
    return {n: total[n].to(v.dtype) if n in total else v.clone() for n, v in state.items()}


def projected(network: nn.Module, matching: Matching) -> nn.Module:
    """A copy of a network whose parameters and buffers are averaged over the group, with matched channels."""
    graph = graph_of(network, matching)
    with torch.no_grad():
        state = averaged_state(
            graph, full_state(network), matching.symmetry, matching.permutations, matching.input_shape
        )
    return with_state(network, state)


@checked
def symmetrize(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike,
    *,
    matching: Matching | None = None,
    repair: bool = True,
    stencils: bool = False,
    batch_size: Positive = 200,
    max_images: Positive | None = None,
) -> Symmetrized:
    """The exactly equivariant network nearest to a given network, for the matched representation.

    The channels are matched with those of the networks with moved filters, by permutations that represent the group.
    Then all parameters are averaged over the group in the matched basis. This is the orthogonal projection onto the
    networks that are layerwise equivariant under these permutations, so no such network is nearer. Logits become
    invariant; outputs that are images become equivariant. Averaging destroys statistics; they are restored (by
    recomputing batch norms, or by REPAIR) and averaged again, which keeps the result exact.

    If a stride does not fit the input size, no choice of filters commutes with the symmetry; such layers are listed in
    ``strides``. With ``stencils`` they are replaced by their average over the group, which commutes at every size and
    costs |G| times as much in these layers.

    Args:
        model: any network that can be traced.
        data: images distributed as in training.
        symmetry: a name, a space with its group, or a :class:`Symmetry`; at most 64 elements, which must move pixels by
            flips and quarter turns.
        matching: a constrained matching, if it is already computed.
        repair: whether to restore the statistics.
        stencils: whether to replace the layers whose stride breaks the symmetry.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    >>> x = torch.randn(50, 1, 6, 6)
    >>> twin = symmetrize(net, x, "hflip").model
    >>> torch.allclose(twin(x.flip(3)), twin(x), atol=1e-6), torch.allclose(net(x.flip(3)), net(x), atol=1e-6)
    (True, False)
    """
    symmetry = parse_symmetry(symmetry)
    matching = matching or match(model, data, symmetry, constrained=True, batch_size=batch_size, max_images=max_images)
    if not matching.constrained:
        raise InputError(
            "symmetrize",
            expected="a matching that is a representation of the group",
            got="an unconstrained one",
            fix="Use match(..., constrained=True).",
        )
    shape = matching.input_shape
    strides = stride_artifacts(model, shape, symmetry)  # type: ignore[arg-type]

    before = full_state(model)
    out = projected(copy.deepcopy(model).eval(), matching)
    distance = {
        name: float(
            (p.detach().double() - before[name].double()).norm() / before[name].double().norm().clamp_min(1e-300)
        )
        for name, p in out.named_parameters()
    }
    if repair:
        if batch_norms(out):
            out = projected(reset_batch_norms(out, data, batch_size=batch_size, max_images=max_images), matching)
        else:
            ends = [model] + [moved_and_matched(model, matching, g) for g in range(1, symmetry.order)]
            out = projected(repaired(out, ends, data, batch_size=batch_size, max_images=max_images), matching)
    # Counted here, because REPAIR may have added biases.
    free = sum(int(orbits.max()) + 1 for orbits in parameter_orbits(out, matching).values())
    if stencils and strides:
        _with_stencils(out, strides, symmetry)
    return Symmetrized(out, field_types(matching), strides, distance, free, matching)


@checked
def field_types(matching: Matching) -> dict[str, dict[int, int]]:
    """For each group of channels, the number of orbits of each size under the matched permutations."""
    fields = {}
    for group in matching.graph.groups:
        images = torch.stack([p[group.name] for p in matching.permutations.values()])
        sizes = torch.tensor([len(images[:, i].unique()) for i in range(group.size)])
        counts = Counter(sizes.tolist())
        fields[group.name] = {size: count // size for size, count in sorted(counts.items())}
    return fields


def _with_stencils(model: nn.Module, strides: StrideReport, symmetry: Symmetry) -> None:
    moves = [symmetry.require_axis_move(g, caller="symmetrize") for g in range(symmetry.order)]
    names = {a.layer for a in strides.artifacts}
    for name in names:
        module = model.get_submodule(name) if name else model
        if not name or any(True for _ in module.children()):
            raise InputError(
                "symmetrize",
                expected="strided layers that are separate modules",
                got=f"an operation inside {name or 'the network'}",
                fix=f"Use the input size {strides.better}, or write the shortcut as a module.",
            )
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, OrbitAverage(module, moves))
