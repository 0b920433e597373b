"""What low-rank layers combine where: kept by a run, for its figures."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...data import Split
from ...models import SimpleNet
from ...relaxed import InputLowRankLocalConv2d, LowRankLocalConv2d, combining_maps

IMAGES = "images"
_EXAMPLES = 4


@torch.no_grad()
def combining_arrays(model: SimpleNet, split: Split) -> dict[str, Tensor]:
    """Combining weights of each low-rank layer of a trained network, by the number of its block.

    ``fixed-3`` is ``(K, Ho, Wo)``; ``input-3`` is ``(images, K, Ho, Wo)`` for the first image of each of a few classes,
    and ``images`` are these, in [0, 1]. A network without such layers has none.
    """
    at = torch.tensor([int((split.labels == k).nonzero()[0]) for k in split.labels.unique()[:_EXAMPLES]])
    x, _ = split.batch(at)
    x = x.to(next(model.parameters()).device)
    was = model.training
    model.eval()
    found: dict[str, Tensor] = {}
    for number, module in enumerate(model.features):
        block = number // 3 + 1  # a layer, its norm, its nonlinearity
        if isinstance(module, LowRankLocalConv2d):
            found[f"fixed-{block}"] = combining_maps(module)
        elif isinstance(module, InputLowRankLocalConv2d):
            found[f"input-{block}"] = combining_maps(module, x)
            found[IMAGES], _ = replace(split, normalization=None).batch(at)
        x = module(x)
    model.train(was)
    return found
