"""Normalization by mean and standard deviation per channel: measuring, applying and inverting it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ._transforms import normalize


@checked
@dataclass(frozen=True)
class Normalization:
    """``(x - mean) / std``, channel by channel.

    >>> half = Normalization(mean=(0.5,), std=(0.25,))
    >>> half(torch.ones(1, 2, 2))
    tensor([[[2., 2.],
             [2., 2.]]])
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(std > 0 for std in self.std):
            raise InputError(
                "Normalization",
                expected="one mean and one positive standard deviation per channel",
                got=f"mean={self.mean}, std={self.std}",
            )

    def __call__(self, images: Tensor) -> Tensor:
        """Normalized images ``(..., channels, height, width)``."""
        return normalize(images, self.mean, self.std)

    def invert(self, images: Tensor) -> Tensor:
        """Undo the normalization, for example to show images."""
        mean = images.new_tensor(self.mean)[:, None, None]
        std = images.new_tensor(self.std)[:, None, None]
        return images * std + mean


def channel_statistics(batches: Iterable[Tensor]) -> Normalization:
    """Mean and standard deviation per channel over batches of images ``(n, channels, height, width)``.

    A constant channel gets a standard deviation of 1. Normalizing it then gives zeros instead of NaN.
    """
    count, total, square = 0, torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for images in batches:
        # Both sums accumulate in float64 without making a float64 copy of the images.
        total = total + images.sum((0, 2, 3), dtype=torch.float64)
        square = square + torch.linalg.vector_norm(images, dim=(0, 2, 3), dtype=torch.float64).square()
        count += images[:, 0].numel()
    if not count:
        raise InputError("normalization", expected="at least one image", got="none")
    mean = total / count
    std = (square / count - mean.square()).clamp_min(0).sqrt()
    std = torch.where(std > 1e-6, std, torch.ones_like(std))
    return Normalization(tuple(mean.tolist()), tuple(std.tolist()))
