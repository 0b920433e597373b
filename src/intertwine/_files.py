"""Atomic writes."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

PART = ".part-"
"""Prefix of the names of unfinished files and folders."""


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until a folder's entries are on disk. Without this, a rename may not survive a power failure."""
    if os.name == "nt":  # Windows cannot open a folder; its file system journals renames
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems don't support this call
            raise
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see the old or the new content, even if the process is killed midway."""
    part = path.with_name(f"{PART}{path.name}-{os.getpid()}")
    try:
        write_synced(part, data)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    sync_folder(path.parent)
