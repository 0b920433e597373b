"""Low-rank local connectivity on ImageNet.

The data are class folders, ``imagenet/train/CLASS/*`` and ``imagenet/val/CLASS/*``. Some training images are held out
for choosing the rank, and the official validation images serve as test images. The schedule is the published one: SGD
with Nesterov momentum 0.9, batches of 2048, 150 epochs of which ten are warm-up, a cosine to zero, and L2 of 8e-5 on
the weights of layers (combining weights and biases are left out).

The paper does not say, so we chose: the network (ResNet-50), the exchanged layers (the 3 x 3 layers of its last stage),
their rank, the number of held-out images, the peak learning rate (0.1 per 256 images of a batch), and the crop (a
random 224 x 224 window of the middle square, resized to 256 x 256 with cubics). The rows have no published numbers,
because we do not have those of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from ...data import ImageData, Split, load, random_crop
from ...errors import NonFiniteError
from ...train import TrainConfig, deterministic_loader, fit, seed_all
from ..lab._classifier import PARAMETERS, accuracy, cross_entropy, hit_rate
from ..lab._experiment import Experiment, ExperimentRow, Job, Ordering
from ._resnet import LowRankResNet
from ._run import NETWORK
from ._table import TEST, VALIDATION

_EVALUATION_BATCH = 250
_CENTER = 0.875  # share of each side that a test crop keeps: 224 of 256


def _row(name: str, title: str, layer: str, rank: int | None) -> ExperimentRow:
    return ExperimentRow(name, title, {"layer": layer, "rank": rank})


def run(job: Job) -> Mapping[str, float]:
    """Train one network, and measure it on test images and on held-out images."""
    settings = job.settings
    data, held = prepared(job)
    seed_all(job.seed)
    channels, size, _ = data.test.shape
    names = ("layer", "rank", "exchanged", "blocks", "width", "stem", *NETWORK)
    model = LowRankResNet(channels, size, len(data.classes), **{name: settings[name] for name in names})
    train = data.train.with_transform(partial(random_crop, size=size)) if data.train.shape[1] > size else data.train
    batches = deterministic_loader(
        train, settings["batch_size"], seed=job.seed, shuffle=True, workers=settings["workers"]
    )
    steps = len(batches) // settings["accumulate"]
    config = TrainConfig(
        epochs=settings["epochs"],
        batch_size=settings["batch_size"],
        accumulate=settings["accumulate"],
        workers=settings["workers"],
        optimizer="sgd",
        lr=settings["lr"],
        momentum=0.9,
        nesterov=True,
        schedule="cosine",
        warmup_steps=settings["warmup_epochs"] * steps,
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
        validate_every=settings["validate_every"],
    )
    result = fit(
        model,
        cross_entropy,
        batches,
        config,
        folder=job.folder / "fit",
        val_loader=deterministic_loader(held, _EVALUATION_BATCH, seed=job.seed, shuffle=False),
        metrics={"accuracy": hit_rate},
        param_groups=decayed(model, settings["weight_decay"]),
        loggers=job.loggers(),
        about={"row": job.row, "data": data.origin, **settings},
        progress=job.progress,
    )
    held_accuracy = result.metrics["val_accuracy"]
    if held_accuracy is None:
        raise NonFiniteError(
            f"experiment {job.experiment}, row {job.row}",
            expected="a finite accuracy",
            got="NaN",
            fix="Lower the learning rate.",
        )
    return {
        TEST.name: 100 * accuracy(model, data.test),
        VALIDATION.name: 100 * held_accuracy,
        PARAMETERS.name: sum(p.numel() for p in model.parameters()),
    }


def decayed(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Parameter groups: L2 on filters and the linear map, none on biases, norms and combining weights."""
    without_decay = ("combining", "spatial")
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        filters = parameter.dim() > 1 and not any(part in without_decay for part in name.split("."))
        groups[filters].append(parameter)
    return [{"params": groups[True], "weight_decay": decay}, {"params": groups[False], "weight_decay": 0.0}]


def prepared(job: Job) -> tuple[ImageData, Split]:
    """Training images at the size before cropping, and cropped test images; then the held-out images, cropped too."""
    settings = job.settings
    large, size = settings["enlarged"], settings["image_size"]
    options: dict[str, Any] = {"folder": job.data, "download": job.download}
    if size is None:  # all images have the same size
        data = load(settings["data"], **options)
        test, plain = data.test, data.train
    else:
        data = load(settings["data"], **options, size=large, channels=3, bicubic=True)
        cropped = load(settings["data"], **options, size=size, channels=3, bicubic=True, crop_ratio=_CENTER)
        test, plain = cropped.test, cropped.train
    # Class folders are sorted by class, so permute first, the same way for all rows and seeds.
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))
    count = int(settings["validation"])
    normalization = data.normalization
    train, held = data.train.select(order[count:]), plain.select(order[:count])
    prepared_data = replace(data, train=train.normalized(normalization), test=test.normalized(normalization))
    return prepared_data, held.normalized(normalization)


_SMOKE: dict[str, Any] = {
    **NETWORK,
    "data": "digits",
    "image_size": None,
    "enlarged": None,
    "validation": 200,
    "blocks": [1, 1],
    "exchanged": 1,
    "width": 8,
    "stem": "small",
    "epochs": 4,
    "warmup_epochs": 1,
    "batch_size": 64,
    "accumulate": 1,
    "workers": 0,
    "lr": 0.05,
    "weight_decay": 8e-5,
    "validate_every": 4,
}
_SMALL: dict[str, Any] = {
    **_SMOKE,
    "data": "imagenet",
    "image_size": 64,
    "enlarged": 72,
    "validation": 1000,
    "blocks": [2, 2, 2],
    "exchanged": 2,
    "width": 16,
    "epochs": 15,
    "batch_size": 128,
    "validate_every": 5,
}
_PAPER: dict[str, Any] = {
    **_SMOKE,
    "data": "imagenet",
    "image_size": 224,
    "enlarged": 256,
    "validation": 50_000,
    "blocks": [3, 4, 6, 3],
    "exchanged": 3,
    "width": 64,
    "stem": "large",
    "epochs": 150,
    "warmup_epochs": 10,
    "batch_size": 256,
    "accumulate": 8,
    "workers": 8,
    "lr": 0.8,
    "validate_every": 10,
}

EXPERIMENT = Experiment(
    name="lrlc-imagenet",
    title="Between convolution and local connection: ImageNet",
    reference="Elsayed, Ramachandran, Shlens & Kornblith 2020, ImageNet",
    metrics=(TEST, VALIDATION, PARAMETERS),
    rows=(
        _row("conv", "ResNet", "conv", None),
        _row("bias", "+ spatial bias, last blocks", "spatial-bias", None),
        _row("lrlc", "LRLC, last blocks", "low-rank", 2),
        _row("wide", "wide convolution, last blocks", "wide", 2),
        _row("input", "input-dependent LRLC, last blocks", "input-low-rank", 2),
        _row("lc", "locally connected, last blocks", "local", None),
    ),
    scales={"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
    seeds={"smoke": 1, "small": 3, "paper": 3},
    orderings=(Ordering("lrlc", "conv", TEST.name), Ordering("lrlc", "lc", TEST.name)),
    run=run,
    data={"smoke": "digits", "small": "imagenet", "paper": "imagenet"},
    watch="val_accuracy",
)
