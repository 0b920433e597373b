"""LeCun, Bottou, Bengio & Haffner, "Gradient-based learning applied to document recognition", Proc. IEEE 86 (1998).

Handwritten digits with a linear classifier, a network with one hidden layer, and a convolutional network: the oldest
demonstration that building a symmetry into a network (here translation) pays. The published errors are those of figure
9 of the paper, trained on the 60,000 images of MNIST without distortions.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..data import load
from ..errors import NonFiniteError
from ..models import LeNet5, linear_classifier, multilayer_perceptron
from ..train import TrainConfig, deterministic_loader, fit, seed_all
from ._experiment import Experiment, ExperimentRow, Job, Metric, Ordering, Published


def run(job: Job) -> Mapping[str, float]:
    """Train one network and measure its error on the test images."""
    wanted = job.settings
    data = load(wanted["data"], folder=job.data, download=job.download).normalized()
    train = data.train if wanted["images"] is None else data.train.subset(wanted["images"], seed=0)
    channels, size, _ = data.shape
    seed_all(job.seed)
    build = {"linear": linear_classifier, "mlp": multilayer_perceptron, "lenet5": LeNet5}[wanted["network"]]
    model = build(channels, size, len(data.classes))
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
            f"experiment lenet, row {job.row}",
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


EXPERIMENT = Experiment(
    name="lenet",
    title="Handwritten digits: what convolution gains",
    reference="LeCun, Bottou, Bengio & Haffner 1998, figure 9",
    metrics=(
        Metric("test_error", "%", "lower", "share of test images that are classified wrongly"),
        Metric("parameters", "", "lower", "number of trained weights"),
    ),
    rows=(
        ExperimentRow(
            "linear",
            "linear classifier",
            {"network": "linear"},
            {"test_error": Published(12.0), "parameters": Published(7850)},
        ),
        ExperimentRow("mlp", "300 hidden units", {"network": "mlp"}, {"test_error": Published(4.7)}),
        ExperimentRow("lenet5", "LeNet-5", {"network": "lenet5"}, {"test_error": Published(0.95)}),
    ),
    scales={
        "smoke": {"data": "digits", "images": 1000, "epochs": 10, "batch_size": 50, "lr": 5e-3},
        "small": {"data": "mnist", "images": 10_000, "epochs": 5, "batch_size": 100, "lr": 2e-3},
        "paper": {"data": "mnist", "images": None, "epochs": 20, "batch_size": 100, "lr": 2e-3},
    },
    seeds={"smoke": 1, "small": 3, "paper": 5},
    orderings=(Ordering("mlp", "linear", "test_error"), Ordering("lenet5", "mlp", "test_error")),
    run=run,
    data={"smoke": "digits", "small": "mnist", "paper": "mnist"},
    watch="val_error",
)
