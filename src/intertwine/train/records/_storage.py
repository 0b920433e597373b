"""Errors of storage that say what to do, and a folder that belongs to one process at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..._checked import checked
from ...errors import BusyError, StorageError


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


@checked
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
