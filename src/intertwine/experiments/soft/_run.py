"""van der Ouderaa, Romero & van der Wilk, "Relaxing equivariance constraints with non-stationary continuous filters".

What the experiments of this paper (2022) share: settings, one run, and what a run keeps for the figures. Architecture
and training are those of Romero & Lohit, "Learning partial equivariances from data" (2022), which the paper builds on:
Adam, a rate that rises for five epochs and then falls as a cosine, and in place of weight decay a penalty 1e-4 Σ‖k‖₂ on
the kernels as they are sampled. Validation images are never augmented here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...data import AugmentedSplit, ImageData, Normalization, Split, compose, load, random_crop, random_flip
from ...errors import InputError, NonFiniteError
from ...models import SoftResNet
from ...relaxed import PartialGroupConv2d, extent_penalty, kernel_norms, relaxation_penalty, relaxed_layers
from ...train import TrainConfig, derive_seed, deterministic_loader, fit, seed_all
from ..lab._arrays import save_arrays
from ..lab._classifier import PARAMETERS, accuracy, cross_entropy, hit_rate
from ..lab._experiment import Job, Metric
from ._bank import filter_bank
from ._best import BestWeights, EnoughError
from ._table import TEST

VALIDATION = Metric(
    "validation_accuracy",
    "%",
    "higher",
    "share of validation images that are classified correctly; they are not trained on",
)
METRICS = (TEST, VALIDATION, PARAMETERS)
REFERENCE = "van der Ouderaa, Romero & van der Wilk 2022"
SPLIT_SEED = 42
"""Decides which training images are held out for validation, the same for all rows and seeds."""

PAPER: dict[str, Any] = {
    "data": "cifar10",
    "size": None,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "images": None,
    "test_images": None,
    "validation": 5000,
    "width": 32,
    "growth": 2,
    "kernel_size": 7,
    "hidden": 32,
    "pooled": [1, 2],
    "sampling": "random",
    "net": "joint",
    "activation": "cos",
    "domain": "input",
    "epochs": 300,
    "warmup_epochs": 5,
    "batch_size": 64,
    "lr": 1e-3,
    "extent_lr": 1e-4,
    "schedule": "cosine",
    "decay": 1e-4,
    "extent_penalty": 0.0,
    "patience": 100,
    "validate_every": 10,
}
"""The published setting on CIFAR-10."""

SMALL: dict[str, Any] = {
    **PAPER,
    "size": 24,
    "images": 6000,
    "validation": 1000,
    "width": 8,
    "kernel_size": 5,
    "hidden": 16,
    "pooled": [0, 1],
    "epochs": 6,
    "warmup_epochs": 1,
    "lr": 5e-3,
    "extent_lr": 2e-3,
    "validate_every": 6,
}
"""For two cores: a quarter of the channels, smaller images, kernels of size 5, maps pooled after the first layer."""

SMOKE: dict[str, Any] = {
    **SMALL,
    "data": "digits",
    "size": 12,
    "mean": None,
    "std": None,
    "images": 80,
    "test_images": 60,
    "validation": 40,
    "width": 2,
    "kernel_size": 3,
    "hidden": 4,
    "epochs": 1,
    "warmup_epochs": 0,
    "batch_size": 20,
    "validate_every": 1,
}
"""The embedded digits, a fraction of a second for each row."""


def build(wanted: Mapping[str, Any], channels: int, classes: int) -> SoftResNet:
    """The network that the settings name."""
    same = ("samples", "partial", "learn", "width", "growth", "kernel_size", "hidden", "pooled", "sampling")
    return SoftResNet(
        channels,
        classes,
        rotation_softness=wanted["rotation"],
        translation_softness=wanted["translation"],
        **{key: wanted[key] for key in (*same, "net", "activation", "domain")},
    )


def run(job: Job) -> Mapping[str, float]:
    """Train one network, measure it on the test images, keep its frequencies ω' and a bank of its filters."""
    data, validation = prepared(job)
    seed_all(job.seed)
    model = build(job.settings, data.shape[0], len(data.classes))
    seen = _train(job, model, data, validation)
    seed_all(derive_seed(job.seed, "test"))  # samples are drawn in evaluation too
    found = {TEST.name: 100 * accuracy(model, data.test), PARAMETERS.name: sum(p.numel() for p in model.parameters())}
    save_arrays(job.folder, kept_arrays(model))
    return found if validation is None else {**found, VALIDATION.name: 100 * seen}


