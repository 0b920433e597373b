"""Files that are there whole or not at all, and a folder that belongs to one process at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import BusyError, StorageError

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


@contextmanager
def storage_errors(path: Path, *, expected: str, fix: str) -> Iterator[None]:
    """Turn an ``OSError`` in the block into one that names the file and says what to do."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError("fit", expected=expected, got=f"{reason} ({path})", fix=fix) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock during the block; the system lets go of it when the process ends, however it ends."""
    path = folder / ".lock"
    fix = "Choose a folder on a disk that is writable and not full."
    with storage_errors(path, expected="a folder to write to", fix=fix):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+b")  # noqa: SIM115 - closed below, and only then unlocked
    try:
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        try:
            # A record lock, unlike flock, is not inherited by loader processes, which may outlive a killed parent.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                "fit",
                expected="a folder that no other run is using",
                got=f"{folder}, where one is in progress",
                fix="Wait for it to end, or give this run its own folder.",
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):  # a file system without locks
                raise
        yield
    finally:
        file.close()
