"""From a tied network, trained by its free parameters, back to a symmetrized one."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from torch import Tensor, nn

from ..._checked import Positive, checked
from .._batches import Images, batches
from ..graph._permute import full_state, with_state
from ._exact import require_exact
from ._merge import batch_norms, reset_batch_norms
from ._symmetrize import Symmetrized, distance
from ._tied import projected


@checked
def untie(twin: Symmetrized, tied: nn.Module, data: Images, *, batch_size: Positive = 200) -> Symmetrized:
    """The symmetrized network with the weights of a tied copy: plain parameters, exactly symmetric.

    If batch norms are in training mode, their running statistics are recomputed and averaged over the group; in
    evaluation mode, they are kept. The result is measured in float64; an error names the layer if it is not symmetric.

    Args:
        twin: the result of :func:`symmetrize`.
        tied: what :func:`tie` made of it, trained or not; it is not changed.
        data: images, to recompute statistics and to measure on; at most 2000 are used.
        batch_size: images per batch, for data given as one tensor.

    >>> import torch
    >>> from intertwine.measure import symmetrize, tie
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    >>> x = torch.randn(20, 1, 6, 6)
    >>> twin = symmetrize(net, x, "hflip")
    >>> free = tie(twin.model, twin.matching)
    >>> _ = torch.nn.init.normal_(free[0].parametrizations.weight.original)
    >>> untie(twin, free, x).error < 1e-9
    True
    """
    # Reading a parametrized attribute gives the whole tensor, in the order and under the names of the given network.
    state = {name: _attribute(tied, name).detach() for name in full_state(twin.model)}
    model = with_state(twin.model, state).eval()
    options = {"batch_size": max(2, batch_size), "max_images": 2000}
    if any(norm.training for norm in batch_norms(tied).values()):
        model = reset_batch_norms(model, data, **options)
    model = projected(model, twin.matching).eval()
    images = next(iter(batches(data, caller="untie", **options)))[0]
    error = require_exact(model, images, twin.matching, caller="untie")
    return replace(twin, model=model, distance=distance(full_state(twin.original), model), error=error)


def _attribute(model: nn.Module, name: str) -> Tensor:
    path, _, attribute = name.rpartition(".")
    return cast(Tensor, getattr(model.get_submodule(path), attribute))