def prepared(job: Job) -> tuple[ImageData, Split | None]:
    """Training and test images as the settings want them, and the validation images."""
    wanted = job.settings
    data = load(wanted["data"], folder=job.data, download=job.download, size=wanted["size"])
    if wanted["mean"] is not None:
        data = data.normalized(Normalization(tuple(wanted["mean"]), tuple(wanted["std"])))
    else:
        data = data.normalized()
    train, test, validation = data.train, data.test, None
    if wanted["validation"] == "test":  # as published for the sixes
        validation = test
    elif wanted["validation"]:
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(SPLIT_SEED))
        held = len(train) - int(wanted["validation"])
        train, validation = train.select(order[:held]), train.select(order[held:])
    if wanted["images"] is not None and wanted["images"] < len(train):
        train = train.subset(wanted["images"], seed=0)
    if wanted["test_images"] is not None and wanted["test_images"] < len(test):
        test = test.subset(wanted["test_images"], seed=0)
    validation = validation.in_memory() if validation is not None else None
    return ImageData(data.name, train.in_memory(), test.in_memory(), origin=data.origin), validation


def _train(job: Job, model: SoftResNet, data: ImageData, validation: Split | None) -> float:
    """Train in place; the accuracy of the kept weights on validation images, or on test images if there are none."""
    wanted = job.settings
    if wanted["keep"] not in ("best", "last") or (wanted["keep"] == "best" and validation is None):
        raise InputError(
            f"experiment {job.experiment}, row {job.row}",
            expected="keep=last, or keep=best with validation images",
            got=f"keep={wanted['keep']} and validation={wanted['validation']}",
            fix="Set validation to a number of images.",
        )
    best = BestWeights(model, job.folder / "best.safetensors", metric="val_accuracy", patience=wanted["patience"])
    keep_best = wanted["keep"] == "best"
    augment = compose(random_flip, partial(random_crop, padding=4))
    train: Split | AugmentedSplit = data.train.with_transform(augment) if wanted["augment"] else data.train
    batches = deterministic_loader(train, wanted["batch_size"], seed=job.seed, shuffle=True, drop_last=True)
    watched = validation if validation is not None else data.test
    config = TrainConfig(
        epochs=wanted["epochs"],
        batch_size=wanted["batch_size"],
        optimizer="adam",
        lr=wanted["lr"],
        schedule=wanted["schedule"],
        warmup_steps=wanted["warmup_epochs"] * len(batches),
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
        validate_every=1 if keep_best else wanted["validate_every"],
    )
    extents = [module.extent for module in model.modules() if isinstance(module, PartialGroupConv2d)]
    others = [p for p in model.parameters() if all(p is not extent for extent in extents)]
    groups: list[dict[str, Any]] = [{"params": others}]
    if extents:
        groups.append({"params": extents, "lr": wanted["extent_lr"]})
    with suppress(EnoughError):
        result = fit(
            model,
            partial(_loss, decay=wanted["decay"]),
            batches,
            config,
            folder=job.folder / "fit",
            val_loader=deterministic_loader(watched, 500, seed=job.seed, shuffle=False),
            metrics={"accuracy": hit_rate},
            extra_penalty=partial(_penalty, weight=wanted["penalty"], extents=wanted["extent_penalty"]),
            param_groups=groups,
            loggers=(*job.loggers(), best) if keep_best else job.loggers(),
            about={"row": job.row, "data": data.origin, **wanted},
            progress=job.progress,
        )
        seen = result.metrics["val_accuracy"]
    if keep_best:
        return best.restore()
    if seen is None:
        raise NonFiniteError(
            f"experiment {job.experiment}, row {job.row}",
            expected="a finite accuracy",
            got="NaN",
            fix="Lower the learning rate.",
        )
    return seen


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor], *, decay: float) -> tuple[Tensor, dict[str, Tensor | float]]:
    """Cross-entropy, in training with the penalty on sampled kernels, and how far the layers are relaxed on average."""
    if not torch.is_grad_enabled():
        return cross_entropy(model, batch), {}
    with kernel_norms(model) as norms:
        value = cross_entropy(model, batch)
    numbers: dict[str, Tensor | float] = {"cross_entropy": value.detach()}
    found = [amount for _, layer in relaxed_layers(model) for amount in layer.dial().values()]
    if found:
        numbers["relaxation"] = sum(found) / len(found)
    return (value + decay * torch.stack(norms).sum() if decay else value), numbers


def _penalty(model: nn.Module, *, weight: float | None, extents: float) -> Tensor:
    """λ‖ω'‖² over all layers, and what keeps later partial layers from seeing more than earlier ones."""
    total = next(model.parameters()).new_zeros(())
    if weight is not None:
        total = total + relaxation_penalty(model, weight=weight)
    return total + extents * extent_penalty(model) if extents else total


def kept_arrays(model: SoftResNet) -> dict[str, Tensor]:
    """How far each layer is relaxed, as ``relaxation/SUBGROUP/LAYER``; a bank of filters where rotations are soft."""
    found = {
        f"relaxation/{subgroup}/{name}": torch.tensor(amount, dtype=torch.float64)
        for name, layer in relaxed_layers(model)
        for subgroup, amount in layer.dial().items()
    }
    return {**found, **filter_bank(model)}
