"""Loading any dataset, by name or by the path of a folder, a ``.npz`` file or an archive."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._checked import checked
from ...errors import InputError
from .._image_data import ImageData
from ..readers._class_folder import read_class_folder
from ..readers._npz import read_npz
from ..sources._tree import ARCHIVES, is_archive
from ._names import describe, names, suggestion


@checked
def load(
    name_or_path: str | Path,
    *,
    folder: str | Path | None = None,
    download: bool = False,
    size: int | tuple[int, int] | None = None,
    **options: Any,
) -> ImageData:
    """Load a dataset with its training and test images.

    Args:
        name_or_path: a name from :func:`names`, or the path of class folders, of a zip or tar archive of them, or of a
            ``.npz`` file. Names take precedence: write ``./digits`` for a folder with the name of a dataset.
        folder: the folder with the files of a named dataset, or its parent. The default is the environment variable
            ``INTERTWINE_DATA``, else a folder in the user's cache. Relative paths are looked up there too.
        download: download the files of a named dataset if they are missing.
        size: resize images to this height and width. Required for class folders with images of different sizes.
        options: options of the dataset. :func:`describe` lists those of a named dataset. Class folders have
            ``channels``, ``fit``, ``crop_ratio``, ``bicubic``, ``lazy``, ``test_fraction`` and ``seed``; ``.npz`` files
            have the last two.

    >>> data = load("digits")
    >>> data
    ImageData(digits: 1437 train, 360 test, 1 x 8 x 8, 10 classes)
    >>> images, labels = data.normalized().test.as_tensors()
    >>> images.shape, labels.dtype
    (torch.Size([360, 1, 8, 8]), torch.int64)
    >>> load("digitz")
    Traceback (most recent call last):
    intertwine.errors.InputError: load: expected a dataset among bars-by-color, ...; got 'digitz', ... mean 'digits'?
    """
    if isinstance(name_or_path, str) and name_or_path in names():
        entry = describe(name_or_path)
        _require_options(entry.name, options, entry.options)
        data = entry.read(Path(folder) if folder is not None else None, download=download, **options)
        return data if size is None else data.resized(size)
    path = Path(name_or_path)
    if folder is not None and not path.exists() and (Path(folder) / path).exists():
        path = Path(folder) / path
    if path.is_dir() or (path.is_file() and is_archive(path)):
        return _call(read_class_folder, path, size=size, **options)
    if path.is_file() and path.suffix == ".npz":
        data = _call(read_npz, path, **options)
        return data if size is None else data.resized(size)
    problem = "a file of another kind" if path.exists() else "neither a name nor an existing path"
    raise InputError(
        "load",
        expected=f"a dataset among {', '.join(names())}, or the path of a folder, a .npz file or an archive "
        f"({', '.join(ARCHIVES)})",
        got=f"{str(name_or_path)!r}, {problem}",
        fix=suggestion(str(name_or_path)),
    )


def _call(read: Callable[..., ImageData], path: Path, **options: Any) -> ImageData:
    known = [p.name for p in inspect.signature(read).parameters.values() if p.kind is p.KEYWORD_ONLY]
    _require_options(str(path), options, tuple(known))
    return read(path, **options)


def _require_options(caller: str, options: dict[str, Any], known: tuple[str, ...]) -> None:
    if unknown := sorted(set(options) - set(known)):
        raise InputError(
            "load",
            expected=f"options of {caller}: {', '.join(known) or 'none'}",
            got=", ".join(unknown),
        )
