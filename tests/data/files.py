"""Small files in the true formats, for the tests to read back."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(
    folder: Path, *, train: int = 30, test: int = 20, compress: bool = True, seed: int = 0
) -> dict[str, np.ndarray]:
    """Four IDX files in the folder; returns what is in them."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    for part, n in (("train", train), ("t10k", test)):
        arrays[f"{part}-images-idx3-ubyte"] = random.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        arrays[f"{part}-labels-idx1-ubyte"] = (np.arange(n) % 10).astype(np.uint8)
    for name, array in arrays.items():
        content = idx_bytes(array)
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return arrays


def picture(path: Path, seed: int = 0, *, size: tuple[int, int] = (6, 5), mode: str = "RGB") -> np.ndarray:
    """A random image file of this width and height; returns its pixels."""
    random = np.random.default_rng(seed)
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], len(mode))
    pixels = random.integers(0, 256, shape, dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels
