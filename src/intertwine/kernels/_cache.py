"""Solved bases, kept in memory and on disk, named by a digest of what was solved and of the solver's version.

A file is written under a name of its own and renamed into place, so that concurrent processes and a kill in the middle
of writing leave either a whole file or none. A file that cannot be read counts as absent.
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
"""Raise it whenever a solver returns another basis than before."""

_MEMORY_ENTRIES = 512
_memory: OrderedDict[str, dict[str, Tensor]] = OrderedDict()
_lock = Lock()


def cache_folder() -> Path | None:
    """Where bases are kept: ``INTERTWINE_CACHE``, else the user's cache folder; None if it is set to ``off``."""
    chosen = os.environ.get("INTERTWINE_CACHE", "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "intertwine" / "kernels"


def cached(
    compute: Callable[[], dict[str, Tensor]], *what: object, fits: Callable[[dict[str, Tensor]], bool]
) -> dict[str, Tensor]:
    """The tensors that ``compute`` returns, from memory or disk if the same was solved before.

    Args:
        compute: solves the problem.
        what: strings, numbers and tensors that determine the result.
        fits: whether tensors read from disk have the names and shapes of the result; if not, they are solved again.
    """
    key = content_digest("solver", SOLVER_VERSION, *what)
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
            return _memory[key]
    found = _read(key)
    if found is None or not fits(found):
        found = compute()
        _write(key, found)
    with _lock:
        _memory[key] = found
        while len(_memory) > _MEMORY_ENTRIES:
            _memory.popitem(last=False)
    return found


def clear_cache() -> None:
    """Empty the memory; files stay."""
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
        return  # a full or read-only disk costs the cache, never the result
