"""Sorting the files of a tree into training and test images and classes, from their paths alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from .._locate import listing
from ..sources._image_files import is_image
from ..sources._tree import FileTree, is_archive

_LAYOUT = "ROOT/train/CLASS/*.png with ROOT/test/CLASS/*.png (or val), or ROOT/CLASS/*.png"
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "val", "valid", "validation")
_MAX_LISTED = 5


@dataclass(frozen=True)
class Entry:
    """An image file.

    Args:
        path: relative to the tree.
        kind: the name of its class folder.
        test: whether it is for testing; None if the tree does not say.
    """

    path: str
    kind: str
    test: bool | None


def has_class_folders(folder: Path) -> bool:
    """Whether a folder contains ``CLASS/image`` or ``train/CLASS/image``. The first image decides."""
    try:
        return any(is_image(path.name) for depth in ("*/*", "*/*/*") for path in folder.glob(depth))
    except OSError:
        return False


def find_classes(tree: FileTree) -> list[Entry]:
    """All image files in class folders. Subfolders belong to their class; ``test`` takes precedence over ``val``."""
    root = _packed_root(tree) if is_archive(tree.where) else ""
    files = [file for file in tree.files if file.startswith(root)]
    folders = {folder.removeprefix(root) for folder in tree.folders if folder.startswith(root)}
    # A folder that directly contains images is a class, even if its name is train: it may hold pictures of trains.
    classes = {file.removeprefix(root).split("/")[0] for file in files if file.removeprefix(root).count("/") == 1}
    tops = {folder.lower(): folder for folder in sorted(folders - classes) if "/" not in folder}
    train, test = (next((tops[name] for name in names if name in tops), None) for names in (_TRAIN, _TEST))
    if train and test:
        return [
            *_class_files(tree.where, files, folders, root, f"{train}/", test=False),
            *_class_files(tree.where, files, folders, root, f"{test}/", test=True),
        ]
    if train or (test and set(tops) <= set(_TEST) and not classes):
        alone = train or test or ""
        hold_out = "Archive only its class folders" if is_archive(tree.where) else f"Load {tree.where / alone} itself"
        raise InputError(
            "class folder",
            expected=_LAYOUT,
            got=f"{tree.where} with {alone}/ only",
            fix=f"{hold_out} to hold out a part of it for testing, or add the other folder.",
        )
    return _class_files(tree.where, files, folders, root, "", test=None)


def _class_files(
    where: Path, files: Sequence[str], folders: set[str], root: str, top: str, *, test: bool | None
) -> list[Entry]:
    prefix = root + top
    entries = [
        Entry(file, file.removeprefix(prefix).split("/")[0], test)
        for file in files
        if file.startswith(prefix) and "/" in file.removeprefix(prefix)
    ]
    if not entries:
        got = f"{where} without any image" if is_archive(where) or top else listing(where)
        fix = (
            "Pass the folder above the class folders. To read the files of a named dataset, give its name, and the "
            "folder as load(NAME, folder=...) or NAME --folder FOLDER."
        )
        raise InputError(
            "class folder", expected=f"image files {top and 'below ' + top + ': '}{_LAYOUT}", got=got, fix=fix
        )
    classes = {folder.removeprefix(top) for folder in folders if folder.startswith(top)}
    empty = sorted({name for name in classes if name and "/" not in name} - {entry.kind for entry in entries})
    if empty:
        raise InputError(
            "class folder",
            expected="images in every class folder",
            got=f"{where} with the empty {', '.join(top + name for name in empty[:_MAX_LISTED])}",
            fix="Add images to it, or remove it.",
        )
    return entries


def class_labels(where: Path, entries: Sequence[Entry], names: Sequence[str] | None) -> dict[str, int]:
    """The label of each class folder.

    Without names, these are the folders with training images in sorted order (in numeric order if all are numbers).
    """
    kinds = {entry.kind for entry in entries}
    known = {entry.kind for entry in entries if not entry.test}
    if names is not None:
        labels = {str(k): k for k in range(len(names))} | {name: k for k, name in enumerate(names)}
        expected = f"class folders among {', '.join(names[:3])}, ... ({len(names)} in all) or their numbers"
    else:
        numbered = all(name.isdecimal() for name in known)
        order = sorted(known, key=lambda name: (int(name) if numbered else 0, name))
        labels = {name: k for k, name in enumerate(order)}
        expected = "the same classes for testing as for training"
    if unexpected := sorted(kinds - set(labels)):
        raise InputError(
            "class folder",
            expected=expected,
            got=f"{', '.join(unexpected[:_MAX_LISTED])} in {where}",
            fix="Rename, add or remove the folders.",
        )
    return labels


def _packed_root(tree: FileTree) -> str:
    """The one folder that contains everything in an archive: ``cifar10/`` for ``cifar10/train/...``; else empty."""
    root = ""
    while True:
        tops = {file.removeprefix(root).split("/")[0] for file in tree.files}
        if len(tops) != 1:
            return root
        deeper = f"{root}{tops.pop()}/"
        inside = [file.removeprefix(deeper) for file in tree.files]
        # Stop if the next folder is the class itself, or the training or test part.
        if not all("/" in file for file in inside) or deeper.removeprefix(root)[:-1].lower() in (*_TRAIN, *_TEST):
            return root
        root = deeper
