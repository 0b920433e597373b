"""A cache of solved bases in memory and on disk. Keys are digests of the problem and the solver's version.

Writes are atomic: a file gets a temporary name and is then renamed, so concurrent processes and a kill midway leave
either a complete file or none. An unreadable file counts as missing.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from torch import Tensor

from .._digest import content_digest

SOLVER_VERSION = 1
"""Increase it whenever a solver starts to return a different basis."""

_MEMORY_ENTRIES = 512
_memory: OrderedDict[str, dict[str, Tensor]] = OrderedDict()
_lock = Lock()


def cache_folder() -> Path | None:
    """The folder of the cache: ``INTERTWINE_CACHE`` (None if that is ``off``), else the user's cache folder."""
    setting = os.environ.get("INTERTWINE_CACHE", "")
    if setting.lower() == "off":
        return None
    if setting:
        return Path(setting)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "intertwine" / "kernels"


def cached(
    compute: Callable[[], dict[str, Tensor]], *problem: object, fits: Callable[[dict[str, Tensor]], bool]
) -> dict[str, Tensor]:
    """The result of ``compute``, taken from memory or disk if the same problem was solved before.

    Args:
        compute: solves the problem.
        problem: strings, numbers and tensors that determine the result.
        fits: whether tensors read from disk have the names and shapes of a result; if not, the problem is solved again.
    """
    key = content_digest("solver", SOLVER_VERSION, *problem)
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
            return _memory[key]
    tensors = _read(key)
    if tensors is None or not fits(tensors):
        tensors = compute()
        _write(key, tensors)
    with _lock:
        _memory[key] = tensors
        while len(_memory) > _MEMORY_ENTRIES:
            _memory.popitem(last=False)
    return tensors


def clear_cache() -> None:
    """Drop all solved bases from memory. Files on disk stay.

    >>> clear_cache()
    """
    with _lock:
        _memory.clear()


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return folder / key[:2] / f"{key}.safetensors" if folder is not None else None


def _read(key: str) -> dict[str, Tensor] | None:
    path = _path(key)
    if path is None or not path.is_file():
        return None
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError, ValueError):
        return None


def _write(key: str, tensors: dict[str, Tensor]) -> None:
    path = _path(key)
    if path is None:
        return
    from safetensors.torch import save

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(save({name: t.contiguous() for name, t in tensors.items()}))
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError:
        return  # a full or read-only disk disables the cache, but the result is still good
