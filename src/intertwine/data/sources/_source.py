"""Where the images of a split come from: a tensor in memory, files decoded on demand, or a renderer.

A source returns *raw* images, in the dtype they are stored in, and says which raw value is white. Bytes take a quarter
of the memory of floats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ..._checked import checked


class ImageSource(ABC):
    """Images of one shape, read by position."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""

    @property
    @abstractmethod
    def white(self) -> float:
        """The raw value that becomes 1.0; 0 becomes 0.0."""

    @property
    @abstractmethod
    def in_memory(self) -> bool:
        """Whether reading is just a lookup."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, positions: Tensor) -> Tensor:
        """Raw images ``(n, channels, height, width)``, uint8 or float32, at int64 positions ``(n,)``."""

    @abstractmethod
    def resized(self, size: tuple[int, int]) -> ImageSource:
        """The same images at another height and width."""


class TensorImages(ImageSource):
    """Images in a single tensor.

    Args:
        images: ``(n, channels, height, width)``, uint8 or floating point.
        white: the value that becomes 1.0.
    """

    @checked
    def __init__(self, images: Tensor, *, white: float) -> None:
        self.images = images if images.dtype == torch.uint8 else images.float()
        self._white = white

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @property
    def white(self) -> float:
        """The raw value that becomes 1.0."""
        return self._white

    @property
    def in_memory(self) -> bool:
        """True: the images are a tensor."""
        return True

    def __len__(self) -> int:
        return len(self.images)

    def read(self, positions: Tensor) -> Tensor:
        """Raw images at these positions."""
        return self.images.index_select(0, positions)  # several times faster than indexing

    def resized(self, size: tuple[int, int]) -> ImageSource:
        """The same images, resized when read."""
        return self if self.shape[1:] == size else ResizedImages(self, size)


class ResizedImages(ImageSource):
    """Images of another source, resized by bilinear interpolation, with anti-aliasing when shrinking.

    They are resized when read, because all resized images together may not fit in memory.
    """

    def __init__(self, base: ImageSource, size: tuple[int, int]) -> None:
        self._base, self._size = base, size

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""
        return self._base.shape[0], *self._size

    @property
    def white(self) -> float:
        """The raw value that becomes 1.0."""
        return self._base.white

    @property
    def in_memory(self) -> bool:
        """False: reading resizes images."""
        return False

    def __len__(self) -> int:
        return len(self._base)

    def read(self, positions: Tensor) -> Tensor:
        """Raw images at these positions, interpolated as floats."""
        raw = self._base.read(positions).float()
        if not len(raw):
            return raw.new_zeros((0, *self.shape))
        return interpolate(raw, size=self._size, mode="bilinear", align_corners=False, antialias=True)

    def resized(self, size: tuple[int, int]) -> ImageSource:
        """The base images at another size. Resizing twice would blur twice."""
        return self._base.resized(size)
