"""The layouts of CIFAR: binary records, loose or in the original archive; npz; class folders, also zipped.

The pickled layout for Python is never read: loading a pickle can run any code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from ...errors import InputError
from .._download import Resource, by_hand, fetch
from .._image_data import ImageData
from .._locate import candidate_folders, first_with, not_found
from .._split import Split
from ..sources._source import TensorImages
from ..sources._tree import ArchiveTree, is_archive
from ._class_folder import read_class_folder
from ._class_tree import has_class_folders
from ._labels import require_labels
from ._npz import read_npz

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Cifar:
    """The differences between CIFAR-10 and CIFAR-100.

    Args:
        name: the dataset's name.
        folders: subfolders to search.
        train: files with training records.
        test: files with test records.
        label_bytes: the number of bytes before the pixels of each record.
        label: which of these bytes is the label.
        classes: the names of the classes.
        archive: the published file.
        pickles: files that identify the pickled layout.
    """

    name: str
    folders: tuple[str, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    label_bytes: int
    label: int
    classes: tuple[str, ...]
    archive: Resource
    pickles: tuple[str, ...]


def read_cifar(cifar: Cifar, folder: Path | None, *, download: bool, binary_only: bool = False) -> ImageData:
    """Read the dataset in whichever layout is there. With ``download``, download it first if it is missing.

    Args:
        cifar: the dataset.
        folder: the folder to search, or the file itself.
        download: download the original archive if needed.
        binary_only: skip npz and class folders, which don't have these labels.
    """
    if folder is not None and folder.is_file():
        return _read(cifar, folder, binary_only)
    candidates = candidate_folders(folder, *cifar.folders)
    path = _find(cifar, candidates, binary_only)
    if path is None and download:
        fetch(cifar.name, (cifar.archive,), candidates[-1])
        path = candidates[-1] / cifar.archive.file
    if path is None:
        _refuse_pickles(cifar, candidates)
        raise not_found(
            cifar.name,
            folder,
            looked_for=required_files(cifar),
            fix=f"Pass the right folder=, or load with download=True. {by_hand((cifar.archive,), candidates[-1])}",
        )
    return _read(cifar, path, binary_only)


def required_files(cifar: Cifar) -> str:
    """The files it can be read from, and where."""
    loose = ", ".join((*cifar.train, *cifar.test))
    return (
        f"{cifar.archive.file}, or {loose}, or {cifar.name}.npz, or {cifar.name}.zip of class folders, or class "
        f"folders in train/ and test/; in FOLDER or FOLDER/{', FOLDER/'.join(cifar.folders)}"
    )


def _find(cifar: Cifar, candidates: Sequence[Path], binary_only: bool) -> Path | None:
    if (root := first_with(candidates, *cifar.train, *cifar.test)) is not None:
        return root
    packed = [cifar.archive.file] if binary_only else [cifar.archive.file, f"{cifar.name}.npz", f"{cifar.name}.zip"]
    for file in packed:
        if (root := first_with(candidates, file)) is not None:
            return root / file
    # Only a folder with train/ counts: a parent folder that holds several datasets also looks like class folders.
    divided = (place for place in candidates if has_class_folders(place / "train"))
    return None if binary_only else next(divided, None)


def _read(cifar: Cifar, path: Path, binary_only: bool) -> ImageData:
    if path.is_dir() and first_with([path], *cifar.train, *cifar.test):
        return _from_records(cifar, path, {name: _content(path / name) for name in (*cifar.train, *cifar.test)})
    if is_archive(path) and path.suffix != ".zip":
        if "python" in path.name:
            raise _pickled(cifar, path)
        tree = ArchiveTree(path, lambda name: name in (*cifar.train, *cifar.test))
        return _from_records(cifar, path, {PurePosixPath(file).name: tree.read(file) for file in tree.files})
    if binary_only:
        raise not_found(cifar.name, path, looked_for=f"{cifar.archive.file}, the only file with these labels", fix="")
    if path.suffix == ".npz":
        return _require_shape(cifar, read_npz(path, name=cifar.name, classes=cifar.classes))
    return _require_shape(cifar, read_class_folder(path, name=cifar.name, classes=cifar.classes, channels=3))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(path.name, expected="a readable file", got=f"{path} ({error.strerror})") from error


def _from_records(cifar: Cifar, path: Path, files: Mapping[str, bytes]) -> ImageData:
    missing = [name for name in (*cifar.train, *cifar.test) if name not in files]
    if missing:
        raise InputError(
            cifar.name,
            expected=f"{', '.join((*cifar.train, *cifar.test))} in {path}",
            got=f"no {', '.join(missing)}",
            fix="Download the archive again.",
        )
    train, test = (_split(cifar, path, {name: files[name] for name in names}) for names in (cifar.train, cifar.test))
    return ImageData(cifar.name, train, test, origin=str(path))


def _split(cifar: Cifar, path: Path, files: Mapping[str, bytes]) -> Split:
    parts = [_records(cifar, path, name, content) for name, content in files.items()]
    images = torch.cat([pixels for pixels, _ in parts])
    return Split(TensorImages(images, white=255.0), torch.cat([labels for _, labels in parts]), cifar.classes)


def _records(cifar: Cifar, path: Path, name: str, content: bytes) -> tuple[Tensor, Tensor]:
    """Images ``(n, 3, 32, 32)`` and labels from a file of records: label bytes, then red, green and blue planes."""
    length = cifar.label_bytes + _PIXELS
    if not content or len(content) % length:
        raise InputError(
            name,
            expected=f"complete records of {length} bytes",
            got=f"{len(content)} bytes (truncated, or another layout)",
            fix=f"Download {path} again.",
        )
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(-1, length)
    labels = require_labels(name, records[:, cifar.label], images=len(records), classes=len(cifar.classes))
    return records[:, cifar.label_bytes :].reshape(-1, 3, 32, 32), labels


def _require_shape(cifar: Cifar, data: ImageData) -> ImageData:
    if data.shape != (3, 32, 32):
        raise InputError(
            cifar.name,
            expected="images of 3 x 32 x 32",
            got=f"{' x '.join(map(str, data.shape))} in {data.origin}",
            fix="To read images of any size, load by path instead of by name.",
        )
    return data


def _refuse_pickles(cifar: Cifar, candidates: Sequence[Path]) -> None:
    for place in candidates:
        for name in cifar.pickles:
            if (place / name).exists():
                raise _pickled(cifar, place / name)


def _pickled(cifar: Cifar, path: Path) -> InputError:
    return InputError(
        cifar.name,
        expected="a layout without pickles",
        got=f"{path}, the pickled layout for Python",
        fix="Pickles are refused because loading one can run any code. "
        f"Use the binary version instead: {cifar.archive.file} from {cifar.archive.urls[0]}.",
    )
