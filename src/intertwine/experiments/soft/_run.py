"""van der Ouderaa, Romero & van der Wilk, "Relaxing equivariance constraints with non-stationary continuous filters".

Shared by the experiments of this paper (2022): settings, one run, and the arrays that a run saves for the figures. The
architecture and the training are from Romero & Lohit, "Learning partial equivariances from data" (2022), which the
paper builds on: Adam, a rate that rises for five epochs and then follows a cosine, and instead of weight decay a
penalty 1e-4 Σ‖k‖₂ on the sampled kernels. We never augment validation images.

The paper has two descriptions of the kernel network, and both run here. ``net="joint"`` is one network of sines on all
coordinates: its numbers of weights are the published ones, with ``angles="principal"``. ``net="fourier"`` is equations
7 and 8, random Fourier features of both arguments, then one hidden layer. By default all kernels are continuous on the
circle, ``angles="circle"``, which takes a second coordinate per angle: a few hundred weights more than published.
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
from ..lab._choose import choose
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
"""Chooses the training images that are held out for validation, the same for all rows and seeds."""

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
    "frequency": 1.0,
    "rotation_frequency": 1.0,
    "angles": "circle",
    "domain": "input",
    "epochs": 300,
    "trial_epochs": 300,
    "warmup_epochs": 5,
    "batch_size": 64,
    "lr": 1e-3,
    "precision": "32",
    "extent_lr": 1e-4,
    "schedule": "cosine",
    "decay": 1e-4,
    "extent_penalty": 0.0,
    "patience": 100,
    "validate_every": 10,
}
"""The published settings on CIFAR-10."""

SMALL: dict[str, Any] = {
    **PAPER,
    "size": 24,
    "width": 16,
    "kernel_size": 5,
    "hidden": 16,
    "pooled": [0, 1],
    "epochs": 30,
    "trial_epochs": 2,
    "warmup_epochs": 1,
    "lr": 3.5e-3,
    "precision": "auto",
    "extent_lr": 2e-3,
    "validate_every": 5,
}
"""Hours per row on one core: 24 x 24 pixels, half the channels, kernels of size 5, pooled after the first layer.

Batches have the published size: after 4 epochs, the strict network had .635 of the validation images right, with
batches of 128 and a rate of 5e-3 .613.
"""

SMALL_PLANE: dict[str, Any] = {"size": None, "kernel_size": 7, "pooled": [1, 2], "epochs": 15}
"""What rows without rotations change at the small scale: they can afford the published images and kernels."""

QUICK: dict[str, Any] = {
    **SMALL,
    "precision": "32",
    "images": 6000,
    "validation": 1000,
    "width": 8,
    "epochs": 6,
    "lr": 5e-3,
    "validate_every": 6,
}
"""Minutes on two cores: a quarter of the channels, 6,000 images."""

SMOKE: dict[str, Any] = {
    **QUICK,
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
    "trial_epochs": 1,
    "warmup_epochs": 0,
    "batch_size": 20,
    "validate_every": 1,
}
"""The embedded digits: a fraction of a second per row."""


SUBGROUPS = ("rotation", "translation")
"""The settings that hold ω', or candidates for it to choose from on validation images."""

_KERNEL = ("net", "activation", "frequency", "rotation_frequency", "angles", "domain")


def build(settings: Mapping[str, Any], channels: int, classes: int) -> SoftResNet:
    """The network that the settings describe."""
    names = ("samples", "partial", "learn", "width", "growth", "kernel_size", "hidden", "pooled", "sampling")
    return SoftResNet(
        channels,
        classes,
        rotation_softness=settings["rotation"],
        translation_softness=settings["translation"],
        **{key: settings[key] for key in (*names, *_KERNEL)},
    )


def run(job: Job) -> Mapping[str, float]:
    """Train one network, measure it on the test images, and save its frequencies ω' and a bank of its filters.

    If ω' is a list, it is first chosen on validation images.
    """
    data, validation = prepared(job)

    def trained(job: Job) -> tuple[SoftResNet, float]:
        seed_all(job.seed)
        model = build(job.settings, data.shape[0], len(data.classes))
        return model, _train(job, model, data, validation)

    job, choice, _ = choose(job, SUBGROUPS, lambda trial: trained(trial)[1])
    model, watched_accuracy = trained(job)
    seed_all(derive_seed(job.seed, "test"))  # evaluation draws samples too
    metrics = {TEST.name: 100 * accuracy(model, data.test), PARAMETERS.name: sum(p.numel() for p in model.parameters())}
    save_arrays(job.folder, kept_arrays(model) | choice)
    return metrics if validation is None else {**metrics, VALIDATION.name: 100 * watched_accuracy}


