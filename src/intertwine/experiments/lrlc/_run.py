"""The settings per scale, and one run: train, then measure on test, training and validation images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...data import ImageData, Normalization, Split, random_crop
from ...errors import InputError
from ...models import SimpleNet
from ...train import seed_all
from ..lab._arrays import save_arrays
from ..lab._choose import choose
from ..lab._classifier import PARAMETERS, accuracy, fit_classifier, hit_rate, load_parts
from ..lab._experiment import Job
from ._maps import combining_arrays
from ._table import MOVED, RANK, TEST, TRAIN, VALIDATION

_TEST_SEED = 2  # for the shifts of test images

NETWORK: dict[str, Any] = {
    "normalize": "softmax",
    "sharing": "factorized",
    "init": "structured",
    "lc_init": "keras",
}
"""Options of the layers at every scale."""

SMOKE: dict[str, Any] = {
    **NETWORK,
    "data": "digits",
    "scaling": "unit",
    "images": 1000,
    "validation": 0,
    "shift": 1,
    "width": 8,
    "strides": [1, 1, 1],
    "epochs": 6,
    "trial_epochs": 6,
    "warmup_epochs": 1,
    "batch_size": 50,
    "lr": 1e-2,
    "precision": "32",
    "validate_every": 6,
}
"""The embedded digits: seconds for all rows together."""

QUICK: dict[str, Any] = {**SMOKE, "width": 32, "strides": [2, 2, 1]}
"""Minutes on two cores: half the channels, and strides that halve the sides of the maps twice."""

PAPER: dict[str, Any] = {
    **SMOKE,
    "images": None,
    "validation": 5000,
    "width": 64,
    "epochs": 150,
    "trial_epochs": 150,
    "warmup_epochs": 10,
    "batch_size": 512,
    "validate_every": 10,
}
"""The published setting."""

SMALL: dict[str, Any] = {
    **PAPER,
    "strides": [2, 1, 1],
    "epochs": 25,
    "trial_epochs": 4,
    "warmup_epochs": 2,
    "batch_size": 128,
    "lr": 5e-3,
    "precision": "auto",
    "validate_every": 5,
}
"""About an hour per row on a core: all images, all channels, maps of half the height and width, fewer epochs."""


def run(job: Job, *, moved: bool = False) -> Mapping[str, float]:
    """Train one network, and measure it on test, training and, if there are any, validation images.

    A rank that is a list of candidates is first chosen on validation images, with shorter runs.

    Combining weights of low-rank layers are saved next to the record, see :func:`combining_arrays`.

    Args:
        job: the run.
        moved: whether to test a network that was trained on images in place on shifted images too, with the same
            test images as the rows ``shifted-...``.
    """
    data, validation = _prepared(job)
    channels, size, _ = data.shape
    watched = validation if validation is not None else data.test

    def trained(job: Job) -> tuple[SimpleNet, float]:
        seed_all(job.seed)
        options = {key: job.settings[key] for key in ("layer", "where", "rank", "width", "strides", *NETWORK)}
        model = SimpleNet(channels, size, len(data.classes), **options)
        fitted = fit_classifier(job, model, data.train, watched, metric=("accuracy", hit_rate), origin=data.origin)
        return model, fitted

    job, choice, rank = choose(job, ["rank"], lambda trial: trained(trial)[1])
    model, watched_accuracy = trained(job)
    metrics = {
        TEST.name: 100 * (watched_accuracy if validation is None else accuracy(model, data.test)),
        TRAIN.name: 100 * accuracy(model, data.train),
        PARAMETERS.name: sum(p.numel() for p in model.parameters()),
    }
    if validation is not None:
        metrics[VALIDATION.name] = 100 * watched_accuracy
    if rank is not None:
        metrics[RANK.name] = rank
    if moved and not job.settings["shifted"]:
        metrics[MOVED.name] = 100 * accuracy(model, _moved(data.test, job.settings, _TEST_SEED))
    if arrays := combining_arrays(model, data.test) | choice:
        save_arrays(job.folder, arrays)
    return metrics


def _prepared(job: Job) -> tuple[ImageData, Split | None]:
    """Training and test images as set, and validation images if the settings ask for any."""
    settings = job.settings
    data, validation = load_parts(job)
    if data.shape[1] != data.shape[2]:
        raise InputError(f"experiment {job.experiment}", expected="square images", got=str(data.shape))
    train, test = _processed(data.train, settings, 1), _processed(data.test, settings, _TEST_SEED)
    validation = _processed(validation, settings, 3) if validation is not None else None
    return ImageData(data.name, train, test, origin=data.origin), validation


def _processed(split: Split, settings: Mapping[str, Any], seed: int) -> Split:
    """Decode the images once, shift each of them once if the row asks for it, and scale."""
    split = split.in_memory()
    if settings["shifted"]:
        split = _moved(split, settings, seed)
    if settings["scaling"] == "symmetric":
        half = (0.5,) * split.shape[0]
        return split.normalized(Normalization(half, half))
    if settings["scaling"] == "unit":
        return split
    raise InputError("scaling", expected="unit for [0, 1] or symmetric for [-1, 1]", got=repr(settings["scaling"]))


def _moved(split: Split, settings: Mapping[str, Any], seed: int) -> Split:
    return split.transformed_once(partial(shifted, shift=settings["shift"]), seed=seed)


def shifted(images: Tensor, generator: torch.Generator, *, shift: int) -> Tensor:
    """Images ``(n, channels, height, width)`` shifted by up to ``shift`` pixels per axis, with replicated borders.

    >>> image = torch.arange(9.0).reshape(1, 1, 3, 3)
    >>> shifted(image, torch.Generator().manual_seed(1), shift=1).shape
    torch.Size([1, 1, 3, 3])
    """
    size = images.shape[-2], images.shape[-1]
    return random_crop(pad(images, (shift,) * 4, mode="replicate"), generator, size=size)
