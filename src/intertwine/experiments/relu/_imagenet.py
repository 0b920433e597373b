"""Bökman & Kahl 2023, Tables 3 and 5: published ResNet-50s on ImageNet, at 224 and at 225 pixels.

Nothing is trained. ``--data`` holds the images in class folders, ``imagenet/train/CLASS/*`` and
``imagenet/val/CLASS/*``, and the weights in ``weights/``, in the files that the rows name. At 224 pixels every layer
with stride 2 sees an even width, and cannot commute with the mirror; at 225 pixels none does.

The authors trained the networks of the rows with invariance loss and of the rows at 225 pixels themselves. If there is
no file for a row at 225 pixels, it measures the network of the same row at 224 pixels, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._figures import Figure
from ..._warn import warn_caller
from ...data import Normalization, load
from ...errors import InputError
from ...measure import gcnn_barrier, invariance_error, load_network, match
from ...measure.surgery import stride_artifacts
from ...train import seed_all
from ..lab._experiment import Experiment, ExperimentRow, FinishedRun, Job, Metric, Ordering, Published
from ._filters import filter_figures, keep_filters

ERROR = Metric("invariance_error", "", "lower", "‖Φ(x) − Φ(τx)‖ / mean norm, on training images")
ACCURACY = Metric("accuracy", "", "higher", "share of validation images that are classified correctly")
MOVED = Metric("flip_accuracy", "", "higher", "the same for the network with mirrored filters")
HALF_PLAIN = Metric("half_without_repair", "", "higher", "accuracy of the average with its matched mirror image")
HALF = Metric("half", "", "higher", "the same after REPAIR")
BARRIER_PLAIN = Metric("gcnn_barrier_without_repair", "", "lower", "relative loss of accuracy, without REPAIR")
BARRIER = Metric("gcnn_barrier", "", "lower", "relative loss of accuracy, after REPAIR")
STRIDES = Metric("layers_that_cannot_commute", "", "lower", "layers whose stride does not fit the size of the image")
METRICS = (BARRIER, BARRIER_PLAIN, ERROR, ACCURACY, MOVED, HALF_PLAIN, HALF, STRIDES)

# Title, file, size; then invariance error, accuracy, flip accuracy, halfway without and with REPAIR, both barriers.
_TABLE: dict[str, tuple[str, str, int, tuple[float, ...]]] = {
    "new": ("torchvision, new", "resnet50-new.pth", 224, (0.284, 0.803, 0.803, 0.731, 0.759, 0.0893, 0.0545)),
    "old": ("torchvision, old", "resnet50-old.pth", 224, (0.228, 0.761, 0.746, 0.718, 0.725, 0.0467, 0.0384)),
    "old-inv": ("old, invariance loss", "resnet50-inv.pth", 224, (0.0695, 0.754, 0.745, 0.745, 0.745, 0.00636, 0.0054)),
    "old-225": ("old, 225 pixels", "resnet50-225.pth", 225, (0.162, 0.764, 0.764, 0.714, 0.722, 0.0657, 0.0558)),
    "old-inv-225": (
        "old, invariance loss, 225 pixels",
        "resnet50-inv-225.pth",
        225,
        (0.00235, 0.744, 0.745, 0.744, 0.744, 9.4e-5, 6.72e-5),
    ),
    "byol": ("BYOL", "resnet50-byol.pth", 224, (0.292, 0.704, 0.712, 0.573, 0.624, 0.19, 0.118)),
    "dino": ("DINO", "resnet50-dino.pth", 224, (0.169, 0.753, 0.744, 0.611, 0.624, 0.184, 0.166)),
    "moco": ("MoCo v3", "resnet50-moco.pth", 224, (0.16, 0.746, 0.735, 0.64, 0.681, 0.136, 0.0805)),
    "simsiam": ("SimSiam", "resnet50-simsiam.pth", 224, (0.174, 0.683, 0.667, 0.505, 0.593, 0.252, 0.121)),
    "simsiam-225": (
        "SimSiam, 225 pixels",
        "resnet50-simsiam-225.pth",
        225,
        (0.113, 0.68, 0.68, 0.535, 0.611, 0.213, 0.103),
    ),
}
_ORDER = (ERROR, ACCURACY, MOVED, HALF_PLAIN, HALF, BARRIER_PLAIN, BARRIER)
IMAGENET = Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def run(job: Job) -> Mapping[str, float]:
    """Load one network, match it with its mirror image and merge the two."""
    settings = job.settings
    seed_all(job.seed)
    weights = _weights(job)
    options = {} if settings["classes"] is None else {"num_classes": settings["classes"]}
    model = load_network(f"timm:{settings['network']}", weights=weights, options=options).model.eval()
    images, test = _images(job)
    free = match(model, images, "hflip", constrained=False, batch_size=settings["batch_size"])
    barriers = gcnn_barrier(
        model, images, "hflip", test, matching=free, batch_size=settings["batch_size"], control=False
    )
    size = images.shape[-1]
    keep_filters(job.folder, model, free)
    return {
        ERROR.name: invariance_error(model, images, "hflip", batch_size=settings["batch_size"]).mean,
        ACCURACY.name: barriers.plain.first,
        MOVED.name: barriers.plain.second,
        HALF_PLAIN.name: barriers.plain.merged,
        HALF.name: barriers.repaired.merged,
        BARRIER_PLAIN.name: barriers.plain.relative,
        BARRIER.name: barriers.repaired.relative,
        STRIDES.name: len(stride_artifacts(model, (3, size, size), "hflip").artifacts),
    }


def _weights(job: Job) -> Path | None:
    if job.settings["network"] != "resnet50":
        return None  # the smoke scale uses a small untrained network
    folder = (job.data or Path()) / "weights"
    path, smaller = (folder / job.settings[key] for key in ("file", "file_224"))
    if not path.exists() and smaller.exists():
        warn_caller(f"{path}: no such file; measuring {smaller}, which was trained at 224 pixels", UserWarning)
        return smaller
    if not path.exists():
        raise InputError(
            f"experiment {job.experiment}, row {job.row}",
            expected=f"weights of a ResNet-50 in {path}",
            got="no such file",
            fix="Copy the published weights there, as safetensors or as a torch file of tensors.",
        )
    return path


def _images(job: Job) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Training images to match on, test images and labels to score on."""
    settings: Mapping[str, Any] = job.settings
    options: dict[str, Any] = {
        "folder": job.data,
        "download": job.download,
        "size": settings["size"] + settings["more"],
    }
    if settings["data"] == "imagenet":
        options |= {"channels": 3, "bicubic": True, "crop_ratio": 0.875}
    data = load(settings["data"], **options)
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))[: settings["matched_images"]]
    test = data.test if settings["test_images"] is None else data.test.subset(settings["test_images"])
    scale = IMAGENET if data.shape[0] == 3 else Normalization((0.5,), (0.5,))
    images = data.train.select(order).normalized(scale).as_tensors()[0]
    pictures, labels = test.normalized(scale).as_tensors()
    return images.expand(-1, 3, -1, -1), (pictures.expand(-1, 3, -1, -1), labels)


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Filters next to their matched partners, by row."""
    titles = {name: title for name, (title, *_) in _TABLE.items()}
    return [figure for row, title in titles.items() for figure in filter_figures(runs, row, title)]


EXPERIMENT = Experiment(
    name="relu-imagenet",
    title="Published ResNets and the mirror: even and odd sizes",
    reference="Bökman & Kahl 2023, Tables 3 and 5, ImageNet",
    metrics=METRICS,
    rows=tuple(
        ExperimentRow(
            name,
            title,
            {"file": file, "file_224": _TABLE[name.removesuffix("-225")][1], "more": size - 224},
            {metric.name: Published(value) for metric, value in zip(_ORDER, values, strict=True)},
        )
        for name, (title, file, size, values) in _TABLE.items()
    ),
    scales={
        "smoke": {
            "data": "digits",
            "network": "test_resnet",
            "classes": 10,
            "size": 32,
            "matched_images": 20,
            "test_images": 40,
            "batch_size": 20,
        },
        "small": {
            "data": "imagenet",
            "network": "resnet50",
            "classes": None,
            "size": 224,
            "matched_images": 500,
            "test_images": 1000,
            "batch_size": 50,
        },
        "paper": {
            "data": "imagenet",
            "network": "resnet50",
            "classes": None,
            "size": 224,
            "matched_images": 5000,
            "test_images": None,
            "batch_size": 200,
        },
    },
    seeds={"smoke": 1, "small": 1, "paper": 1},
    orderings=(
        Ordering("old-inv", "old", BARRIER.name),
        Ordering("old-inv-225", "old-225", BARRIER.name),
        Ordering("old", "byol", BARRIER.name),
    ),
    run=run,
    data={"smoke": "digits", "small": "imagenet", "paper": "imagenet"},
    figures=figures,
)
