"""Measure: a network trained on mirrored images is only nearly symmetric; make it exact."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import nn

from ..data import Split, TensorImages, random_flip
from ..measure import accuracy, agreement, invariance_error, symmetrize
from ..models import plain_cnn
from ..train import seed_all, tune
from ._digits import Labeled, train
from ._scores import Scores

EPOCHS = 8
TUNING = 4


def measuring(
    data: Labeled, test: Labeled, folder: Path, *, seed: int, epochs: int, tuning: int, progress: bool
) -> tuple[list[Scores], dict[str, nn.Module]]:
    """The scores of the network as trained, trained longer, made symmetric, and tuned; and the networks."""
    shown = Split(TensorImages(data[0], white=1.0), data[1]).with_transform(random_flip)
    seed_all(seed)
    model = plain_cnn(1, 10, widths=(16, 24, 32))
    train(model, shown, folder / f"mirrored-{seed}", epochs=epochs, seed=seed, progress=progress)
    both = torch.cat([data[0], data[0].flip(3)])
    twin = symmetrize(model, both, "hflip")
    tuned = tune(twin, both, epochs=tuning, lr=1e-3, seed=seed, folder=folder / f"tuned-{seed}", progress=progress)
    control = copy.deepcopy(model).train()
    options = {"epochs": 2 * tuning, "lr": 1e-3, "seed": 100 + seed, "progress": progress}
    train(control, shown, folder / f"control-{seed}", **options)  # type: ignore[arg-type]
    networks = {
        "trained on mirrored digits": (model, "half of the images were mirrored in every epoch"),
        "trained longer": (control, f"the same network after {2 * tuning} more epochs with labels, as a control"),
        "made symmetric": (twin.model, "channels matched, merged and refitted: exactly symmetric"),
        "made symmetric, tuned": (
            tuned.model,
            f"then {tuning} epochs without labels on every image and its mirror image, as many images as the control",
        ),
    }
    rows = [
        Scores(
            name,
            about,
            sum(p.numel() for p in net.parameters()),
            {
                "accuracy": ((accuracy(net, test) + accuracy(net, (test[0].flip(3), test[1]))) / 2,),
                "changed answers": (1 - agreement(net, test[0], "hflip").mean,),
                "invariance error": (invariance_error(net, test[0], "hflip").mean,),
            },
        )
        for name, (net, about) in networks.items()
    ]
    return rows, {"mirrored": model, "symmetric": tuned.model}
