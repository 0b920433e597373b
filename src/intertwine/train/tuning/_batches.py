"""Reproducible batches of images to tune on, augmented one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from ...errors import InputError
from ..loading._datasets import Augmented
from ..loading._loader import Loader, deterministic_loader
from ..loading._replayed import as_loader

Transform = Callable[[Tensor, torch.Generator], Tensor]
Augmentation = Transform | Literal["shift"] | None
"""A random transform of an image, ``"shift"`` for random shifts by up to an eighth of its size, or none."""


def shift(image: Tensor, generator: torch.Generator) -> Tensor:
    """Shift an image by up to an eighth of its shorter side in each direction; zeros enter.

    >>> generator = torch.Generator().manual_seed(0)
    >>> sorted({int(shift(torch.ones(1, 8, 8), generator).sum()) for _ in range(20)})
    [49, 56, 64]
    """
    height, width = image.shape[-2:]
    margin = min(height, width) // 8
    row, column = torch.randint(2 * margin + 1, (2,), generator=generator).tolist()
    return nn.functional.pad(image, (margin,) * 4)[..., row : row + height, column : column + width]


def loader_of(data: Any, batch_size: int, seed: int, augment: Augmentation, *, shuffle: bool = True) -> Loader:
    """Batches of images, or of images and labels.

    Tensors and datasets are shuffled and augmented. A loader is used as it is: it may augment by itself.
    """
    if isinstance(data, Tensor):
        data = (data,)
    if isinstance(data, tuple) and all(isinstance(part, Tensor) and part.dim() for part in data):
        if len({len(part) for part in data}) != 1:
            got = " and ".join(str(len(part)) for part in data)
            raise InputError("tune", expected="one label per image", got=got)
        require_images(data[0])
        data = TensorDataset(*data)
    if not isinstance(data, Dataset):
        return as_loader(data, seed, "images, a dataset or a loader")
    transform = shift if augment == "shift" else augment
    shown: Any = data if transform is None else Augmented(data, OfImage(transform))
    # A short last batch may have too few images for batch statistics.
    drop_last = shuffle and len(shown) >= batch_size
    return deterministic_loader(shown, batch_size, seed=seed, shuffle=shuffle, drop_last=drop_last)


@dataclass(frozen=True)
class OfImage:
    """An augmentation of the first part of a sample; the label stays as it is."""

    transform: Transform

    def __call__(self, sample: Any, generator: torch.Generator) -> Any:
        """The sample with its image transformed."""
        if not isinstance(sample, Sequence):
            return self.transform(sample, generator)
        return (self.transform(sample[0], generator), *sample[1:])


def first_images(loader: Loader) -> Tensor:
    """The images of the first batch, after a check."""
    batch = next(iter(loader.batches(0)))
    return require_images(batch[0] if isinstance(batch, tuple | list) and batch else batch)


def require_images(images: Any) -> Tensor:
    """Return the images; raise an error if they are not a batch of floating point images."""
    if isinstance(images, Tensor) and images.dim() == 4 and images.is_floating_point():
        return images
    raise InputError(
        "tune",
        expected="floating point images (n, channels, height, width)",
        got=f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__,
        fix="Scale the images as in training, and add the missing axes.",
    )
