"""The nearest exactly equivariant network."""

from __future__ import annotations

import inspect
import math
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ..._files import replace_file
from ...errors import InputError
from .._batches import Images, batches
from .._symmetry import Symmetry, SymmetryLike, parse_symmetry
from ..graph._channel_graph import channel_graph
from ..graph._permute import full_state
from ..graph._transform import transformed_state
from ..matching._match import Matching, match
from ._barrier import moved_and_matched
from ._exact import require_exact
from ._layout import Layout, chosen_layouts, reduced_state
from ._merge import batch_norms, reset_batch_norms
from ._refit import IMAGES, Progress, refitted
from ._repair import repair as repaired
from ._resize import resized
from ._saved import KEY, windows_as_json
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
        original: the network that was given.
    """

    model: nn.Module
    fields: dict[str, dict[int, int]]
    windows: tuple[str, ...]
    distance: dict[str, float]
    free_parameters: int
    matching: Matching = field(repr=False)
    error: float
    original: nn.Module = field(repr=False)

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights as safetensors, with the sizes and layers that differ from the original architecture.

        ``load_network(spec, weights=path)`` and :func:`load_weights_into` give the original architecture these sizes.

        >>> import tempfile
        >>> from intertwine.measure import load_weights_into
        >>> net = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
        >>> x = torch.randn(20, 1, 6, 6)
        >>> twin = symmetrize(net, x, "hflip", width=1.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     twin.save(folder + "/twin.safetensors")
        ...     _ = load_weights_into(net, Path(folder, "twin.safetensors"))
        >>> torch.equal(net(x), twin.model(x))
        True
        """
        from safetensors.torch import save

        # Clone, because the format refuses tensors that share memory. An exported program keeps its weights under
        # "program."; they get back the names that they have in the network it came from.
        prefix = "program." if all(name.startswith("program.") for name in self.model.state_dict()) else ""
        state = {n.removeprefix(prefix): v.detach().cpu().clone() for n, v in self.model.state_dict().items()}
        replace_file(Path(path), save(state, {KEY: windows_as_json(self.model, self.windows)}))


