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
_SEED = 180  # chooses the half that is turned


@register_dataset(
    "mnist6-180",
    about="The 6876 sixes of MNIST, a random half of them turned by 180°, labeled by which it is.",
    files="the files of mnist, in FOLDER, FOLDER/mnist or FOLDER/MNIST/raw",
)
def mnist6_180(folder: Path | None, *, download: bool) -> ImageData:
    """5918 images for training and 958 for testing."""
    return half_turned_sixes("mnist6-180", read_idx_dataset(MNIST, folder, download=download))


@register_dataset(
    "digits6-180",
    about="The sixes of digits, a random half of them turned by 180°, labeled by which it is.",
    files="none; it comes with the package",
)
def digits6_180(folder: Path | None, *, download: bool, seed: int = _SEED) -> ImageData:
    """The same for the small digits in the package; the seed chooses the half that is turned."""
    return half_turned_sixes("digits6-180", digits(folder, download=download), seed)


def half_turned_sixes(name: str, data: ImageData, seed: int = _SEED) -> ImageData:
    """The sixes of a dataset of digits, a random half of them turned; the halves are the same on every call."""
    generator = torch.Generator().manual_seed(seed)
    train, test = (_half_turned(split, generator) for split in (data.train, data.test))
    return replace(data, name=name, train=train, test=test)


def _half_turned(split: Split, generator: torch.Generator) -> Split:
    sixes = split.select((split.labels == _SIX).nonzero()[:, 0])
    images = sixes.raw().clone()
    labels = torch.zeros(len(images), dtype=torch.int64)
    labels[torch.randperm(len(images), generator=generator)[: len(images) // 2]] = 1
    images[labels == 1] = images[labels == 1].rot90(2, (-2, -1))
    return Split(TensorImages(images, white=split.source.white), labels, CLASSES)
