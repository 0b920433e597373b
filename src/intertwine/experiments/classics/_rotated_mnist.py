"""Cohen & Welling, "Group equivariant convolutional networks", ICML 2016: digits rotated by random angles.

Compares a network that is equivariant to quarter turns with a plain one that has as many weights. The published errors
are from the paper's table, for Z2CNN, P4CNN and P4CNN with rotation pooling, on the 12,000 training images of rotated
MNIST. Networks and numbers of images are the published ones; our images are MNIST rotated by other random angles, and
the paper does not give its rates of learning and dropout. Dropout was chosen on other digits of MNIST, for the C4
network only, out of two values; the learning rate was written down once. The other rows go
beyond the paper: D4, smaller networks with the field types of other publications, and larger networks, whose widths
were chosen on validation images with short runs for C8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from ...data import random_rotation
from ...groups import parse_finite
from ..lab._classifier import PARAMETERS, TEST_ERROR, VALIDATION_ERROR, train_classifier
from ..lab._experiment import Experiment, ExperimentRow, Job, Ordering, Published
from ._large_network import LargeNetwork
from ._plane_types import plane_network
from ._seven_layers import GroupSevenLayers, plain_seven_layers


def run(job: Job) -> Mapping[str, float]:
    """Train one network and measure its error on the test images."""
    settings = job.settings

    def build(shape: tuple[int, int, int], classes: int) -> nn.Module:
        if "fields" in settings:
            return plane_network(settings["fields"], shape[0], classes, widths=settings["widths"])
        if "large" in settings:
            group = parse_finite(settings["large"])
            return LargeNetwork(group, shape[0], classes, widths=settings["widths"], dropout=0.3)
        options = {key: settings[key] for key in ("width", "dropout")}
        if settings["group"] is None:
            return plain_seven_layers(shape[0], classes, **options)
        group = parse_finite(settings["group"])
        return GroupSevenLayers(group, shape[0], classes, pooled=settings["pooled"], **options)

    # The larger networks would otherwise know all images by heart.
    return train_classifier(job, build, transform=random_rotation if "large" in settings else None)


def _seven(name: str, title: str, group: str | None, width: int, *, pooled: bool = False) -> ExperimentRow:
    published = {"plain": 5.03, "c4-pooled": 3.21, "c4": 2.28}
    numbers = {TEST_ERROR.name: Published(published[name])} if name in published else {}
    return ExperimentRow(name, title, {"group": group, "width": width, "pooled": pooled}, numbers)


_ROTATED: dict[str, Any] = {
    "data": "rotated-mnist",
    "size": 28,
    "images": 12_000,
    "validation": "official",
    "batch_size": 64,
    "lr": 3e-3,
    "dropout": 0.0,
    "validate_every": 5,
}

EXPERIMENT = Experiment(
    name="rotated-mnist",
    title="Digits at any angle: the gain from symmetry at equal size",
    reference="Cohen & Welling 2016, table of rotated MNIST",
    metrics=(TEST_ERROR, VALIDATION_ERROR, PARAMETERS),
    rows=(
        _seven("plain", "Z2CNN, plain", None, 20),
        _seven("c4-pooled", "P4CNN with rotation pooling", "C4", 20, pooled=True),
        _seven("c4", "P4CNN, quarter turns", "C4", 10),
        _seven("d4", "the same for D4, with mirrors", "D4", 7),
        *(
            ExperimentRow(name, title, {"fields": name, "widths": widths})
            for name, title, widths in (
                ("c8", "C8, regular fields", [8, 13, 17]),
                ("c4-types", "C4, regular fields, vectors and signs (Cohen & Welling 2017)", [4, 6, 7]),
                ("c6-hexagonal", "C6 on the hexagonal lattice (Hoogeboom et al. 2018)", [7, 11, 14]),
                ("c8-free", "C8, free filters (Zhou et al. 2017; Bekkers et al. 2018)", [6, 9, 12]),
                ("c8-vectors", "C8, orientation pooling (Marcos et al. 2017)", [16, 25, 34]),
                ("so2", "SO(2), frequencies 0 to 2 (Worrall et al. 2017)", [8, 14, 18]),
                ("o2", "O(2), frequencies 0 to 2 (Weiler & Cesa 2019)", [12, 19, 25]),
            )
        ),
        *(
            ExperimentRow(
                f"{group.lower()}-large",
                title,
                {"large": group, "widths": widths},
                scales={"smoke": {"widths": [1] * 5}, "small": {"epochs": 30}},
            )
            for group, title, widths in (
                ("C16", "C16, larger, new rotations in every epoch (after Weiler & Cesa 2019)", [4, 6, 8, 16, 64]),
                ("D16", "D16, then C16, larger, the same", [2, 3, 4, 8, 64]),
            )
        ),
        ExperimentRow(
            "c16-wide",
            "C16, larger, twice as many fields, 12 epochs",
            {"large": "C16", "widths": [8, 12, 16, 32, 64], "precision": "auto"},
            scales={"smoke": {"widths": [1] * 5}, "small": {"epochs": 12}},
        ),
    ),
    scales={
        "smoke": {
            "data": "digits",
            "size": 28,
            "images": 300,
            "validation": 100,
            "epochs": 2,
            "batch_size": 50,
            "lr": 1e-2,
            "dropout": 0.0,
            "validate_every": 2,
        },
        "small": {**_ROTATED, "epochs": 40},
        "paper": {**_ROTATED, "epochs": 200},
    },
    seeds={"smoke": 1, "small": 2, "paper": 5},
    orderings=(
        Ordering("c4", "plain", "test_error"),
        Ordering("c4", "c4-pooled", "test_error"),
        Ordering("c4-pooled", "plain", "test_error"),
    ),
    run=run,
    data={"smoke": "digits", "small": "rotated-mnist", "paper": "rotated-mnist"},
    watch="val_error",
)
