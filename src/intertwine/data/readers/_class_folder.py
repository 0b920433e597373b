"""Class folders, on disk or in an archive, as a dataset."""

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
_NAMED = 5


class SkippedImagesWarning(UserWarning):
    """Some image files could not be read and are left out."""


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
    """A folder, zip or tar archive with ``train/CLASS/*`` and ``test/CLASS/*`` (or ``val``), or with ``CLASS/*``.

    Files that cannot be read are skipped: they are in ``ImageData.skipped``, and a warning counts and names them.

    Args:
        path: the folder or archive.
        name: of the dataset; by default that of the folder.
        classes: names of the classes in the order of the labels; by default the sorted names of the folders.
        size: height and width; needed if the images have different sizes.
        channels: 1 or 3; by default 1 if all images are gray.
        fit: ``crop`` or ``stretch`` when resizing changes the aspect ratio.
        crop_ratio: the part of height and width kept when resizing.
        bicubic: interpolate with cubics instead of lines when resizing.
        test_fraction: part of each class held out if there is no test folder; digests of the paths decide which.
        seed: enters these digests.
        lazy: decode when read instead of now; by default if the decoded images would take more than 1 GiB. Then only
            the headers are looked at now, and a truncated file is an error when it is read.
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
    whole = Split(source, numbers, tuple(classes if classes is not None else labels))
    train, test = _divide(entries, numbers, test_fraction, seed)
    return ImageData(
        name or path.name, whole.select(train), whole.select(test), origin=str(path), skipped=tuple(skipped)
    )


def _read_headers(tree: FileTree, entries: Sequence[Entry]) -> tuple[dict[str, Header], list[Skipped]]:
    headers: dict[str, Header] = {}
    skipped: list[Skipped] = []
    with progress("looking at images", len(entries)) as advance:
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
            fix="Give size=, such as size=224; fit='crop' or 'stretch' says how.",
        )
    return next(iter(examples))


def _require_readable(path: Path, listed: Sequence[Entry], entries: Sequence[Entry]) -> None:
    lost = {entry.kind for entry in listed if not entry.test} - {entry.kind for entry in entries if not entry.test}
    if lost:
        raise InputError(
            "class folder",
            expected="at least one readable image in every class",
            got=f"{path} with none in {', '.join(sorted(lost)[:_NAMED])}",
            fix="Replace the files or remove the folder.",
        )


def _warn(path: Path, skipped: Sequence[Skipped]) -> None:
    named = "; ".join(f"{bad.path} ({bad.reason})" for bad in skipped[:_NAMED])
    more = f"; and {len(skipped) - _NAMED} more" if len(skipped) > _NAMED else ""
    message = f"{path}: {len(skipped)} unreadable image(s) skipped: {named}{more}"
    warn_caller(message, SkippedImagesWarning)
