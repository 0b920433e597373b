"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

PART = ".part-"
"""How the names of unfinished files and folders begin."""


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the disk has the names in a folder: without this, a rename may not survive a power cut."""
    if os.name == "nt":  # a folder cannot be opened there; the file system journals renames
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems do not know this call
            raise
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that readers, and a kill at any moment, see the old content or the new one."""
    part = path.with_name(f"{PART}{path.name}-{os.getpid()}")
    try:
        write_synced(part, data)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    sync_folder(path.parent)
