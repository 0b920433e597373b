"""The nearest exactly equivariant network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Images, batches
from .._symmetry import Symmetry, SymmetryLike, parse_symmetry
from ..graph._channel_graph import channel_graph
from ..graph._permute import full_state
from ..matching._match import Matching, match
from ._barrier import moved_and_matched
from ._exact import require_exact
from ._merge import batch_norms, reset_batch_norms
from ._repair import repair as repaired
from ._tied import parameter_orbits, projected
from ._windows import symmetric_windows


@checked
@dataclass
class Symmetrized:
    """An exactly equivariant network and how it was made.

    Attributes:
        model: the network.
        fields: for each group of channels, the number of orbits of each size: size 1 is an invariant channel, size |G|
            a regular field.
        windows: the layers that were replaced by convolutions and pools with larger windows, because their stride
            breaks the symmetry.
        distance: how far each parameter moved, relative to its norm.
        free_parameters: the number of free parameters, about 1/|G| of all; :func:`tie` stores only these.
        matching: how the group permutes the channels of the network.
        error: the error of the network under the symmetry, measured in float64.
    """

    model: nn.Module
    fields: dict[str, dict[int, int]]
    windows: tuple[str, ...]
    distance: dict[str, float]
    free_parameters: int
    matching: Matching = field(repr=False)
    error: float


@checked
def symmetrize(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike,
    *,
    matching: Matching | None = None,
    repair: bool = True,
    batch_size: Positive = 200,
    max_images: Positive | None = None,
) -> Symmetrized:
    """The exactly equivariant network nearest to a given network, for the matched representation.

    The channels are matched with those of the networks with moved filters, by permutations that represent the group.
    Then all parameters are averaged over the group in the matched basis. This is the orthogonal projection onto the
    networks that are layerwise equivariant under these permutations, so no such network is nearer. Logits become
    invariant; outputs that are images become equivariant. Averaging destroys statistics; they are restored (by
    recomputing batch norms, or by REPAIR) and averaged again, which keeps the result exact.

    If a stride does not fit the input size, no choice of filters commutes with the symmetry. Such layers become
    ordinary convolutions with larger windows: a 3 x 3 filter with stride 2 on an even width becomes 3 x 4, the average
    of both ways to place it. The result is measured in float64. If it is not exactly symmetric, an error names the
    layer that breaks the symmetry.

    Args:
        model: any network that can be traced.
        data: images distributed as in training.
        symmetry: a name, a space with its group, or a :class:`Symmetry`; at most 64 elements, which must move pixels by
            flips and quarter turns.
        matching: a constrained matching, if it is already computed.
        repair: whether to restore the statistics.
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
    options: dict[str, Any] = {"batch_size": batch_size, "max_images": max_images}
    first = next(iter(batches(data, caller="symmetrize", **options)))[0]
    base, windows = symmetric_windows(model, tuple(first.shape[1:]), symmetry)  # type: ignore[arg-type]
    matching = _matched(base, data, symmetry, matching, options, changed=bool(windows))
    out = projected(base, matching)
    distance = _distance(full_state(base), out)
    if repair:
        if batch_norms(out):
            out = projected(reset_batch_norms(out, data, **options), matching)
        else:
            ends = [base] + [moved_and_matched(base, matching, g) for g in range(1, symmetry.order)]
            out = projected(repaired(out, ends, data, **options), matching)
    # Counted here, because REPAIR may have added biases.
    free = sum(int(orbits.max()) + 1 for orbits in parameter_orbits(out, matching).values())
    error = require_exact(out, first, matching)
    return Symmetrized(out, field_types(matching), windows, distance, free, matching, error)


def _matched(
    base: nn.Module,
    data: Images,
    symmetry: Symmetry,
    matching: Matching | None,
    options: dict[str, Any],
    *,
    changed: bool,
) -> Matching:
    """The matching of the network with symmetric windows; the given one if it has the same channels."""
    if matching is None:
        return match(base, data, symmetry, constrained=True, **options)
    if not matching.constrained:
        raise InputError(
            "symmetrize",
            expected="a matching that is a representation of the group",
            got="an unconstrained one",
            fix="Use match(..., constrained=True).",
        )
    if not changed:
        return matching
    graph = channel_graph(base, matching.input_shape)
    if graph.groups == matching.graph.groups:
        return replace(matching, graph=graph)
    # A shortcut that is now a convolution has freed some channels.
    return match(base, data, symmetry, constrained=True, graph=graph, **options)


def _distance(before: dict[str, Tensor], out: nn.Module) -> dict[str, float]:
    return {
        name: float(
            (p.detach().double() - before[name].double()).norm() / before[name].double().norm().clamp_min(1e-300)
        )
        for name, p in out.named_parameters()
    }


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
