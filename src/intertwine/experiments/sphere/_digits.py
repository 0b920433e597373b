"""Cohen, Geiger, Köhler & Welling, "Spherical CNNs", ICLR 2018: digits on the sphere.

Digits are projected onto a hemisphere, and left there or rotated at random. A planar network sees the sphere as a
rectangle of rings and azimuths. A spherical network convolves on SO(3) and is invariant by design, so it recognizes
rotated digits after training on upright ones only. The published accuracies are from the paper's table 1, with networks
of about 60,000 weights and 60,000 training images. Our networks are of that size; the small scale has fewer images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from torch import nn

from ... import nn as tnn
from ...data import ImageData, Split, load, onto_sphere
from ...models import SphericalCNN
from ...spaces import Sphere, SphereGrid
from ...train import seed_all
from ..lab._classifier import PARAMETERS, accuracy, fit_classifier, hit_rate
from ..lab._experiment import Experiment, ExperimentRow, Job, Metric, Ordering, Published

UPRIGHT = Metric("upright", "%", "higher", "share of upright test digits that are recognized")
ROTATED = Metric("rotated", "%", "higher", "share of test digits at random rotations that are recognized")


def run(job: Job) -> Mapping[str, float]:
    """Train on upright or on rotated digits, and test on both."""
    s = job.settings
    grid = Sphere().grid("equiangular", band_limit=s["band_limit"])
    data = load(s["data"], folder=job.data, download=job.download)
    order = data.train.subset(min(s["images"] or len(data.train), len(data.train)), seed=0)
    held_out = min(s["validation"], len(order) // 5)
    train = order.select(range(len(order) - held_out))
    validation = order.select(range(len(order) - held_out, len(order)))

    def project(split: Split, seed: int, *, rotate: bool) -> Split:
        return split.transformed_once(partial(onto_sphere, grid=grid, rotate=rotate), seed=seed)

    projected = ImageData(data.name, project(train, 1, rotate=s["rotate"]), project(validation, 2, rotate=s["rotate"]))
    normalized = projected.normalized()
    seed_all(job.seed)
    model = _network(s["network"], grid, len(data.classes), s)
    fit_classifier(job, model, normalized.train, normalized.test, metric=("accuracy", hit_rate), origin=data.origin)
    scores = {
        metric.name: 100 * accuracy(model, project(data.test, 3, rotate=rotate).normalized(projected.normalization))
        for metric, rotate in ((UPRIGHT, False), (ROTATED, True))
    }
    return {**scores, PARAMETERS.name: sum(p.numel() for p in model.parameters())}


def _network(kind: str, grid: SphereGrid, classes: int, settings: Mapping[str, Any]) -> nn.Module:
    if kind == "planar":
        return _planar(grid, classes, settings["planar_widths"])
    widths, band_limits = settings["spherical_widths"], settings["band_limits"]
    if kind == "spins":
        return _spins(grid, classes, [width // 2 for width in widths], band_limits)
    scalars = kind == "scalars"
    return SphericalCNN(
        grid,
        1,
        classes,
        widths=[2 * width for width in widths] if scalars else widths,
        band_limits=band_limits,
        frequencies=[0] * len(widths) if scalars else settings["frequencies"],
    )


def _spins(grid: SphereGrid, classes: int, widths: Sequence[int], band_limits: Sequence[int]) -> nn.Module:
    """Scalars, vectors and tensors, scaled by gates; as many channels as the regular fields have."""
    sphere = Sphere()
    field, layers = sphere.field("trivial"), list[tnn.Layer]()
    for width, band_limit in zip(widths, band_limits, strict=True):
        gated = tnn.Gated(sphere.field(f"{2 * width}*trivial + {2 * width}*irrep1 + {2 * width}*irrep2"))
        finer = sphere.grid(band_limit=round(1.5 * band_limit))
        conv = tnn.SphereConv(field, gated.in_type, grid, out_grid=finer, band_limit=band_limit, bias=False)
        layers += [conv, tnn.BatchNorm(gated.in_type), gated]
        field, grid = gated.out_type, finer
    pool = tnn.GlobalPool(field, grid=grid)
    return nn.Sequential(tnn.Sequential(*layers, pool), nn.Linear(pool.out_type.dim, classes))


def _planar(grid: SphereGrid, classes: int, widths: Sequence[int]) -> nn.Module:
    """Two strided 5 x 5 convolutions and a linear map of all positions, as in the paper."""
    first, second = widths
    positions = prod((((n - 5) // 3 + 1) - 5) // 3 + 1 for n in grid.shape)
    return nn.Sequential(
        *(nn.Conv2d(1, first, 5, stride=3), nn.BatchNorm2d(first), nn.ReLU()),
        *(nn.Conv2d(first, second, 5, stride=3), nn.BatchNorm2d(second), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(second * positions, classes)),
    )


SMALL = {
    "data": "mnist",
    "band_limit": 29,
    "images": 14_000,
    "validation": 2000,
    "epochs": 10,
    "batch_size": 50,
    "lr": 1e-2,
    "planar_widths": [30, 60],
    "spherical_widths": [10, 40],
    "band_limits": [10, 6],
    "frequencies": [2, 2],
}


EXPERIMENT = Experiment(
    name="spherical-digits",
    title="Digits on the sphere: rotations never seen in training",
    reference="Cohen, Geiger, Köhler & Welling 2018, table 1",
    metrics=(ROTATED, UPRIGHT, PARAMETERS),
    rows=(
        ExperimentRow(
            "planar-upright",
            "planar, trained on upright digits",
            {"network": "planar", "rotate": False},
            {ROTATED.name: Published(11.0), UPRIGHT.name: Published(98.0)},
        ),
        ExperimentRow(
            "planar-rotated",
            "planar, trained on rotated digits",
            {"network": "planar", "rotate": True},
            {ROTATED.name: Published(23.0)},
        ),
        ExperimentRow(
            "spherical-upright",
            "spherical, trained on upright digits",
            {"network": "spherical", "rotate": False},
            {ROTATED.name: Published(94.0), UPRIGHT.name: Published(96.0)},
        ),
        ExperimentRow(
            "spherical-rotated",
            "spherical, trained on rotated digits",
            {"network": "spherical", "rotate": True},
            {ROTATED.name: Published(95.0)},
        ),
        ExperimentRow(
            "scalars-upright",
            "scalars only, trained on upright digits (Esteves et al. 2018)",
            {"network": "scalars", "rotate": False},
        ),
        ExperimentRow(
            "spins-upright",
            "scalars, vectors and tensors, trained on upright digits (Esteves et al. 2020)",
            {"network": "spins", "rotate": False},
        ),
    ),
    scales={
        "smoke": {
            **SMALL,
            "data": "digits",
            "band_limit": 9,
            "images": 200,
            "validation": 40,
            "epochs": 1,
            "planar_widths": [4, 8],
            "spherical_widths": [2, 3],
            "band_limits": [4, 2],
            "frequencies": [1, 1],
        },
        "small": SMALL,
        "paper": {**SMALL, "images": None, "epochs": 20},
    },
    seeds={"smoke": 1, "small": 2, "paper": 3},
    orderings=(
        Ordering("spherical-upright", "planar-upright", ROTATED.name),
        Ordering("spherical-rotated", "planar-rotated", ROTATED.name),
    ),
    run=run,
    data={"smoke": "digits", "small": "mnist", "paper": "mnist"},
    watch="val_accuracy",
)