@checked
def symmetrize(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike,
    *,
    width: float = 1.0,
    refit: bool = True,
    matching: Matching | None = None,
    repair: bool = True,
    ridge: float = 1e-3,
    batch_size: Positive = 200,
    max_images: Positive | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Symmetrized:
    """An exactly equivariant network that computes what a given network computes on average over the group.

    The channels are matched with those of the copies with moved filters, by permutations that represent the group, and
    matched channels are merged. Then the network is refitted to the average of the copies, layer by layer: each layer
    is a least-squares fit on the given images, whose labels are not needed. Logits become invariant; outputs that are
    images become equivariant. The architecture stays the same.

    With a ``width`` above 1, the orbits of channels that match worst are not merged, and the network grows. At |G|
    times the width, it computes exactly the average of its outputs over the group.

    If a stride does not fit the input size, no choice of filters commutes with the symmetry. Such layers become
    ordinary convolutions with larger windows: a 3 x 3 filter with stride 2 on an even width becomes 3 x 4, the average
    of both ways to place it. The result is measured in float64. If it is not exactly symmetric, an error names the
    layer that breaks the symmetry.

    Args:
        model: any network that can be traced.
        data: images distributed as in training, a few hundred or more. The refit uses up to 1000 of them, fewer if
            their feature maps take more than 4 GiB.
        symmetry: a name, a space with its group, or a :class:`Symmetry`; at most 64 elements, which must move pixels by
            flips and quarter turns.
        width: the number of channels relative to the given network, from 1 to |G|; one budget for all layers.
        refit: whether to refit the layers. Without it, matched weights are averaged: the orthogonal projection onto the
            networks that are equivariant under the matched permutations.
        matching: a constrained matching, if it is already computed.
        repair: without ``refit``, whether to restore the statistics that averaging destroys, by recomputing batch norms
            or by REPAIR.
        ridge: how strongly the refit holds on to the merged weights, relative to the variance of the features.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.
        seed: the seed of the places at which the refit samples feature maps.
        progress: called with the number of refitted layers, their total number, and the name of the next layer.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    >>> x = torch.randn(50, 1, 6, 6)
    >>> twin = symmetrize(net, x, "hflip").model
    >>> torch.allclose(twin(x.flip(3)), twin(x), atol=1e-6), torch.allclose(net(x.flip(3)), net(x), atol=1e-6)
    (True, False)
    """
    symmetry = parse_symmetry(symmetry)
    _require_options(symmetry, width, ridge, progress)
    options: dict[str, Any] = {"batch_size": batch_size, "max_images": max_images}
    first = next(iter(batches(data, caller="symmetrize", **options)))[0]
    base, windows = symmetric_windows(model, tuple(first.shape[1:]), symmetry)  # type: ignore[arg-type]
    matching = _matched(base, data, symmetry, matching, options, changed=bool(windows))
    layouts = chosen_layouts(matching, width)
    copies = _copies(base, matching)
    out, after = _reduced(base, matching, layouts, copies)
    require_exact(out, first, after, caller="symmetrize")  # here already: a refit would be in vain
    if refit and any(bool((layout.copy < 0).any()) for layout in layouts.values()):
        device = next(iter(copies[0].values())).device
        calibration = {**options, "max_images": min(IMAGES, max_images or IMAGES)}
        images = [b[0].to(device) for b in batches(data, caller="symmetrize", **calibration)]
        out = refitted(out, after, copies, matching.graph, layouts, images, ridge=ridge, seed=seed, progress=progress)
    elif repair and width == 1:
        out = projected(_repaired(out, base, matching, data, options), after)
    # Counted here, because REPAIR may have added biases.
    free = sum(int(orbits.max()) + 1 for orbits in parameter_orbits(out, after).values())
    error = require_exact(out, first, after, caller="symmetrize")
    moved = distance(full_state(model), out)
    return Symmetrized(out, field_types(after), windows, moved, free, after, error, model)


def _require_options(symmetry: Symmetry, width: float, ridge: float, progress: Progress | None) -> None:
    try:
        if progress is not None:
            inspect.signature(progress).bind(0, 1, "layer")
    except TypeError as error:
        raise InputError(
            "symmetrize", expected="progress as a function of three arguments: done, total, layer", got=str(error)
        ) from None
    if not (1 <= width <= symmetry.order and 0 <= ridge < math.inf):
        raise InputError(
            "symmetrize",
            expected=f"a width from 1 to {symmetry.order}, the order of {symmetry.name}, and ridge >= 0",
            got=f"width={width}, ridge={ridge}",
        )


def _copies(base: nn.Module, matching: Matching) -> list[dict[str, Tensor]]:
    """The state of the network with its filters moved by each element of the group."""
    state, shape = full_state(base), matching.input_shape
    with torch.no_grad():
        moved = [
            transformed_state(matching.graph, state, matching.symmetry, g, shape)
            for g in range(1, matching.symmetry.order)
        ]
    return [state, *moved]


def _reduced(
    base: nn.Module, matching: Matching, layouts: dict[str, Layout], copies: list[dict[str, Tensor]]
) -> tuple[nn.Module, Matching]:
    """The ensemble of all copies, reduced to the channels of the layouts; and how the group permutes them."""
    state = reduced_state(matching.graph, copies, layouts, matching.permutations)
    out = resized(base, state)
    graph = matching.graph
    if any(layouts[g.name].size != g.size for g in graph.groups):
        try:
            graph = channel_graph(out, matching.input_shape)
        except InputError as error:
            raise InputError(
                "symmetrize",
                expected="a network whose code does not contain numbers of channels",
                got=error.got,
                fix="Use width=1, or take the numbers from shapes.",
            ) from error
    permutations = {
        g: {name: layout.permutations[g] for name, layout in layouts.items()} for g in range(matching.symmetry.order)
    }
    after = replace(matching, graph=graph, permutations=permutations)
    return projected(out, after), after


def _repaired(out: nn.Module, base: nn.Module, matching: Matching, data: Images, options: dict[str, Any]) -> nn.Module:
    """The network with restored statistics: recomputed batch norms, or REPAIR."""
    if batch_norms(out):
        return reset_batch_norms(out, data, **options)
    ends = [base] + [moved_and_matched(base, matching, g) for g in range(1, matching.symmetry.order)]
    return repaired(out, ends, data, **options)


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


def distance(before: dict[str, Tensor], out: nn.Module) -> dict[str, float]:
    """How far each parameter moved, relative to its norm; those whose shape changed are left out."""
    return {
        name: float(
            (p.detach().double() - before[name].double()).norm() / before[name].double().norm().clamp_min(1e-300)
        )
        for name, p in out.named_parameters()
        if name in before and before[name].shape == p.shape
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
