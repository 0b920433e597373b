"""Finding the files of a dataset, and the error message if they are missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError

_MAX_LISTED = 12


def data_folder() -> Path:
    """The folder of datasets: ``INTERTWINE_DATA``, else a folder in the user's cache.

    >>> data_folder().name != ""
    True
    """
    setting = os.environ.get("INTERTWINE_DATA", "")
    if setting:
        return Path(setting)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "intertwine" / "data"


def candidate_folders(folder: Path | None, *names: str) -> tuple[Path, ...]:
    """The folders to search: subfolders with these names, then the folder itself.

    The folder itself comes last, because different datasets have files with the same names, and one folder may hold all
    datasets.
    """
    root = data_folder() if folder is None else folder
    return (*(root / name for name in names), root)


def first_with(folders: Sequence[Path], *files: str) -> Path | None:
    """The first folder that contains all these files."""
    for folder in folders:
        if all((folder / file).is_file() for file in files):
            return folder
    return None


def listing(folder: Path) -> str:
    """What a folder contains, for an error message."""
    if folder.is_file():
        return f"{folder}, which is a file"
    if not folder.is_dir():
        return f"{folder}, which does not exist"
    try:
        names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    except OSError as error:
        return f"{folder}, which cannot be listed ({error.strerror})"
    if not names:
        return f"{folder}, which is empty"
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{folder}, which contains {', '.join(names[:_MAX_LISTED])}{more}"


def not_found(name: str, folder: Path | None, *, looked_for: str, fix: str) -> InputError:
    """The error for a folder without the files of a dataset: what was expected, and what the folder contains."""
    root = data_folder() if folder is None else folder
    return InputError(name, expected=looked_for, got=listing(root), fix=fix)
