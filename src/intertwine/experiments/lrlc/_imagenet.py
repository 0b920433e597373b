"""Low-rank local connectivity on ImageNet.

Data are class folders, ``imagenet/train/CLASS/*`` and ``imagenet/val/CLASS/*``; some training images are held out to
choose the rank by, and the official validation images are the test images. The schedule is the published one: SGD with
Nesterov momentum 0.9, batches of 2048, 150 epochs of which ten are warm-up, a cosine to zero, and L2 of 8e-5 on the
weights of layers (combining weights and biases are left out).

Not known from the paper, and chosen here: the network (ResNet-50), the layers that are exchanged (the 3 x 3 layers of
its last stage), their rank, how many images are held out, the peak learning rate (0.1 for every 256 images of a batch),
and the crop (a random 224 x 224 window of the middle square brought to 256 x 256 by cubics). The numbers of the paper
are not at hand either: the rows have none.
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

_EVALUATED = 250
_CENTER = 0.875  # of both sides, for testing: as much as 224 of 256


def _row(name: str, title: str, layer: str, rank: int | None) -> ExperimentRow:
    return ExperimentRow(name, title, {"layer": layer, "rank": rank})


def run(job: Job) -> Mapping[str, float]:
    """Train one network; measure it on test images and on those held out."""
    wanted = job.settings
    data, held = prepared(job)
    seed_all(job.seed)
    channels, size, _ = data.test.shape
    names = ("layer", "rank", "exchanged", "blocks", "width", "stem", *NETWORK)
    model = LowRankResNet(channels, size, len(data.classes), **{name: wanted[name] for name in names})
    train = data.train.with_transform(partial(random_crop, size=size)) if data.train.shape[1] > size else data.train
    batches = deterministic_loader(train, wanted["batch_size"], seed=job.seed, shuffle=True, workers=wanted["workers"])
    steps = len(batches) // wanted["accumulate"]
    config = TrainConfig(
        epochs=wanted["epochs"],
        batch_size=wanted["batch_size"],
        accumulate=wanted["accumulate"],
        workers=wanted["workers"],
        optimizer="sgd",
        lr=wanted["lr"],
        momentum=0.9,
        nesterov=True,
        schedule="cosine",
        warmup_steps=wanted["warmup_epochs"] * steps,
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
        validate_every=wanted["validate_every"],
    )
    result = fit(
        model,
        cross_entropy,
        batches,
        config,
        folder=job.folder / "fit",
        val_loader=deterministic_loader(held, _EVALUATED, seed=job.seed, shuffle=False),
        metrics={"accuracy": hit_rate},
        param_groups=decayed(model, wanted["weight_decay"]),
        loggers=job.loggers(),
        about={"row": job.row, "data": data.origin, **wanted},
        progress=job.progress,
    )
    seen = result.metrics["val_accuracy"]
    if seen is None:
        raise NonFiniteError(
            f"experiment {job.experiment}, row {job.row}",
            expected="a finite accuracy",
            got="NaN",
            fix="Lower the learning rate.",
        )
    return {
        TEST.name: 100 * accuracy(model, data.test),
        VALIDATION.name: 100 * seen,
        PARAMETERS.name: sum(p.numel() for p in model.parameters()),
    }


def decayed(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Filters and the linear map with L2; biases, norms and what says where banks are used without."""
    kept = ("combining", "spatial")
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        filters = parameter.dim() > 1 and not any(part in kept for part in name.split("."))
        groups[filters].append(parameter)
    return [{"params": groups[True], "weight_decay": decay}, {"params": groups[False], "weight_decay": 0.0}]


def prepared(job: Job) -> tuple[ImageData, Split]:
    """Training images as large as they are cropped from, test images as they are cut, and those held out likewise."""
    wanted = job.settings
    large, size = wanted["enlarged"], wanted["image_size"]
    options: dict[str, Any] = {"folder": job.data, "download": job.download}
    if size is None:  # a data set of images of one size
        data = load(wanted["data"], **options)
        test, plain = data.test, data.train
    else:
        data = load(wanted["data"], **options, size=large, channels=3, bicubic=True)
        cut = load(wanted["data"], **options, size=size, channels=3, bicubic=True, crop_ratio=_CENTER)
        test, plain = cut.test, cut.train
    # Class folders are sorted by class: a permutation comes first, the same for all rows and seeds.
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))
    count = int(wanted["validation"])
    normalization = data.normalization
    train, held = data.train.select(order[count:]), plain.select(order[:count])
    found = replace(data, train=train.normalized(normalization), test=test.normalized(normalization))
    return found, held.normalized(normalization)


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