def prepared(job: Job) -> tuple[ImageData, Split | None]:
    """Training and test images as set, and the validation images."""
    settings = job.settings
    data = load(settings["data"], folder=job.data, download=job.download, size=settings["size"])
    if settings["mean"] is not None:
        data = data.normalized(Normalization(tuple(settings["mean"]), tuple(settings["std"])))
    else:
        data = data.normalized()
    train, test, validation = data.train, data.test, None
    if settings["validation"]:
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(SPLIT_SEED))
        held = len(train) - int(settings["validation"])
        train, validation = train.select(order[:held]), train.select(order[held:])
    if settings["images"] is not None and settings["images"] < len(train):
        train = train.subset(settings["images"], seed=0)
    if settings["test_images"] is not None and settings["test_images"] < len(test):
        test = test.subset(settings["test_images"], seed=0)
    validation = validation.in_memory() if validation is not None else None
    return ImageData(data.name, train.in_memory(), test.in_memory(), origin=data.origin), validation


def _train(job: Job, model: SoftResNet, data: ImageData, validation: Split | None) -> float:
    """Train in place; return the accuracy of the final weights on validation images, or on test images without any."""
    settings = job.settings
    if settings["keep"] not in ("best", "last") or (settings["keep"] == "best" and validation is None):
        raise InputError(
            f"experiment {job.experiment}, row {job.row}",
            expected="keep=last, or keep=best with validation images",
            got=f"keep={settings['keep']} and validation={settings['validation']}",
            fix="Set validation to a number of images.",
        )
    best = BestWeights(model, job.folder / "best.safetensors", metric="val_accuracy", patience=settings["patience"])
    keep_best = settings["keep"] == "best"
    augment = compose(random_flip, partial(random_crop, padding=4))
    train: Split | AugmentedSplit = data.train.with_transform(augment) if settings["augment"] else data.train
    batches = deterministic_loader(train, settings["batch_size"], seed=job.seed, shuffle=True, drop_last=True)
    watched = validation if validation is not None else data.test
    config = TrainConfig(
        epochs=settings["epochs"],
        batch_size=settings["batch_size"],
        optimizer="adam",
        lr=settings["lr"],
        schedule=settings["schedule"],
        warmup_steps=round(settings["warmup_epochs"] * len(batches)),
        precision=settings["precision"],
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
        validate_every=1 if keep_best else settings["validate_every"],
    )
    extents = [module.extent for module in model.modules() if isinstance(module, PartialGroupConv2d)]
    others = [p for p in model.parameters() if all(p is not extent for extent in extents)]
    groups: list[dict[str, Any]] = [{"params": others}]
    if extents:
        groups.append({"params": extents, "lr": settings["extent_lr"]})
    with suppress(EnoughError):
        result = fit(
            model,
            partial(_loss, decay=settings["decay"]),
            batches,
            config,
            folder=job.folder / "fit",
            val_loader=deterministic_loader(watched, 500, seed=job.seed, shuffle=False),
            metrics={"accuracy": hit_rate},
            extra_penalty=partial(_penalty, weight=settings["penalty"], extents=settings["extent_penalty"]),
            param_groups=groups,
            loggers=(*job.loggers(), best) if keep_best else job.loggers(),
            about={"row": job.row, "data": data.origin, **settings},
            progress=job.progress,
        )
        last_accuracy = result.metrics["val_accuracy"]
    if keep_best:
        return best.restore()
    if last_accuracy is None:
        raise NonFiniteError(
            f"experiment {job.experiment}, row {job.row}",
            expected="a finite accuracy",
            got="NaN",
            fix="Lower the learning rate.",
        )
    return last_accuracy


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor], *, decay: float) -> tuple[Tensor, dict[str, Tensor | float]]:
    """Cross-entropy, in training plus the penalty on sampled kernels; also logs the mean relaxation of the layers."""
    if not torch.is_grad_enabled():
        return cross_entropy(model, batch), {}
    with kernel_norms(model) as norms:
        value = cross_entropy(model, batch)
    numbers: dict[str, Tensor | float] = {"cross_entropy": value.detach()}
    amounts = [amount for _, layer in relaxed_layers(model) for amount in layer.dial().values()]
    if amounts:
        numbers["relaxation"] = sum(amounts) / len(amounts)
    return (value + decay * torch.stack(norms).sum() if decay else value), numbers


def _penalty(model: nn.Module, *, weight: float | None, extents: float) -> Tensor:
    """λ‖ω'‖² over all layers, plus the term that keeps partial layers from seeing more than earlier ones."""
    total = next(model.parameters()).new_zeros(())
    if weight is not None:
        total = total + relaxation_penalty(model, weight=weight)
    return total + extents * extent_penalty(model) if extents else total


def kept_arrays(model: SoftResNet) -> dict[str, Tensor]:
    """The relaxation of each layer as ``relaxation/SUBGROUP/LAYER``, and a bank of filters if rotations are soft."""
    relaxation = {
        f"relaxation/{subgroup}/{name}": torch.tensor(amount, dtype=torch.float64)
        for name, layer in relaxed_layers(model)
        for subgroup, amount in layer.dial().items()
    }
    return {**relaxation, **filter_bank(model)}
