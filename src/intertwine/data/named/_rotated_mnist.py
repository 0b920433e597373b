"""MNIST with every digit rotated by a random angle."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from ...errors import InputError
from .._choose import balanced
from .._image_data import ImageData
from .._registry import register_dataset
from .._split import Split
from .._transforms import random_rotation
from ..sources._source import TensorImages
from ._mnist import MNIST, read_idx_dataset

TRAIN = 12_000
"""The number of training images, as in the benchmark of Larochelle et al. (2007)."""

VALIDATION = 8_000
"""The number of images to choose settings on: what 12,000 training and 50,000 test images leave of MNIST."""


@register_dataset(
    "rotated-mnist",
    about="62000 digits of MNIST, each turned by a random angle.",
    files="the files of mnist, in FOLDER, FOLDER/mnist or FOLDER/MNIST/raw",
)
def rotated_mnist(folder: Path | None, *, download: bool, evaluate: Literal["test", "val"] = "test") -> ImageData:
    """12000 training and 50000 test images, rotated by fixed random angles.

    The benchmark of 2007 has as many images, from the training and test digits of MNIST together; which ones, and their
    angles, are different here. The training images are training digits of MNIST. The test images are its 10000 test
    digits, followed by 40000 of its other training digits. With ``evaluate`` "val", the test images are the remaining
    8000, rotated too: images to choose settings on.
    """
    if evaluate not in ("test", "val"):
        raise InputError("rotated-mnist", expected="evaluate 'test' or 'val'", got=repr(evaluate))
    plain = read_idx_dataset(MNIST, folder, download=download)
    chosen, others = _parted(plain.train, TRAIN)
    aside, rest = _parted(others, VALIDATION)
    if evaluate == "val":
        if not len(aside):
            raise InputError(
                "rotated-mnist",
                expected=f"more than {TRAIN} training digits, to set images for validation aside",
                got=f"{len(plain.train)} in {plain.origin}",
            )
        test = aside.transformed_once(random_rotation, seed=3)
    else:
        parts = [plain.test.transformed_once(random_rotation, seed=2)]
        parts += [rest.transformed_once(random_rotation, seed=4)] if len(rest) else []
        images, labels = torch.cat([part.raw() for part in parts]), torch.cat([part.labels for part in parts])
        test = Split(TensorImages(images, white=255.0), labels, plain.classes)
    train = chosen.transformed_once(random_rotation, seed=1)
    return ImageData("rotated-mnist", train, test, origin=plain.origin)


def _parted(split: Split, n: int) -> tuple[Split, Split]:
    """At most ``n`` samples with balanced classes, and the others."""
    chosen = torch.zeros(len(split), dtype=torch.bool)
    if len(split):
        chosen[balanced(split.labels, min(n, len(split)), seed=0)] = True
    return split.select(chosen.nonzero().flatten()), split.select((~chosen).nonzero().flatten())
