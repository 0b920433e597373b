"""LeCun, Bottou, Bengio & Haffner, "Gradient-based learning applied to document recognition", Proc. IEEE 86 (1998).

Handwritten digits with a linear classifier, a network with one hidden layer, and a convolutional network: the oldest
demonstration that it pays to build a symmetry into a network (here translation). The published errors are from figure 9
of the paper, for training on the 60,000 images of MNIST without distortions.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...models import LeNet5, linear_classifier, multilayer_perceptron
from ..lab._classifier import PARAMETERS, TEST_ERROR, VALIDATION_ERROR, train_classifier
from ..lab._experiment import Experiment, ExperimentRow, Job, Ordering, Published


def run(job: Job) -> Mapping[str, float]:
    """Train one network and measure its error on the test images."""
    build = {"linear": linear_classifier, "mlp": multilayer_perceptron, "lenet5": LeNet5}[job.settings["network"]]
    return train_classifier(job, lambda shape, classes: build(shape[0], shape[1], classes))


EXPERIMENT = Experiment(
    name="lenet",
    title="Handwritten digits: the gain from convolution",
    reference="LeCun, Bottou, Bengio & Haffner 1998, figure 9",
    metrics=(TEST_ERROR, VALIDATION_ERROR, PARAMETERS),
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
        "smoke": {"data": "digits", "images": 1000, "validation": 200, "epochs": 10, "batch_size": 50, "lr": 5e-3},
        "small": {"data": "mnist", "images": 10_000, "validation": 5000, "epochs": 5, "batch_size": 100, "lr": 2e-3},
        "paper": {"data": "mnist", "images": None, "validation": 5000, "epochs": 20, "batch_size": 100, "lr": 2e-3},
    },
    seeds={"smoke": 1, "small": 3, "paper": 5},
    orderings=(Ordering("mlp", "linear", "test_error"), Ordering("lenet5", "mlp", "test_error")),
    run=run,
    data={"smoke": "digits", "small": "mnist", "paper": "mnist"},
    watch="val_error",
)
