"""Datasets in one ``.npz`` file. Arrays of Python objects are never loaded: they could run any code."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, Literal

import numpy as np
import torch

from ..._numerics import require_memory
from ...errors import InputError
from .._choose import held_out
from .._image_data import ImageData
from .._split import Split
from ..sources._source import TensorImages
from ._labels import require_labels

Layout = Literal["NHWC", "NCHW"]
_SPLIT = ("x_train", "y_train", "x_test", "y_test")
_WHOLE = ("images", "labels")
# RuntimeError: a password, or an unknown compression. TokenError: numpy parses headers as Python source.
DAMAGE = (OSError, ValueError, EOFError, RuntimeError, SyntaxError, TokenError, zlib.error, zipfile.BadZipFile)


def read_npz(
    path: Path,
    *,
    name: str = "",
    classes: Sequence[str] | None = None,
    layout: Layout | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> ImageData:
    """Read a file with arrays ``x_train, y_train, x_test, y_test`` or ``images, labels``, and optionally ``classes``.

    Images are ``(n, height, width)``, ``(n, height, width, channels)`` or ``(n, channels, height, width)``, as bytes or
    as floats from 0 to 1 or from 0 to 255. Labels are whole numbers that count from 0.

    Args:
        path: the file.
        name: the dataset's name; default: the name of the file.
        classes: the names of the classes; default: those in the file, else numbers.
        layout: the order of the axes, if the sizes don't determine it.
        test_fraction: the fraction of each class held out if the file has no test images.
        seed: decides which images are held out.
    """
    with open_npz(path) as file:
        keys = next((keys for keys in (_SPLIT, _WHOLE) if set(keys) <= set(file.files)), None)
        if keys is None:
            raise InputError(
                path.name,
                expected=f"arrays {', '.join(_SPLIT)}, or {', '.join(_WHOLE)}",
                got=f"{', '.join(file.files) or 'no arrays'} in {path}",
                fix="Save them under these names with numpy.savez.",
            )
        arrays = {key: load_array(file, path, key) for key in keys}
        if classes is None and "classes" in file.files:
            classes = [str(value) for value in load_array(file, path, "classes")]
    if classes is None:
        labels = [arrays[key] for key in keys[1::2]]
        largest = max((int(array.max()) for array in labels if array.size and array.dtype.kind in "iu"), default=0)
        classes = [str(k) for k in range(largest + 1)]
    pairs = list(zip(keys[::2], keys[1::2], strict=True))
    white = max(white_of(f"{image} in {path.name}", arrays[image]) for image, _ in pairs)
    parts = [_split(path, arrays, image, label, tuple(classes), layout, white) for image, label in pairs]
    if len(parts) == 1:
        numbers = [str(k) for k in range(len(parts[0]))]
        train, test = held_out(numbers, parts[0].labels, fraction=test_fraction, seed=seed)
        parts = [parts[0].select(train), parts[0].select(test)]
    if parts[0].shape != parts[1].shape:
        raise InputError(
            path.name,
            expected="training and test images of the same shape",
            got=f"{parts[0].shape} and {parts[1].shape}",
        )
    return ImageData(name or path.stem, parts[0], parts[1], origin=str(path))


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open a file without allowing anything in it to run code."""
    with ExitStack() as stack:
        try:
            # Open it ourselves, because numpy leaves a damaged file open.
            stream = stack.enter_context(open(path, "rb"))
            file = np.load(stream, allow_pickle=False)
        except DAMAGE as error:
            raise _not_npz(path, str(error)) from error
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise _not_npz(path, "a single array")
        yield stack.enter_context(file)


def load_array(file: Any, path: Path, key: str) -> np.ndarray[Any, Any]:
    """One array from an open file."""
    member = next(info for info in file.zip.infolist() if info.filename in (key, f"{key}.npy"))
    fix = "Save fewer images per file, or use class folders."
    require_memory(member.file_size, itemsize=1, caller=path.name, what=f"the array {key}", fix=fix)
    try:
        _require_consistent(file, member)
        return np.asarray(file[key])
    except (*DAMAGE, MemoryError) as error:  # a damaged header may request any amount of memory
        raise InputError(
            path.name,
            expected=f"{key} as a plain array of numbers",
            got=f"{error} in {path}",
            fix="Save the array with a number type. Python objects are refused because loading them can run any code.",
        ) from error


def _require_consistent(file: Any, member: zipfile.ZipInfo) -> None:
    """Raise an error if a header requests more than the file contains, before numpy allocates it."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("a compression that numpy does not write")
    with file.zip.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.hasobject:
            return  # numpy itself refuses these, with a good message
        if dtype.itemsize == 0 or prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"a header of shape {shape} for {member.file_size} bytes")


def _split(
    path: Path,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    image_key: str,
    label_key: str,
    classes: tuple[str, ...],
    layout: Layout | None,
    white: float,
) -> Split:
    array = _channels_first(f"{image_key} in {path.name}", arrays[image_key], layout)
    dtype = np.float32 if array.dtype.kind == "f" else np.uint8
    images = torch.from_numpy(np.ascontiguousarray(array, dtype=dtype))
    labels = arrays[label_key]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise InputError(
            f"{label_key} in {path.name}",
            expected="whole numbers (n,)",
            got=f"{labels.dtype} {labels.shape}",
            fix="Labels are class numbers, one per image.",
        )
    numbers = torch.from_numpy(labels.astype(np.int64))
    numbers = require_labels(f"{label_key} in {path.name}", numbers, images=len(images), classes=len(classes))
    return Split(TensorImages(images, white=white), numbers, classes)


def _channels_first(caller: str, array: np.ndarray[Any, Any], layout: Layout | None) -> np.ndarray[Any, Any]:
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and layout is None:
        last, second = array.shape[3] in (1, 3, 4), array.shape[1] in (1, 3, 4)
        layout = "NHWC" if last and not second else "NCHW" if second and not last else None
    if array.ndim != 4 or layout not in ("NHWC", "NCHW"):
        raise InputError(
            caller,
            expected="(n, height, width), (n, height, width, channels) or (n, channels, height, width)",
            got=f"shape {array.shape}",
            fix="Pass layout='NHWC' or 'NCHW'. It is only guessed for 1, 3 or 4 channels.",
        )
    return array if layout == "NCHW" else np.moveaxis(array, 3, 1)


def white_of(caller: str, array: np.ndarray[Any, Any]) -> float:
    """The value of white, 1 or 255, inferred from the largest value."""
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if array.dtype.kind not in "buif" or not (low >= 0 and high <= 255):
        raise InputError(
            caller,
            expected="bytes, or numbers from 0 to 1 or from 0 to 255",
            got=f"{array.dtype} from {low:g} to {high:g}",
            fix="Save images before normalization; normalize them after loading.",
        )
    return 255.0 if high > 1 else 1.0


def _not_npz(path: Path, got: str) -> InputError:
    return InputError(
        path.name,
        expected="a .npz file of plain arrays",
        got=f"{got} in {path}",
        fix="Write it with numpy.savez. Pickles are refused because loading them can run any code.",
    )
