"""Where the files of a dataset are looked for, and the message when they are not there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError

_SHOWN = 12


def data_folder() -> Path:
    """Where datasets are kept: ``INTERTWINE_DATA``, else a folder in the user's cache."""
    chosen = os.environ.get("INTERTWINE_DATA", "")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "intertwine" / "data"


def places(folder: Path | None, *names: str) -> tuple[Path, ...]:
    """The folders to look in: those of these names below the folder, then the folder itself.

    The folder itself comes last: different datasets have files of the same name, and one folder may hold them all.
    """
    root = data_folder() if folder is None else folder
    return (*(root / name for name in names), root)


def first_with(folders: Sequence[Path], *files: str) -> Path | None:
    """The first of the folders that holds all these files."""
    for folder in folders:
        if all((folder / file).is_file() for file in files):
            return folder
    return None


def listing(folder: Path) -> str:
    """What a folder holds, for an error message."""
    if folder.is_file():
        return f"{folder}, which is a file"
    if not folder.is_dir():
        return f"{folder}, which does not exist"
    try:
        found = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    except OSError as error:
        return f"{folder}, which cannot be listed ({error.strerror})"
    if not found:
        return f"{folder}, which is empty"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{folder}, which holds {', '.join(found[:_SHOWN])}{more}"


def not_found(name: str, folder: Path | None, *, looked_for: str, fix: str) -> InputError:
    """The error of a folder without the files of a dataset: what was looked for, and what is there."""
    root = data_folder() if folder is None else folder
    return InputError(name, expected=looked_for, got=listing(root), fix=fix)
