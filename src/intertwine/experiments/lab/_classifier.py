"""What the experiments on labeled images share: train one network, measure its error on the test images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ...data import Split, load
from ...errors import NonFiniteError
from ...train import TrainConfig, deterministic_loader, fit, seed_all
from ._experiment import Job, Metric

TEST_ERROR = Metric("test_error", "%", "lower", "share of test images that are classified wrongly")
PARAMETERS = Metric("parameters", "", "lower", "number of trained weights")
_EVALUATED = 500


def train_classifier(job: Job, build: Callable[[tuple[int, int, int], int], nn.Module]) -> Mapping[str, float]:
    """Train by Adam with a cosine schedule, and return ``test_error`` and ``parameters``.

    The settings name ``data`` and ``images`` (of the training set, None for all), and what :func:`fit_classifier`
    wants.

    Args:
        job: the run.
        build: makes the network from the shape of the images and the number of classes, after the seed was set.
    """
    wanted = job.settings
    data = load(wanted["data"], folder=job.data, download=job.download).normalized()
    train = data.train if wanted["images"] is None else data.train.subset(wanted["images"], seed=0)
    seed_all(job.seed)
    model = build(data.shape, len(data.classes))
    error = fit_classifier(job, model, train, data.test, metric=("error", error_rate), origin=data.origin)
    return {"test_error": 100 * error, "parameters": sum(p.numel() for p in model.parameters())}


def fit_classifier(
    job: Job,
    model: nn.Module,
    train: Split,
    watched: Split,
    *,
    metric: tuple[str, Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor]],
    origin: str,
) -> float:
    """Train by Adam with a cosine schedule, and return the metric on the images watched, at the end.

    The settings name ``epochs``, ``batch_size`` and ``lr``, and may name ``warmup_epochs`` (0) of a rate that rises
    from 0, and ``validate_every`` (1), epochs between looks at the images watched.

    Args:
        job: the run.
        model: the network; it is trained in place.
        train: images to learn from.
        watched: images to measure on, which do not influence the training.
        metric: its name, and the metric as a mean over a batch.
        origin: where the images are from.
    """
    wanted, (name, function) = job.settings, metric
    batches = deterministic_loader(train, wanted["batch_size"], seed=job.seed, shuffle=True)
    config = TrainConfig(
        epochs=wanted["epochs"],
        batch_size=wanted["batch_size"],
        optimizer="adam",
        lr=wanted["lr"],
        schedule="cosine",
        warmup_steps=wanted.get("warmup_epochs", 0) * len(batches),
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
        validate_every=wanted.get("validate_every", 1),
    )
    result = fit(
        model,
        cross_entropy,
        batches,
        config,
        folder=job.folder / "fit",
        val_loader=deterministic_loader(watched, _EVALUATED, seed=job.seed, shuffle=False),
        metrics={name: function},
        loggers=job.loggers(),
        about={"row": job.row, "data": origin, **wanted},
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
    return nn.functional.cross_entropy(model(images), labels)


def error_rate(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The share of images whose most likely class is wrong."""
    images, labels = batch
    return (model(images).argmax(1) != labels).to(torch.float64).mean()


def hit_rate(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The share of images whose most likely class is right."""
    return 1 - error_rate(model, batch)


@torch.no_grad()
def accuracy(model: nn.Module, split: Split) -> float:
    """The share of images of a split whose most likely class is right, by a model that is evaluated."""
    was, device = model.training, next(model.parameters()).device
    model.eval()
    right = 0
    for at in torch.arange(len(split)).split(_EVALUATED):
        images, labels = split.batch(at)
        right += int((model(images.to(device)).argmax(1).cpu() == labels).sum())
    model.train(was)
    return right / len(split)
