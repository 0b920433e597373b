"""What the experiments on labeled images share: train one network, measure its error on the test images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ..data import load
from ..errors import NonFiniteError
from ..train import TrainConfig, deterministic_loader, fit, seed_all
from ._experiment import Job, Metric

TEST_ERROR = Metric("test_error", "%", "lower", "share of test images that are classified wrongly")
PARAMETERS = Metric("parameters", "", "lower", "number of trained weights")


def train_classifier(job: Job, build: Callable[[tuple[int, int, int], int], nn.Module]) -> Mapping[str, float]:
    """Train by Adam with a cosine schedule, and return ``test_error`` and ``parameters``.

    The settings name ``data``, ``images`` (of the training set, None for all), ``epochs``, ``batch_size`` and ``lr``.

    Args:
        job: the run.
        build: makes the network from the shape of the images and the number of classes, after the seed was set.
    """
    wanted = job.settings
    data = load(wanted["data"], folder=job.data, download=job.download).normalized()
    train = data.train if wanted["images"] is None else data.train.subset(wanted["images"], seed=0)
    seed_all(job.seed)
    model = build(data.shape, len(data.classes))
    config = TrainConfig(
        epochs=wanted["epochs"],
        batch_size=wanted["batch_size"],
        optimizer="adam",
        lr=wanted["lr"],
        schedule="cosine",
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
    )
    result = fit(
        model,
        cross_entropy,
        deterministic_loader(train, config.batch_size, seed=job.seed, shuffle=True),
        config,
        folder=job.folder / "fit",
        val_loader=deterministic_loader(data.test, 500, seed=job.seed, shuffle=False),
        metrics={"error": error_rate},
        loggers=job.loggers(),
        about={"row": job.row, "data": data.origin, **wanted},
        progress=job.progress,
    )
    error = result.metrics["val_error"]
    if error is None:
        raise NonFiniteError(
            f"experiment {job.experiment}, row {job.row}",
            expected="a finite test error",
            got="NaN",
            fix="Lower the learning rate.",
        )
    return {"test_error": 100 * error, "parameters": sum(p.numel() for p in model.parameters())}


def cross_entropy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The mean negative log-likelihood of the labels."""
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)


def error_rate(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The share of images whose most likely class is wrong."""
    images, labels = batch
    return (model(images).argmax(1) != labels).to(torch.float64).mean()
