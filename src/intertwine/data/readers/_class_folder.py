"""Reading class folders, on disk or in an archive, as a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from ..._warn import warn_caller
from ...errors import InputError
from .._choose import held_out
from .._image_data import ImageData, Skipped
from .._progress import progress
from .._split import Split, image_size
from ..sources._image_files import Fit, Header, ImageFiles, UnreadableImageError, is_image, read_header
from ..sources._source import ImageSource, TensorImages
from ..sources._tree import FileTree, open_tree
from ._class_tree import Entry, class_labels, find_classes

_EAGER_BYTES = 2**30
_MAX_LISTED = 5


class SkippedImagesWarning(UserWarning):
    """Some image files could not be read and were skipped."""


def read_class_folder(
    path: Path,
    *,
    name: str = "",
    classes: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    fit: Fit = "crop",
    crop_ratio: float = 1.0,
    bicubic: bool = False,
    test_fraction: float = 0.2,
    seed: int = 0,
    lazy: bool | None = None,
) -> ImageData:
    """Read a folder, zip or tar archive with ``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``), or with ``CLASS/*``.

    Unreadable files are skipped and listed in ``ImageData.skipped``. A warning counts and names them.

    Args:
        path: the folder or archive.
        name: the dataset's name; default: the name of the folder.
        classes: the names of the classes in the order of the labels; default: the sorted names of the folders.
        size: height and width. Required if the images have different sizes.
        channels: 1 or 3; default: 1 if all images are gray.
        fit: ``crop`` or ``stretch`` if resizing changes the aspect ratio.
        crop_ratio: the fraction of height and width to keep when resizing.
        bicubic: use bicubic instead of bilinear interpolation when resizing.
        test_fraction: the fraction of each class held out if there is no test folder. Digests of the paths decide.
        seed: changes these digests.
        lazy: decode images when read instead of now; default: if decoded images would take more than 1 GiB. Then only
            the headers are read now, and reading a truncated file later raises an error.
    """
    tree = open_tree(path, is_image)
    listed = find_classes(tree)
    headers, skipped = _read_headers(tree, listed)
    entries = [entry for entry in listed if entry.path in headers]
    _require_readable(path, listed, entries)
    files = ImageFiles(
        tree,
        tuple(entry.path for entry in entries),
        channels or (1 if all(header.gray for header in headers.values()) else 3),
        image_size(size) if size is not None else _common_size(path, headers),
        fit,
        crop_ratio,
        bicubic,
    )
    if lazy is None:
        lazy = len(files) * prod(files.shape) > _EAGER_BYTES
    source: ImageSource = files
    if not lazy:
        source, kept, undecodable = _decode(files)
        skipped += undecodable
        entries = [entries[k] for k in kept]
        _require_readable(path, listed, entries)
    if skipped:
        _warn(path, skipped)
    labels = class_labels(path, entries, classes)
    numbers = torch.tensor([labels[entry.kind] for entry in entries], dtype=torch.int64)
    everything = Split(source, numbers, tuple(classes if classes is not None else labels))
    train, test = _divide(entries, numbers, test_fraction, seed)
    return ImageData(
        name or path.name, everything.select(train), everything.select(test), origin=str(path), skipped=tuple(skipped)
    )


def _read_headers(tree: FileTree, entries: Sequence[Entry]) -> tuple[dict[str, Header], list[Skipped]]:
    headers: dict[str, Header] = {}
    skipped: list[Skipped] = []
    with progress("reading headers", len(entries)) as advance:
        for entry in entries:
            try:
                headers[entry.path] = read_header(tree, entry.path)
            except UnreadableImageError as error:
                skipped.append(Skipped(entry.path, str(error)))
            advance(1)
    return headers, skipped


def _decode(files: ImageFiles) -> tuple[TensorImages, list[int], list[Skipped]]:
    images = torch.empty((len(files), *files.shape), dtype=torch.uint8)
    kept: list[int] = []
    skipped: list[Skipped] = []
    with progress("decoding", len(files)) as advance:
        for position, path in enumerate(files.paths):
            try:
                images[len(kept)] = files.decode(position)
                kept.append(position)
            except UnreadableImageError as error:
                skipped.append(Skipped(path, str(error)))
            advance(1)
    return TensorImages(images[: len(kept)], white=files.white), kept, skipped


def _divide(entries: Sequence[Entry], labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    if entries[0].test is None:
        return held_out([entry.path for entry in entries], labels, fraction=fraction, seed=seed)
    test = torch.tensor([bool(entry.test) for entry in entries])
    return (~test).nonzero().flatten(), test.nonzero().flatten()


def _common_size(path: Path, headers: dict[str, Header]) -> tuple[int, int]:
    examples: dict[tuple[int, int], str] = {}
    for file, header in headers.items():
        examples.setdefault((header.height, header.width), file)
    if len(examples) > 1:
        shown = list(examples.items())[:3]
        sizes = ", ".join(f"{height} x {width} ({file})" for (height, width), file in shown)
        raise InputError(
            "class folder",
            expected="images of one size, or size=",
            got=f"{len(examples)} sizes in {path}: {sizes}",
            fix="Pass size=, such as size=224, and fit='crop' or 'stretch'.",
        )
    return next(iter(examples))


def _require_readable(path: Path, listed: Sequence[Entry], entries: Sequence[Entry]) -> None:
    lost = {entry.kind for entry in listed if not entry.test} - {entry.kind for entry in entries if not entry.test}
    if lost:
        raise InputError(
            "class folder",
            expected="at least one readable image in every class",
            got=f"{path} with none in {', '.join(sorted(lost)[:_MAX_LISTED])}",
            fix="Replace the files or remove the folders.",
        )


def _warn(path: Path, skipped: Sequence[Skipped]) -> None:
    named = "; ".join(f"{bad.path} ({bad.reason})" for bad in skipped[:_MAX_LISTED])
    more = f"; and {len(skipped) - _MAX_LISTED} more" if len(skipped) > _MAX_LISTED else ""
    message = f"{path}: {len(skipped)} unreadable image(s) skipped: {named}{more}"
    warn_caller(message, SkippedImagesWarning)
