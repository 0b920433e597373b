"""Augmentations as functions of images and an explicit generator. The same generator state gives the same result.

Each takes one image ``(channels, height, width)`` or a batch ``(n, channels, height, width)``, and draws independently
for each image of a batch. Bind options with :func:`functools.partial` and join steps with :func:`compose`. Both can be
sent to worker processes.

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
"""An augmentation: takes an image and a generator to an image."""


@checked
def sample_generator(seed: int, *key: int) -> torch.Generator:
    """A generator for one sample, from the seed of the run and a key of the sample, such as epoch and index.

    The order of the samples and the number of workers don't matter.

    >>> first, again = (torch.rand((), generator=sample_generator(0, 3, 17)).item() for _ in range(2))
    >>> first == again
    True
    """
    # A digest, because nearby seeds would give related random streams.
    text = ",".join(map(str, (seed, *key))).encode()
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
    """A transform that applies these in order, all with the same generator.

    >>> both = compose(random_flip, random_rotation90)
    >>> both(torch.zeros(1, 4, 4), torch.Generator()).shape
    torch.Size([1, 4, 4])
    """
    return _Composed(steps)


@checked
def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """``(x - mean) / std``, channel by channel, for images ``(..., channels, height, width)``.

    >>> normalize(torch.ones(1, 1, 1), [0.5], [0.25])
    tensor([[[2.]]])
    """
    if images.dim() < 3 or images.shape[-3] != len(mean):
        raise InputError(
            "normalize",
            expected=f"images of {len(mean)} channels, as many as there are means",
            got=f"shape {tuple(images.shape)}",
        )
    return (images - images.new_tensor(mean)[:, None, None]) / images.new_tensor(std)[:, None, None]


@checked
def random_flip(images: Tensor, generator: torch.Generator, *, probability: float = 0.5) -> Tensor:
    """Flip images left-right, with this probability."""
    batch = _batch("random_flip", images)
    flipped = torch.rand(len(batch), generator=generator) < probability
    return torch.where(flipped[:, None, None, None], batch.flip(-1), batch).reshape(images.shape)


@checked
def random_rotation90(images: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate square images by 0, 90, 180 or 270 degrees, exactly."""
    batch = _batch("random_rotation90", images)
    if batch.shape[-1] != batch.shape[-2]:
        raise InputError(
            "random_rotation90",
            expected="square images",
            got=f"{batch.shape[-2]} x {batch.shape[-1]}",
            fix="Resize or crop them to a square first.",
        )
    return _quarter_turns()(images, generator)


@lru_cache(maxsize=1)
def _quarter_turns() -> RandomMotion:
    return RandomMotion("C4")


@checked
def random_rotation(images: Tensor, generator: torch.Generator, *, degrees: float = 180.0) -> Tensor:
    """Rotate images about the center by up to ``degrees`` in either direction: bilinear, with zeros outside."""
    batch = _batch("random_rotation", images)
    _require_float("random_rotation", batch)
    angle = (2 * torch.rand(len(batch), generator=generator, dtype=torch.float64) - 1) * math.radians(degrees)
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(-1, 2, 2).to(batch.dtype)
    positions, center = _pixels(*batch.shape[-2:], batch.dtype)
    index = (center + positions @ turn).unflatten(1, batch.shape[-2:])  # where each pixel comes from
    return resample(batch, index, border="zeros", interpolation="linear").reshape(images.shape)


@checked
def random_translation(images: Tensor, generator: torch.Generator, *, shift: int, wrap: bool = False) -> Tensor:
    """Shift images by a whole number of pixels, up to ``shift`` in each direction.

    With ``wrap``, pixels that leave on one side enter on the other; otherwise, zeros enter.
    """
    batch = _batch("random_translation", images)
    height, width = batch.shape[-2:]
    _require_count("random_translation", "shift", shift)
    return _windows(batch, generator, shift, (height, width), wrap).reshape(images.shape)


@checked
def random_crop(
    images: Tensor, generator: torch.Generator, *, padding: int = 0, size: int | tuple[int, int] | None = None
) -> Tensor:
    """A window at a random position in the image, padded with zeros.

    Args:
        images: one image or a batch.
        generator: draws the position of the window.
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
@torch.inference_mode(False)  # the cached result may take part in gradients later
def _pixels(height: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The rows and columns of all pixels relative to the center, ``(height * width, 2)``, and the center."""
    center = torch.tensor([(height - 1) / 2, (width - 1) / 2], dtype=dtype)
    return torch.cartesian_prod(*(torch.arange(n, dtype=dtype) for n in (height, width))) - center, center


def _windows(batch: Tensor, generator: torch.Generator, margin: int, size: tuple[int, int], wrap: bool) -> Tensor:
    """Windows at random positions in the batch enlarged by ``margin``. Rows are drawn before columns."""
    n, _, height, width = batch.shape
    top = _window_starts(n, height, margin, size[0], generator)
    left = _window_starts(n, width, margin, size[1], generator)
    if n == 1 and not wrap:  # augmentation crops one image at a time, and slices take less than half as long as indices
        padded = torch.nn.functional.pad(batch, (margin,) * 4)
        row, column = int(top) + margin, int(left) + margin
        return padded[..., row : row + size[0], column : column + size[1]].contiguous()
    rows, columns = top[:, None] + torch.arange(size[0]), left[:, None] + torch.arange(size[1])
    image = torch.arange(n)[:, None, None]
    inside = (rows[:, :, None] % height, columns[:, None, :] % width)
    # Index tensors on both sides of the channel axis move it to the end; movedim moves it back.
    window = batch[image, :, inside[0], inside[1]].movedim(-1, 1)
    if wrap:
        return window
    seen = ((rows >= 0) & (rows < height))[:, None, :, None] & ((columns >= 0) & (columns < width))[:, None, None, :]
    return torch.where(seen, window, torch.zeros((), dtype=batch.dtype))


def _window_starts(n: int, length: int, margin: int, size: int, generator: torch.Generator) -> Tensor:
    return torch.randint(length + 2 * margin - size + 1, (n,), generator=generator) - margin


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


def _require_count(caller: str, name: str, value: int) -> None:
    if value < 0:
        raise InputError(caller, expected=f"{name} of 0 or more", got=str(value))
