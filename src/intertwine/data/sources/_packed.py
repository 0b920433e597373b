"""Binary images stored as single bits, which takes an eighth of the memory of bytes."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from ..._numerics import require_memory
from ...errors import InputError
from ._source import ImageSource, ResizedImages

_CHUNK = 4096


class PackedImages(ImageSource):
    """Binary images with one channel, eight pixels per byte.

    Args:
        bits: ``(n, bytes)``, uint8; the pixels of each image, row by row.
        size: height and width.
    """

    def __init__(self, bits: np.ndarray[Any, Any], size: tuple[int, int]) -> None:
        self._bits, self._size = bits, size

    @property
    def shape(self) -> tuple[int, int, int]:
        """One channel, height and width."""
        return 1, *self._size

    @property
    def white(self) -> float:
        """1, the value of a bit that is on."""
        return 1.0

    @property
    def in_memory(self) -> bool:
        """False: reading unpacks bits."""
        return False

    def __len__(self) -> int:
        return len(self._bits)

    def read(self, positions: Tensor) -> Tensor:
        """Raw images ``(n, 1, height, width)``, uint8."""
        height, width = self._size
        pixels = np.unpackbits(self._bits[positions.numpy()], axis=1, count=height * width)
        return torch.from_numpy(pixels.reshape(-1, 1, height, width))

    def resized(self, size: tuple[int, int]) -> ImageSource:
        """The same images, resized when read."""
        return self if size == self._size else ResizedImages(self, size)


def read_packed(path: Path, archive: zipfile.ZipFile, key: str) -> PackedImages:
    """The images ``(n, height, width)`` of 0 and 1, or of 0 and 255, in an array of a ``.npz`` file.

    They are packed while they are read, because dSprites would take 3 GB as bytes.
    """
    with archive.open(f"{key}.npy") as file:
        shape, dtype, fortran = _header(path, key, file)
        if len(shape) != 3 or dtype != np.uint8 or fortran:
            raise InputError(
                path.name,
                expected=f"{key} (n, height, width) of bytes",
                got=f"{dtype} {shape}",
                fix="Use the published file.",
            )
        n, height, width = shape
        columns = -(-height * width // 8)
        largest = max(n * columns, min(n, _CHUNK) * height * width)  # the result, or one chunk of bytes
        require_memory(largest, itemsize=1, caller=path.name, what=f"{n} images", fix="Use a smaller file.")
        bits = np.empty((n, columns), dtype=np.uint8)
        for start in range(0, n, _CHUNK):
            count = min(_CHUNK, n - start)
            content = file.read(count * height * width)
            if len(content) < count * height * width:
                raise InputError(path.name, expected=f"{n} images", got="a truncated file", fix=f"Replace {path}.")
            pixels = np.frombuffer(content, dtype=np.uint8).reshape(count, height * width)
            if pixels.max(initial=0) > 1 and not np.isin(pixels, (0, 255)).all():
                raise InputError(
                    path.name,
                    expected="pixels that are on or off",
                    got="other values",
                    fix="Load the file by its path.",
                )
            bits[start : start + count] = np.packbits(pixels != 0, axis=1)
    return PackedImages(bits, (height, width))


def _header(path: Path, key: str, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except ValueError as error:
        raise InputError(
            path.name, expected=f"{key} as an array", got=str(error), fix="Use the published file."
        ) from error
    return shape, dtype, fortran
