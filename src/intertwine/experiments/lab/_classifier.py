"""Shared by experiments on labeled images: train one network and measure its error on the test images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from ...data import AugmentedSplit, ImageData, Split, Transform, load
from ...errors import InputError, NonFiniteError
from ...train import DeterministicLoader, TrainConfig, deterministic_loader, fit, seed_all
from ._experiment import Job, Metric

TEST_ERROR = Metric("test_error", "%", "lower", "share of test images that are classified wrongly")
VALIDATION_ERROR = Metric(
    "validation_error",
    "%",
    "lower",
    "share of wrong answers on images set aside to choose settings on",
    beside=TEST_ERROR.name,
)
PARAMETERS = Metric("parameters", "", "lower", "number of trained weights")
_EVALUATION_BATCH = 500


def train_classifier(
    job: Job, build: Callable[[tuple[int, int, int], int], nn.Module], *, transform: Transform | None = None
) -> Mapping[str, float]:
    """Train with Adam and a cosine schedule, and return ``test_error``, ``validation_error`` and ``parameters``.

    The settings contain those of :func:`load_parts` and :func:`fit_classifier`, and optionally ``size``, to which
    images are resized.

    Args:
        job: the run.
        build: builds the network from the shape of the images and the number of classes; called after seeding.
        transform: draws a new version of each training image in every epoch.
    """
    data, validation = load_parts(job)
    normalization = data.normalization
    data = data.normalized(normalization)
    validation = validation.normalized(normalization) if validation is not None else None
    size = job.settings.get("size", data.shape[1])
    if size != data.shape[1]:
        data, validation = data.resized(size), validation.resized(size) if validation is not None else None
    seed_all(job.seed)
    model = build(data.shape, len(data.classes))
    train = data.train if transform is None else data.train.in_memory().with_transform(transform)
    watched = fit_classifier(
        job,
        model,
        train,
        validation if validation is not None else data.test,
        metric=("error", error_rate),
        origin=data.origin,
    )
    metrics = {PARAMETERS.name: sum(p.numel() for p in model.parameters())}
    if validation is None:
        return {TEST_ERROR.name: 100 * watched, **metrics}
    test_error = 100 * (1 - accuracy(model, data.test))
    return {TEST_ERROR.name: test_error, VALIDATION_ERROR.name: 100 * watched, **metrics}


def load_parts(job: Job) -> tuple[ImageData, Split | None]:
    """Training and test images of a job, and images to choose settings on, if the job sets any aside.

    The settings contain ``data``; ``images``, the number of training images, None for all; and optionally
    ``validation``: how many training images to set aside, or "official" for the data set's own. Rows and seeds share
    them.
    """
    settings = job.settings
    data = load(settings["data"], folder=job.data, download=job.download)
    train, validation, aside = data.train, None, settings.get("validation", 0)
    if aside == "official":
        validation = load(settings["data"], folder=job.data, download=job.download, evaluate="val").test
    elif aside:
        if aside >= len(train):
            raise InputError(
                f"experiment {job.experiment}",
                expected=f"fewer validation images than the {len(train)} images of {data.name}",
                got=f"validation={aside}",
            )
        # Some copies of data sets are sorted by class, so permute first.
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        train, validation = train.select(order[int(aside) :]), train.select(order[: int(aside)])
    return replace(data, train=train).subset(settings["images"]), validation


def validation_loader(split: Split | None, *, seed: int) -> DeterministicLoader | None:
    """Batches of the images to validate on, if there are any."""
    return deterministic_loader(split, _EVALUATION_BATCH, seed=seed, shuffle=False) if split is not None else None


def fit_classifier(
    job: Job,
    model: nn.Module,
    train: Split | AugmentedSplit,
    watched: Split,
    *,
    metric: tuple[str, Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]],
    origin: str,
) -> float:
    """Train with Adam and a cosine schedule, and return the final metric on the watched images.

    The settings contain ``epochs``, ``batch_size`` and ``lr``, and optionally ``warmup_epochs`` (default 0), during
    which the rate rises from 0, ``validate_every`` (default 1), the epochs between validations, and ``precision``.

    Args:
        job: the run.
        model: the network, trained in place.
        train: training images.
        watched: images to validate on; they do not influence the training.
        metric: the name of the metric, and a function that returns its mean over a batch.
        origin: the source of the images.
    """
    settings, (name, function) = job.settings, metric
    batches = deterministic_loader(train, settings["batch_size"], seed=job.seed, shuffle=True)
    config = TrainConfig(
        epochs=settings["epochs"],
        batch_size=settings["batch_size"],
        optimizer="adam",
        lr=settings["lr"],
        schedule="cosine",
        warmup_steps=round(settings.get("warmup_epochs", 0) * len(batches)),
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
        validate_every=settings.get("validate_every", 1),
        precision=settings.get("precision", "32"),
    )
    result = fit(
        model,
        cross_entropy,
        batches,
        config,
        folder=job.folder / "fit",
        val_loader=validation_loader(watched, seed=job.seed),
        metrics={name: function},
        loggers=job.loggers(),
        about={"row": job.row, "data": origin, **settings},
        progress=job.progress,
    )
    value = result.metrics[f"val_{name}"]
    if value is None:
        raise NonFiniteError(
            f"experiment {job.experiment}, row {job.row}",
            expected=f"a finite {name}",
            got="NaN",
            fix="Lower the learning rate.",
        )
    return value


def cross_entropy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The mean negative log-likelihood of the labels."""
    images, labels = batch
    # With channels last, a step of the networks for CIFAR-10 takes 5 to 10 % less time on a CPU.
    return nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)


def error_rate(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The share of images whose most likely class is wrong."""
    images, labels = batch
    return (model(images).argmax(1) != labels).to(torch.float64).mean()


def hit_rate(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The share of images whose most likely class is correct."""
    return 1 - error_rate(model, batch)


@torch.no_grad()
def accuracy(model: nn.Module, split: Split) -> float:
    """The share of images of a split whose most likely class is correct, with the model in evaluation mode."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    correct = 0
    for indices in torch.arange(len(split)).split(_EVALUATION_BATCH):
        images, labels = split.batch(indices)
        correct += int((model(images.to(device)).argmax(1).cpu() == labels).sum())
    model.train(was_training)
    return correct / len(split)
