"""MNIST with every digit rotated by a random angle."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from ...errors import InputError
from .._choose import balanced
from .._image_data import ImageData
from .._registry import register_dataset
from .._transforms import random_rotation
from ._mnist import MNIST, read_idx_dataset

TRAIN = 12_000
"""The number of training images, as in the benchmark of Larochelle et al. (2007)."""

VALIDATION = 5000


@register_dataset(
    "rotated-mnist",
    about="22000 digits of MNIST, each turned by a random angle.",
    files="the files of mnist, in FOLDER, FOLDER/mnist or FOLDER/MNIST/raw",
)
def rotated_mnist(folder: Path | None, *, download: bool, evaluate: Literal["test", "val"] = "test") -> ImageData:
    """12000 training images and the 10000 test images, rotated by fixed random angles.

    The benchmark of 2007 drew its 12000 and 50000 images differently, so the images are not the same. With ``evaluate``
    "val", the test images are 5000 of the training digits of MNIST that are not among the 12000, rotated too: images to
    choose settings on.
    """
    if evaluate not in ("test", "val"):
        raise InputError("rotated-mnist", expected="evaluate 'test' or 'val'", got=repr(evaluate))
    plain = read_idx_dataset(MNIST, folder, download=download)
    chosen = balanced(plain.train.labels, min(TRAIN, len(plain.train)), seed=0)
    train = plain.train.select(chosen).transformed_once(random_rotation, seed=1)
    if evaluate == "test":
        test = plain.test.transformed_once(random_rotation, seed=2)
    else:
        unused = ~torch.isin(torch.arange(len(plain.train)), chosen)
        others = plain.train.select(unused.nonzero().flatten())
        test = others.subset(min(VALIDATION, len(others)), seed=0).transformed_once(random_rotation, seed=3)
    return ImageData("rotated-mnist", train, test, origin=plain.origin)
