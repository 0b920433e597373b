"""Storage errors that say what to do, and folders that belong to one process at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..._checked import checked
from ...errors import BusyError, StorageError


@contextmanager
def storage_errors(path: Path, *, expected: str, fix: str) -> Iterator[None]:
    """Turn an ``OSError`` in the block into a :class:`StorageError` that names the file and says what to do."""
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
    """Hold the lock of a folder during the block. The system releases it when the process ends, however it ends.

    Args:
        folder: created if needed.

    >>> import tempfile
    >>> with locked(Path(tempfile.mkdtemp())):
    ...     pass
    """
    path = folder / ".lock"
    fix = "Choose a folder on a disk that is writable and not full."
    with storage_errors(path, expected="a folder to write to", fix=fix):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+b")  # noqa: SIM115 - closed below, which releases the lock
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        try:
            # Unlike flock, a record lock is not inherited by loader processes, which may outlive a killed parent.
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
