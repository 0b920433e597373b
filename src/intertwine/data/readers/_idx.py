"""The IDX format of MNIST: a magic number, the sizes of the axes, then bytes; plain or gzip-compressed."""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from ..._numerics import require_memory
from ...errors import InputError

_BYTES = 0x08


def find_idx(folder: Path, name: str) -> Path | None:
    """The file with this name in the folder, compressed or not. Also finds the spelling with a dot before ``idx``."""
    for variant in (name, name.replace("-idx", ".idx")):
        for suffix in (".gz", ""):
            if (path := folder / (variant + suffix)).is_file():
                return path
    return None


def read_idx(path: Path, *, axes: int) -> Tensor:
    """The uint8 tensor in an IDX file with this many axes.

    The header says how many bytes follow. Reads no more than one extra byte, however far a compressed file expands.
    """
    try:
        with open(path, "rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if not compressed:
                return _parse(file, path, axes)
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _parse(unpacked, path, axes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, "a complete gzip file", str(error)) from error
    except OSError as error:
        raise InputError(path.name, expected="a readable file", got=f"{path} ({error.strerror})") from error


def _parse(file: BinaryIO | gzip.GzipFile, path: Path, axes: int) -> Tensor:
    expected = struct.pack(">HBB", 0, _BYTES, axes)
    magic = file.read(4)
    if magic != expected:
        raise _damaged(path, f"an IDX file that begins with {expected.hex(' ')}", magic.hex(" ") or "an empty file")
    header = file.read(4 * axes)
    if len(header) < 4 * axes:
        raise _damaged(path, f"an IDX header of {axes} lengths", f"a file that ends after {4 + len(header)} bytes")
    shape = struct.unpack(f">{axes}I", header)
    length, text = prod(shape), " x ".join(map(str, shape))
    require_memory(length, itemsize=1, caller=path.name, what=f"{text} bytes", fix="Its header may be damaged.")
    body = file.read(length + 1)
    if len(body) != length:
        got = f"{len(body)} (truncated)" if len(body) < length else "more"
        raise _damaged(path, f"{length} bytes for {text}", got)
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).reshape(shape) if length else torch.zeros(shape).byte()


def _damaged(path: Path, expected: str, got: str) -> InputError:
    fix = f"{path} is damaged or not what its name says. Replace it, or delete it and load with download=True."
    return InputError(path.name, expected=expected, got=got, fix=fix)
