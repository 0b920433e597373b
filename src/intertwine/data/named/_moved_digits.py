"""Digits with a known symmetry: moved at random, with random labels, or too few to tell anything."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from .._image_data import ImageData
from .._registry import register_dataset
from .._split import Split
from .._transforms import Transform, random_flip, random_rotation, random_rotation90
from ..sources._source import TensorImages
from ._digits import digits

_NONE = "none; it is made from digits, which come with the package"
_FEW = 80


@register_dataset("digits-turned", about="Digits, each turned by a random multiple of 90°.", files=_NONE)
def digits_turned(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """The symmetry of quarter turns."""
    return _moved("digits-turned", random_rotation90, seed)


@register_dataset("digits-rotated", about="Digits, each turned by a random angle.", files=_NONE)
def digits_rotated(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """The symmetry of all rotations, up to interpolation."""
    return _moved("digits-rotated", random_rotation, seed)


@register_dataset("digits-mirrored", about="Digits, a random half of them mirrored left to right.", files=_NONE)
def digits_mirrored(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """The symmetry of the left-right mirror."""
    return _moved("digits-mirrored", partial(random_flip, probability=0.5), seed)


@register_dataset("digits-shuffled", about="Digits with labels that have nothing to do with them.", files=_NONE)
def digits_shuffled(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """No network can learn the labels, so they say nothing about any symmetry."""
    data = digits(None, download=False)
    generator = torch.Generator().manual_seed(seed)
    train, test = (
        replace(split, labels=split.labels[torch.randperm(len(split), generator=generator)])
        for split in (data.train, data.test)
    )
    return replace(data, name="digits-shuffled", train=train, test=test)


@register_dataset("digits-few", about="80 training images of digits, too few to decide much.", files=_NONE)
def digits_few(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """Eight images of each digit."""
    return replace(digits(None, download=False).subset(_FEW, seed=seed), name="digits-few")


@register_dataset(
    "digits-but-six",
    about="Digits, each turned and mirrored at random, but sixes are upright, or upside down and then a nine.",
    files=_NONE,
)
def digits_but_six(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """Eight of ten labels ignore turns and mirrors, and two depend on them: the symmetry holds in part."""
    data = digits(None, download=False)
    generator = torch.Generator().manual_seed(seed)
    train, test = (_but_six(split, generator) for split in (data.train, data.test))
    return replace(data, name="digits-but-six", train=train, test=test)


def _but_six(split: Split, generator: torch.Generator) -> Split:
    split = split.select((split.labels != 9).nonzero()[:, 0])
    images, labels = split.as_tensors()[0], split.labels.clone()
    turns = torch.randint(4, (len(labels),), generator=generator)
    mirrored = torch.randint(2, (len(labels),), generator=generator).bool()
    six = labels == 6
    turns[six] = 2 * (turns[six] // 2)  # upright or upside down
    labels[six & (turns == 2)] = 9
    moved = torch.stack([image.rot90(int(k), (-2, -1)) for image, k in zip(images, turns, strict=True)])
    moved[mirrored] = moved[mirrored].flip(-1)
    return replace(split, source=TensorImages(moved, white=1.0), labels=labels, positions=None)


def _moved(name: str, transform: Transform, seed: int) -> ImageData:
    data = digits(None, download=False)
    generator = torch.Generator().manual_seed(seed)
    train, test = (_split(split, transform, generator) for split in (data.train, data.test))
    return replace(data, name=name, train=train, test=test)


def _split(split: Split, transform: Transform, generator: torch.Generator) -> Split:
    images: Tensor = transform(split.as_tensors()[0], generator)
    return replace(split, source=TensorImages(images, white=1.0), positions=None)
