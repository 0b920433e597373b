"""A dataset: training and test images, and what belongs to both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from .._checked import checked
from ._normalization import Normalization, channel_statistics
from ._split import Split
from .sources._factors import FactorGrid

_MEASURED = 4096


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
        name: what it is called.
        train: the training images.
        test: the test images; empty if nothing is held out.
        origin: where it was read from, for the record of a run.
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
        """Names of the classes, by label."""
        return self.train.classes

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        return self.train.shape

    @cached_property
    def normalization(self) -> Normalization:
        """Mean and standard deviation of the channels of the training images, measured when first asked for.

        All images count if they are in memory; else at most 4096 of them, evenly spaced.

        >>> from intertwine.data import load
        >>> load("digits").normalization
        Normalization(mean=(0.3054,), std=(0.3755,))
        """
        plain = replace(self.train, normalization=None)
        indices = torch.arange(len(plain))
        if not plain.source.in_memory and len(plain) > _MEASURED:
            indices = torch.linspace(0, len(plain) - 1, _MEASURED, dtype=torch.float64).round().long()
        return channel_statistics(plain.batch(part)[0] for part in indices.split(512))

    def normalized(self, normalization: Normalization | None = None) -> ImageData:
        """Both splits normalized by the statistics of the training images, or by those given."""
        chosen = normalization or self.normalization
        return replace(self, train=self.train.normalized(chosen), test=self.test.normalized(chosen))

    def resized(self, size: int | tuple[int, int]) -> ImageData:
        """Both splits at this height and width."""
        return replace(self, train=self.train.resized(size), test=self.test.resized(size))

    def subset(self, train: int | None = None, test: int | None = None, *, seed: int = 0) -> ImageData:
        """At most this many samples of each split, the classes as equally frequent as they allow; None keeps all.

        >>> from intertwine.data import load
        >>> load("digits").subset(100, 50)
        ImageData(digits: 100 train, 50 test, 1 x 8 x 8, 10 classes)
        """
        return replace(self, train=_at_most(self.train, train, seed), test=_at_most(self.test, test, seed))

    def in_memory(self) -> ImageData:
        """Both splits with every image decoded, rendered or interpolated now instead of at each reading."""
        return replace(self, train=self.train.in_memory(), test=self.test.in_memory())


def _at_most(split: Split, n: int | None, seed: int) -> Split:
    return split if n is None or n >= len(split) else split.subset(n, seed)
