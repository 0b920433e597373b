"""Augmentations as functions of images and an explicit generator: same generator state, same result.

Each takes one image ``(channels, height, width)`` or a batch ``(n, channels, height, width)`` and draws separately for
each image of a batch. Options are bound with :func:`functools.partial`, steps are joined with :func:`compose`; both can
be sent to worker processes.

>>> from functools import partial
>>> augment = compose(partial(random_crop, padding=1), random_flip)
>>> augment(torch.arange(4.0).reshape(1, 2, 2), torch.Generator().manual_seed(0)).shape
torch.Size([1, 2, 2])
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .._checked import checked, describe
from ..errors import InputError
from ..spaces import resample
from ._random_motion import RandomMotion

Transform = Callable[[Tensor, torch.Generator], Tensor]
"""An augmentation: image and generator to image."""


@checked
def sample_generator(seed: int, *where: int) -> torch.Generator:
    """A generator for one sample, from the seed of the run and where the sample stands, such as epoch and index.

    Neither the order of the samples nor the number of workers enters, so neither changes what is drawn.

    >>> first, again = (torch.rand((), generator=sample_generator(0, 3, 17)).item() for _ in range(2))
    >>> first == again
    True
    """
    # A digest, because nearby seeds of the generator itself would give related streams.
    text = ",".join(map(str, (seed, *where))).encode()
    value = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return torch.Generator().manual_seed(value >> 1)


@dataclass(frozen=True)
class _Composed:
    steps: tuple[Transform, ...]

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        for step in self.steps:
            images = step(images, generator)
        return images


def compose(*steps: Transform) -> Transform:
    """One transform that applies these in order, all drawing from the same generator."""
    return _Composed(steps)


@checked
def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """``(x - mean) / std`` for each channel; images are ``(..., channels, height, width)``."""
    if images.dim() < 3 or images.shape[-3] != len(mean):
        raise InputError(
            "normalize",
            expected=f"images of {len(mean)} channels",
            got=f"shape {tuple(images.shape)}",
            fix="Give one mean and one standard deviation a channel.",
        )
    return (images - images.new_tensor(mean)[:, None, None]) / images.new_tensor(std)[:, None, None]


@checked
def random_flip(images: Tensor, generator: torch.Generator, *, probability: float = 0.5) -> Tensor:
    """Left and right exchanged, with this probability."""
    batch = _batch("random_flip", images)
    flipped = torch.rand(len(batch), generator=generator) < probability
    return torch.where(flipped[:, None, None, None], batch.flip(-1), batch).reshape(images.shape)


@checked
def random_rotation90(images: Tensor, generator: torch.Generator) -> Tensor:
    """A rotation by 0, 90, 180 or 270 degrees, exact; images must be square."""
    batch = _batch("random_rotation90", images)
    if batch.shape[-1] != batch.shape[-2]:
        raise InputError(
            "random_rotation90",
            expected="square images",
            got=f"{batch.shape[-2]} x {batch.shape[-1]}",
            fix="Resize or crop them to a square first.",
        )
    return RandomMotion("C4")(images, generator)


@checked
def random_rotation(images: Tensor, generator: torch.Generator, *, degrees: float = 180.0) -> Tensor:
    """A rotation about the center by any angle, at most ``degrees`` either way; bilinear, with zeros from outside."""
    batch = _batch("random_rotation", images)
    _require_float("random_rotation", batch)
    angle = (2 * torch.rand(len(batch), generator=generator, dtype=torch.float64) - 1) * math.radians(degrees)
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(-1, 2, 2).to(batch.dtype)
    places, center = _pixels(*batch.shape[-2:], batch.dtype)
    index = (center + places @ turn).unflatten(1, batch.shape[-2:])  # where each pixel comes from
    return resample(batch, index, border="zeros", interpolation="linear").reshape(images.shape)


@checked
def random_translation(images: Tensor, generator: torch.Generator, *, shift: int, wrap: bool = False) -> Tensor:
    """A shift by a whole number of pixels, at most ``shift`` in each direction.

    What leaves comes in on the other side if ``wrap``; else zeros come in.
    """
    batch = _batch("random_translation", images)
    height, width = batch.shape[-2:]
    _require_count("random_translation", "shift", shift)
    return _windows(batch, generator, shift, (height, width), wrap).reshape(images.shape)


@checked
def random_crop(
    images: Tensor, generator: torch.Generator, *, padding: int = 0, size: int | tuple[int, int] | None = None
) -> Tensor:
    """A window at a random place of the image padded with zeros.

    Args:
        images: one image or a batch.
        generator: decides where the window lies.
        padding: zeros added on each side.
        size: height and width of the window; by default those of the image.
    """
    batch = _batch("random_crop", images)
    height, width = (size, size) if isinstance(size, int) else size or (batch.shape[-2], batch.shape[-1])
    _require_count("random_crop", "padding", padding)
    if not (0 < height <= batch.shape[-2] + 2 * padding and 0 < width <= batch.shape[-1] + 2 * padding):
        raise InputError(
            "random_crop",
            expected=f"a window inside {batch.shape[-2]} x {batch.shape[-1]} with {padding} zeros on each side",
            got=f"{height} x {width}",
            fix="Crop less or pad more.",
        )
    return _windows(batch, generator, padding, (height, width), wrap=False).reshape(*images.shape[:-2], height, width)


@lru_cache(maxsize=16)
@torch.inference_mode(False)  # what is cached must serve later where gradients are wanted
def _pixels(height: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows and columns of all pixels ``(height * width, 2)`` from the center, and the center."""
    center = torch.tensor([(height - 1) / 2, (width - 1) / 2], dtype=dtype)
    return torch.cartesian_prod(*(torch.arange(n, dtype=dtype) for n in (height, width))) - center, center


def _windows(batch: Tensor, generator: torch.Generator, margin: int, size: tuple[int, int], wrap: bool) -> Tensor:
    """Windows at random places of the batch enlarged by ``margin``; the places are drawn rows first."""
    n, _, height, width = batch.shape
    rows = _places(n, height, margin, size[0], generator)
    columns = _places(n, width, margin, size[1], generator)
    image = torch.arange(n)[:, None, None]
    inside = (rows[:, :, None] % height, columns[:, None, :] % width)
    # Indices around the channel axis bring it to the back.
    window = batch[image, :, inside[0], inside[1]].movedim(-1, 1)
    if wrap:
        return window
    seen = ((rows >= 0) & (rows < height))[:, None, :, None] & ((columns >= 0) & (columns < width))[:, None, None, :]
    return torch.where(seen, window, torch.zeros((), dtype=batch.dtype))


def _places(n: int, length: int, margin: int, size: int, generator: torch.Generator) -> Tensor:
    start = torch.randint(length + 2 * margin - size + 1, (n,), generator=generator) - margin
    return start[:, None] + torch.arange(size)


def _batch(caller: str, images: Tensor) -> Tensor:
    if images.dim() not in (3, 4):
        raise InputError(
            caller,
            expected="an image (channels, height, width) or a batch of them",
            got=f"shape {tuple(images.shape)}",
            fix="Add the channel axis.",
        )
    return images if images.dim() == 4 else images[None]


def _require_float(caller: str, images: Tensor) -> None:
    if not images.is_floating_point():
        raise InputError(
            caller,
            expected="images of floating-point numbers",
            got=describe(images),
            fix="Convert them with images.float().",
        )


def _require_count(caller: str, what: str, value: int) -> None:
    if value < 0:
        raise InputError(caller, expected=f"{what} of 0 or more", got=str(value), fix="Give a number of pixels.")
