"""The settings at three scales, and one run: train, then measure on test, training and validation images."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...data import ImageData, Normalization, Split, load, random_crop
from ...errors import InputError
from ...models import SimpleNet
from ...train import seed_all
from ..lab._arrays import save_arrays
from ..lab._classifier import PARAMETERS, accuracy, fit_classifier, hit_rate
from ..lab._experiment import Job
from ._maps import combining_arrays
from ._table import MOVED, TEST, TRAIN, VALIDATION

_TEST_SEED = 2  # of the shifts of test images

NETWORK: dict[str, Any] = {
    "normalize": "softmax",
    "sharing": "factorized",
    "init": "structured",
    "lc_init": "keras",
}
"""How the layers are made at every scale."""

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
    "warmup_epochs": 1,
    "batch_size": 50,
    "lr": 1e-2,
    "validate_every": 6,
}
"""The embedded digits, seconds for all rows."""

SMALL: dict[str, Any] = {**SMOKE, "width": 32, "strides": [2, 2, 1]}
"""For two cores: half the channels, strides that quarter the maps twice; the data sets say how many images."""

PAPER: dict[str, Any] = {
    **SMOKE,
    "images": None,
    "validation": 5000,
    "width": 64,
    "epochs": 150,
    "warmup_epochs": 10,
    "batch_size": 512,
    "validate_every": 10,
}
"""The published setting."""


def run(job: Job, *, moved: bool = False) -> Mapping[str, float]:
    """Train one network; measure it on test, training and, where there are some, validation images.

    Combining weights of low-rank layers are kept beside the record, see :func:`combining_arrays`.

    Args:
        job: the run.
        moved: whether a network that was trained on images in their place is tested on shifted ones as well: the very
            test images of the rows ``shifted-...``.
    """
    wanted = job.settings
    data, validation = _prepared(job)
    seed_all(job.seed)
    channels, size, _ = data.shape
    model = SimpleNet(
        channels,
        size,
        len(data.classes),
        **{key: wanted[key] for key in ("layer", "where", "rank", "width", "strides", *NETWORK)},
    )
    watched = validation if validation is not None else data.test
    seen = fit_classifier(job, model, data.train, watched, metric=("accuracy", hit_rate), origin=data.origin)
    found = {
        TEST.name: 100 * (seen if validation is None else accuracy(model, data.test)),
        TRAIN.name: 100 * accuracy(model, data.train),
        PARAMETERS.name: sum(p.numel() for p in model.parameters()),
    }
    if validation is not None:
        found[VALIDATION.name] = 100 * seen
    if moved and not wanted["shifted"]:
        found[MOVED.name] = 100 * accuracy(model, _moved(data.test, wanted, _TEST_SEED))
    if arrays := combining_arrays(model, data.test):
        save_arrays(job.folder, arrays)
    return found


def _prepared(job: Job) -> tuple[ImageData, Split | None]:
    """Training and test images as the settings want them, and validation images if they want some."""
    wanted = job.settings
    data = load(wanted["data"], folder=job.data, download=job.download)
    if data.shape[1] != data.shape[2]:
        raise InputError(
            f"experiment {job.experiment}", expected="square images", got=str(data.shape), fix="Use other data."
        )
    train, validation = data.train, None
    if wanted["validation"] == "official":
        validation = load(wanted["data"], folder=job.data, download=job.download, evaluate="val").test
    elif wanted["validation"]:
        # Some copies of data sets are sorted by class: a permutation comes first, the same for all rows and seeds.
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        held = int(wanted["validation"])
        validation, train = train.select(order[:held]), train.select(order[held:])
    if wanted["images"] is not None and wanted["images"] < len(train):
        train = train.subset(wanted["images"], seed=0)
    train, test = _as_wanted(train, wanted, 1), _as_wanted(data.test, wanted, _TEST_SEED)
    validation = _as_wanted(validation, wanted, 3) if validation is not None else None
    return ImageData(data.name, train, test, origin=data.origin), validation


def _as_wanted(split: Split, wanted: Mapping[str, Any], seed: int) -> Split:
    """Decoded once; moved, each image once and for good, if the row wants that; scaled."""
    split = split.in_memory()
    if wanted["shifted"]:
        split = _moved(split, wanted, seed)
    if wanted["scaling"] == "symmetric":
        half = (0.5,) * split.shape[0]
        return split.normalized(Normalization(half, half))
    if wanted["scaling"] == "unit":
        return split
    raise InputError("scaling", expected="unit for [0, 1] or symmetric for [-1, 1]", got=repr(wanted["scaling"]))


def _moved(split: Split, wanted: Mapping[str, Any], seed: int) -> Split:
    return split.transformed_once(partial(shifted, shift=wanted["shift"]), seed=seed)


def shifted(images: Tensor, generator: torch.Generator, *, shift: int) -> Tensor:
    """Images ``(n, channels, height, width)`` moved by up to ``shift`` pixels along both axes; borders are continued.

    >>> image = torch.arange(9.0).reshape(1, 1, 3, 3)
    >>> shifted(image, torch.Generator().manual_seed(1), shift=1).shape
    torch.Size([1, 1, 3, 3])
    """
    size = images.shape[-2], images.shape[-1]
    return random_crop(pad(images, (shift,) * 4, mode="replicate"), generator, size=size)
