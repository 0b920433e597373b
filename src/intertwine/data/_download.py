"""Downloads of published files: to a temporary name, checked by length and SHA-256, then renamed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from ..errors import InputError
from ._progress import progress

_TIMEOUT = 30.0
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Resource:
    """A published file.

    Args:
        file: the file's name.
        size: its length in bytes.
        sha256: its digest.
        urls: addresses to try in order.
    """

    file: str
    size: int
    sha256: str
    urls: tuple[str, ...]


def fetch(name: str, resources: Sequence[Resource], folder: Path) -> None:
    """Download the files that are missing in the folder.

    Writes are atomic: a file gets its final name only once it is complete and its digest is correct.
    """
    for resource in resources:
        if (folder / resource.file).is_file():
            continue
        tried: list[str] = []
        for url in resource.urls:
            problem = _fetch(name, url, resource, folder)
            if problem is None:
                break
            tried.append(f"{url}: {problem}")
        else:
            raise InputError(
                f"download of {name}",
                expected=f"{resource.file} of {resource.size} bytes with sha256 {resource.sha256}",
                got="; ".join(tried),
                fix=by_hand(resources, folder),
            )


def by_hand(resources: Sequence[Resource], folder: Path) -> str:
    """Instructions for machines without internet access: which files to put where."""
    urls = ", ".join(resource.urls[0] for resource in resources)
    return f"Without internet access, download {urls} elsewhere and put the files into {folder}."


def _fetch(name: str, url: str, resource: Resource, folder: Path) -> str | None:
    """Download one file from one address. Returns what went wrong; None if nothing did."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".part-")
    except OSError as error:
        raise InputError(
            f"download of {name}",
            expected=f"a folder to write {resource.file} to",
            got=f"{folder} ({error.strerror})",
            fix="Set folder= or INTERTWINE_DATA to a folder that you can write to.",
        ) from error
    part = Path(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            problem = _receive(url, resource, file.write)
            file.flush()
            os.fsync(file.fileno())
        if problem is None:
            part.chmod(0o644)  # temporary files are private by default
            os.replace(part, folder / resource.file)
        return problem
    except (OSError, HTTPException, ValueError) as error:  # offline, no such host, refused, 404, cut off, disk full
        return str(error) or type(error).__name__
    finally:
        part.unlink(missing_ok=True)


def _receive(url: str, resource: Resource, write: Callable[[bytes], object]) -> str | None:
    digest, length = hashlib.sha256(), 0
    request = Request(url, headers={"User-Agent": "intertwine"})
    with urlopen(request, timeout=_TIMEOUT) as reply, progress(resource.file, resource.size, of_bytes=True) as advance:
        # Asking for one extra byte detects a longer file, without reading an endless one to its end.
        while block := reply.read(min(_BLOCK, resource.size + 1 - length)):
            digest.update(block)
            write(block)
            length += len(block)
            advance(len(block))
            if length > resource.size:
                return f"received more than {resource.size} bytes"
    if length < resource.size:
        return f"cut off after {length} of {resource.size} bytes"
    if digest.hexdigest() != resource.sha256:
        return f"wrong checksum, sha256 {digest.hexdigest()}"
    return None
