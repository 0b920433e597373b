"""Handwritten digits of 8 x 8 pixels, included in the package. ``digits.txt`` describes their origin."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from .._image_data import ImageData
from .._registry import register_dataset
from .._split import Split
from ..sources._source import TensorImages

TRAIN = 1437
"""The number of training images, the first four fifths of 1797. Consecutive digits are by the same writer, so the last
fifth is by writers with few or no training images."""


@register_dataset(
    "digits", about="1797 handwritten digits, 8 x 8, gray (UCI).", files="none; it comes with the package"
)
def digits(folder: Path | None, *, download: bool) -> ImageData:
    """The first 1437 for training, the last 360 for testing. Pixels are counts from 0 to 16."""
    with (
        (files(__package__) / "digits.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as arrays,
    ):
        images, labels = torch.from_numpy(arrays["images"])[:, None], torch.from_numpy(arrays["labels"]).long()
    classes = tuple(map(str, range(10)))
    train, test = (
        Split(TensorImages(images[part], white=16.0), labels[part], classes)
        for part in (slice(TRAIN), slice(TRAIN, None))
    )
    return ImageData("digits", train, test, origin="embedded")
