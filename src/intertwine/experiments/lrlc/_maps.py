"""The combining weights of low-rank layers, which a run saves for its figures."""

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
    """Combining weights of each low-rank layer of a trained network, named by its block.

    ``fixed-3`` is ``(K, Ho, Wo)``. ``input-3`` is ``(images, K, Ho, Wo)`` for the first image of each of a few classes,
    and ``images`` are these images, in [0, 1]. Empty for a network without such layers.
    """
    indices = torch.tensor([int((split.labels == k).nonzero()[0]) for k in split.labels.unique()[:_EXAMPLES]])
    x, _ = split.batch(indices)
    x = x.to(next(model.parameters()).device)
    was_training = model.training
    model.eval()
    arrays: dict[str, Tensor] = {}
    for number, module in enumerate(model.features):
        block = number // 3 + 1  # each block is a layer, a norm and a nonlinearity
        if isinstance(module, LowRankLocalConv2d):
            arrays[f"fixed-{block}"] = combining_maps(module)
        elif isinstance(module, InputLowRankLocalConv2d):
            arrays[f"input-{block}"] = combining_maps(module, x)
            arrays[IMAGES], _ = replace(split, normalization=None).batch(indices)
        x = module(x)
    model.train(was_training)
    return arrays
