"""Encoded image files, decoded with Pillow when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ._source import ImageSource
from ._tree import FileTree

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
Fit = Literal["crop", "stretch"]


def is_image(name: str) -> bool:
    """Whether a file name names an image."""
    return name.lower().endswith(SUFFIXES)


@dataclass(frozen=True)
class Header:
    """The metadata in the first bytes of an image file."""

    height: int
    width: int
    gray: bool


class UnreadableImageError(Exception):
    """A file that Pillow cannot read. Readers catch it; users never see it."""


def read_header(tree: FileTree, path: str) -> Header:
    """The size and kind of an image file. Reads only its first bytes."""
    with _opened(tree, path) as image:
        return Header(image.height, image.width, image.mode in ("1", "L", "LA") or image.mode.startswith("I"))


@dataclass(frozen=True, eq=False)
class ImageFiles(ImageSource):
    """Image files in a folder or archive.

    Args:
        tree: the folder or archive.
        paths: their relative paths.
        channels: 1 for gray, 3 for color. Other files are converted.
        size: height and width. Other images are resized by bilinear interpolation.
        fit: what to do if the aspect ratio differs: ``crop`` the longer side on both ends, or ``stretch``.
        crop_ratio: the fraction of the cropped height and width to keep before resizing. ImageNet is usually evaluated
            at 0.875.
        bicubic: use bicubic instead of bilinear interpolation.
    """

    tree: FileTree
    paths: tuple[str, ...]
    channels: int
    size: tuple[int, int]
    fit: Fit = "crop"
    crop_ratio: float = 1.0
    bicubic: bool = False

    def __post_init__(self) -> None:
        if self.fit not in ("crop", "stretch") or not 0 < self.crop_ratio <= 1 or self.channels not in (1, 3):
            raise InputError(
                "class folder",
                expected="fit='crop' or 'stretch', crop_ratio in (0, 1], channels=1 or 3",
                got=f"fit={self.fit!r}, crop_ratio={self.crop_ratio}, channels={self.channels}",
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""
        return self.channels, *self.size

    @property
    def white(self) -> float:
        """255, the largest byte."""
        return 255.0

    @property
    def in_memory(self) -> bool:
        """False: reading decodes files."""
        return False

    def __len__(self) -> int:
        return len(self.paths)

    def resized(self, size: tuple[int, int]) -> ImageSource:
        """The same files, decoded to another size."""
        return replace(self, size=size)

    def read(self, positions: Tensor) -> Tensor:
        """Raw images ``(n, channels, height, width)``, uint8."""
        images = torch.empty((len(positions), *self.shape), dtype=torch.uint8)
        for k, position in enumerate(positions.tolist()):
            try:
                images[k] = self.decode(position)
            except UnreadableImageError as error:
                raise InputError(
                    self.paths[position],
                    expected="a complete image",
                    got=f"{error} (in {self.tree.where})",
                    fix="Remove the file, or load with lazy=False, which skips unreadable images.",
                ) from error
        return images

    def decode(self, position: int) -> Tensor:
        """One image; raises :class:`UnreadableImageError`."""
        with _opened(self.tree, self.paths[position]) as image:
            pixels = torch.from_numpy(np.array(self._fitted(_converted(image, self.channels))))
        return pixels[None] if pixels.dim() == 2 else pixels.movedim(-1, 0)

    def _fitted(self, image: Image) -> Image:
        from PIL.Image import Resampling

        height, width = self.size
        if (image.height, image.width) == self.size and self.crop_ratio == 1:
            return image
        # The part of the image to keep, in its original pixels.
        kept_width, kept_height = float(image.width), float(image.height)
        if self.fit == "crop":
            ratio = min(image.width / width, image.height / height)
            kept_width, kept_height = ratio * width, ratio * height
        kept_width, kept_height = kept_width * self.crop_ratio, kept_height * self.crop_ratio
        left, top = max((image.width - kept_width) / 2, 0), max((image.height - kept_height) / 2, 0)
        # Clamp, because Pillow rejects a box that rounding pushes outside the image.
        right, bottom = min(left + kept_width, image.width), min(top + kept_height, image.height)
        filter = Resampling.BICUBIC if self.bicubic else Resampling.BILINEAR
        return image.resize((width, height), filter, box=(left, top, right, bottom))


def _converted(image: Image, channels: int) -> Image:
    from PIL.Image import fromarray

    if image.mode.startswith("I"):  # 16-bit gray: Pillow's conversion would clip instead of scale
        image = fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


@contextmanager
def _opened(tree: FileTree, path: str) -> Iterator[Image]:
    """Open an image file. Any error from a bad file, here or while decoding, becomes an UnreadableImageError."""
    from PIL import Image

    try:
        with tree.open(path) as file, Image.open(file) as image:
            if image.mode == "F":
                raise UnreadableImageError("floating-point pixels, whose range is unknown")
            yield image
    except (MemoryError, UnreadableImageError):
        raise
    except Exception as error:  # decoders raise nearly anything: OSError, SyntaxError, struct.error, IndexError, ...
        raise UnreadableImageError(_reason(error)) from error


def _reason(error: Exception) -> str:
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    # Pillow's message names a file object, which doesn't help the user.
    return "not an image" if "cannot identify" in text else text or type(error).__name__
