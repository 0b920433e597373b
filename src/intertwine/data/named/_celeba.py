"""CelebA: faces with yes-or-no attributes, one of which is the class."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

import torch

from ...errors import InputError
from .._image_data import ImageData
from .._locate import candidate_folders, first_with, not_found
from .._registry import register_dataset
from .._split import Split
from ..readers._class_folder import read_class_folder
from ..readers._class_tree import has_class_folders
from ..sources._image_files import ImageFiles, UnreadableImageError, is_image, read_header
from ..sources._tree import FileTree, open_tree

ATTRIBUTES, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
IMAGES = ("img_align_celeba", "img_align_celeba.zip")
_FOLDERS = ("celeba", "CelebA")
_PARTS = {"train": "0", "val": "1", "test": "2"}
_ALIGNED = (218, 178)
_CROP = 138 / 178  # the middle 138 x 138 pixels: rows 40 to 177, columns 20 to 157
_SIGNS = ("1", "-1")

_FILES = (
    f"{ATTRIBUTES}, {PARTITION} and {IMAGES[0]}/ or {IMAGES[1]}, or class folders in train/ and test/; "
    f"in FOLDER or FOLDER/{', FOLDER/'.join(_FOLDERS)}"
)


@register_dataset("celeba", about="202599 faces, cropped to 32 x 32, with a yes-or-no attribute.", files=_FILES)
def celeba(
    folder: Path | None,
    *,
    download: bool,
    attribute: str = "Male",
    evaluate: Literal["test", "val"] = "test",
) -> ImageData:
    """The official training images, and the official test or validation images (``evaluate``) as test images.

    The middle 138 x 138 pixels of the aligned images are resized to 32 x 32 by bicubic interpolation with
    anti-aliasing, which at the edges uses pixels slightly beyond them. Class folders are resized bilinearly. The
    classes are 0 and 1, without and with the ``attribute``. Images are decoded when read; ``in_memory()`` decodes them
    all at once. You must download the files yourself, because the publisher asks you to agree to terms.
    """
    if evaluate not in ("test", "val"):
        raise InputError("celeba", expected="evaluate 'test' or 'val'", got=repr(evaluate))
    candidates = candidate_folders(folder, *_FOLDERS)
    root = first_with(candidates, ATTRIBUTES, PARTITION)
    if root is None:
        divided = next((place for place in candidates if has_class_folders(place / "train")), None)
        if divided is not None and evaluate == "test":
            return read_class_folder(divided, name="celeba", size=32, channels=3, crop_ratio=_crop_ratio(divided))
        raise not_found("celeba", folder, looked_for=_FILES, fix="Get them from the publisher, and pass folder=.")
    images = next((root / name for name in IMAGES if (root / name).exists()), None)
    if images is None:
        raise not_found("celeba", root, looked_for=" or ".join(IMAGES), fix="Download the aligned and cropped images.")
    values, parts = _attribute(root / ATTRIBUTES, attribute), _columns(root / PARTITION)
    tree = open_tree(images, is_image)
    paths = {path.rpartition("/")[2]: path for path in tree.files}
    classes = (f"not {attribute}", attribute)
    train, test = (
        _split(root, tree, paths, [name for name in values if parts.get(name) == [_PARTS[part]]], values, classes)
        for part in ("train", evaluate)
    )
    return ImageData("celeba", train, test, origin=str(root))


def _crop_ratio(folder: Path) -> float:
    """Crop aligned images, but not images that were already cropped. The first readable image decides."""
    tree = open_tree(folder, is_image)
    for path in tree.files:
        with suppress(UnreadableImageError):
            header = read_header(tree, path)
            return _CROP if (header.height, header.width) == _ALIGNED else 1.0
    return 1.0


def _split(
    root: Path,
    tree: FileTree,
    paths: dict[str, str],
    names: list[str],
    values: dict[str, int],
    classes: tuple[str, str],
) -> Split:
    missing = [name for name in names if name not in paths]
    if missing or not names:
        raise InputError(
            "celeba",
            expected=f"the images listed in {ATTRIBUTES} and {PARTITION}, some in each part, in {tree.where}",
            got=f"{len(missing)} missing, such as {missing[0]}" if missing else f"an empty part in {root}",
        )
    files = ImageFiles(tree, tuple(paths[name] for name in names), 3, (32, 32), crop_ratio=_CROP, bicubic=True)
    return Split(files, torch.tensor([values[name] for name in names]), classes)


def _columns(path: Path) -> dict[str, list[str]]:
    """The first word of each line, mapped to the words after it."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            path.name, expected="a readable text file", got=str(error), fix="Download it again."
        ) from error
    return {words[0]: words[1:] for words in map(str.split, lines) if words}


def _attribute(path: Path, attribute: str) -> dict[str, int]:
    """For each image, 1 if it has the attribute, else 0."""
    columns = {name: words for name, words in _columns(path).items() if is_image(name)}
    lines = path.read_text(encoding="utf-8").splitlines()
    header = lines[1].split() if len(lines) > 1 else []
    if attribute not in header:
        raise InputError(
            "celeba",
            expected=f"an attribute from the second line of {path.name}: {', '.join(header[:8])}, ...",
            got=repr(attribute),
        )
    column = header.index(attribute)
    wrong = next(
        (name for name, words in columns.items() if len(words) != len(header) or words[column] not in _SIGNS), None
    )
    if wrong is not None or not columns:
        raise InputError(
            path.name,
            expected=f"{len(header)} numbers, 1 or -1, after each image name",
            got=f"{' '.join(columns[wrong])[:60]!r} after {wrong}" if wrong is not None else "no image",
            fix="Download the file again.",
        )
    return {name: int(words[column] == "1") for name, words in columns.items()}
