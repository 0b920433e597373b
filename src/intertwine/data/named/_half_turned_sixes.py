"""Sixes, upright and rotated by 180°: the simplest task that no rotation-invariant classifier can solve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from .._image_data import ImageData
from .._registry import register_dataset
from .._split import Split
from ..sources._source import TensorImages
from ._digits import digits
from ._mnist import MNIST, read_idx_dataset

CLASSES = ("upright", "turned by 180°")
_SIX = 6


@register_dataset(
    "mnist6-180",
    about="The 6876 sixes of MNIST, each upright and turned by 180°, labeled by which it is.",
    files="the files of mnist, in FOLDER, FOLDER/mnist or FOLDER/MNIST/raw",
)
def mnist6_180(folder: Path | None, *, download: bool) -> ImageData:
    """11836 images for training and 1916 for testing. Each image is followed by its half turn."""
    return half_turned_sixes("mnist6-180", read_idx_dataset(MNIST, folder, download=download))


@register_dataset(
    "digits6-180",
    about="The sixes of digits, each upright and turned by 180°, labeled by which it is.",
    files="none; it comes with the package",
)
def digits6_180(folder: Path | None, *, download: bool) -> ImageData:
    """The same for the small digits in the package."""
    return half_turned_sixes("digits6-180", digits(folder, download=download))


def half_turned_sixes(name: str, data: ImageData) -> ImageData:
    """The sixes of a dataset of digits, each followed by its half turn."""
    train, test = _both_ways(data.train), _both_ways(data.test)
    return replace(data, name=name, train=train, test=test)


def _both_ways(split: Split) -> Split:
    sixes = split.select((split.labels == _SIX).nonzero()[:, 0])
    raw = sixes.raw()
    images = torch.stack([raw, raw.rot90(2, (-2, -1))], 1).flatten(0, 1)
    labels = torch.tensor([0, 1]).repeat(len(raw))
    return Split(TensorImages(images, white=split.source.white), labels, CLASSES)
