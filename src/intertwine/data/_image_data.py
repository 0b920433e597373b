"""A dataset: training and test images with shared metadata."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from .._checked import checked
from ._normalization import Normalization, channel_statistics
from ._split import Split
from .sources._factors import FactorGrid

_MAX_MEASURED = 4096


@checked
@dataclass(frozen=True)
class Skipped:
    """An image file that could not be read, and why."""

    path: str
    reason: str


@checked
@dataclass(frozen=True, eq=False, repr=False)
class ImageData:
    """A dataset of images.

    Args:
        name: the dataset's name.
        train: the training images.
        test: the test images; empty if nothing is held out.
        origin: where it was read from. Records of runs contain it.
        skipped: files that could not be read.
        factors: the grid of factors behind the labels, if the labels are factors.

    >>> from intertwine.data import load
    >>> load("digits")
    ImageData(digits: 1437 train, 360 test, 1 x 8 x 8, 10 classes)
    """

    name: str
    train: Split
    test: Split
    origin: str = ""
    skipped: tuple[Skipped, ...] = ()
    factors: FactorGrid | None = None

    def __repr__(self) -> str:
        channels, height, width = self.shape
        return (
            f"ImageData({self.name}: {len(self.train)} train, {len(self.test)} test, "
            f"{channels} x {height} x {width}, {len(self.classes)} classes)"
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by label."""
        return self.train.classes

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""
        return self.train.shape

    @cached_property
    def normalization(self) -> Normalization:
        """Mean and standard deviation per channel of the training images, computed on first use.

        Uses all images if they are in memory, else at most 4096 of them, evenly spaced.

        >>> from intertwine.data import load
        >>> load("digits").normalization
        Normalization(mean=(0.3054,), std=(0.3755,))
        """
        plain = replace(self.train, normalization=None)
        indices = torch.arange(len(plain))
        if not plain.source.in_memory and len(plain) > _MAX_MEASURED:
            indices = torch.linspace(0, len(plain) - 1, _MAX_MEASURED, dtype=torch.float64).round().long()
        return channel_statistics(plain.batch(part)[0] for part in indices.split(512))

    def normalized(self, normalization: Normalization | None = None) -> ImageData:
        """Normalize both splits, by default with the statistics of the training images."""
        normalization = normalization or self.normalization
        return replace(self, train=self.train.normalized(normalization), test=self.test.normalized(normalization))

    def resized(self, size: int | tuple[int, int]) -> ImageData:
        """Resize both splits to this height and width."""
        return replace(self, train=self.train.resized(size), test=self.test.resized(size))

    def subset(self, train: int | None = None, test: int | None = None, *, seed: int = 0) -> ImageData:
        """At most this many samples of each split, with classes as balanced as possible; None keeps all.

        >>> from intertwine.data import load
        >>> load("digits").subset(100, 50)
        ImageData(digits: 100 train, 50 test, 1 x 8 x 8, 10 classes)
        """
        return replace(self, train=_at_most(self.train, train, seed), test=_at_most(self.test, test, seed))

    def in_memory(self) -> ImageData:
        """Decode, render or interpolate all images now, instead of each time they are read."""
        return replace(self, train=self.train.in_memory(), test=self.test.in_memory())


def _at_most(split: Split, n: int | None, seed: int) -> Split:
    return split if n is None or n >= len(split) else split.subset(n, seed=seed)
