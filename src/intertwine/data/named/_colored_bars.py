"""Colored bars: labeled by color, which depends on the order of the channels, or by direction, which doesn't."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from .._image_data import ImageData
from .._registry import register_dataset
from .._split import Split
from ..sources._source import TensorImages

_FILES = "none; it is computed"
_TRAIN, _TEST, _SIZE = 800, 200, 8
_NOISE = 0.25


@register_dataset("bars-by-color", about="Red, green and blue bars in noise, labeled by color.", files=_FILES)
def bars_by_color(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """Permuting the channels changes the label."""
    return _data("bars-by-color", 0, ("red", "green", "blue"), seed)


@register_dataset("bars-by-direction", about="Red, green and blue bars in noise, labeled by direction.", files=_FILES)
def bars_by_direction(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """Permuting the channels does not change the label; quarter turns do."""
    return _data("bars-by-direction", 1, ("horizontal", "vertical"), seed)


def _data(name: str, factor: int, classes: tuple[str, ...], seed: int) -> ImageData:
    generator = torch.Generator().manual_seed(seed)
    train, test = (_split(count, factor, classes, generator) for count in (_TRAIN, _TEST))
    return ImageData(name, train, test, origin="computed")


def _split(count: int, factor: int, classes: tuple[str, ...], generator: torch.Generator) -> Split:
    color = torch.randint(3, (count,), generator=generator)
    vertical = torch.randint(2, (count,), generator=generator)
    place = torch.randint(1, _SIZE - 2, (count,), generator=generator)
    lines = torch.arange(_SIZE)
    bar = ((lines >= place[:, None]) & (lines < place[:, None] + 2)).float()[:, :, None].expand(-1, -1, _SIZE)
    bar = torch.where(vertical.bool()[:, None, None], bar.transpose(1, 2), bar)
    images = 0.4 * torch.ones(count, 3, _SIZE, _SIZE)
    images[torch.arange(count), color] += 0.4 * bar
    images += _NOISE * torch.randn(images.shape, generator=generator)
    labels: Tensor = (color, vertical)[factor]
    return Split(TensorImages(images.clamp(0, 1), white=1.0), labels, classes)
