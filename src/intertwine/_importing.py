"""Importing many modules without garbage collections in between."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """No automatic garbage collection within the block.

    Modules live as long as the process, so a collection that starts during an import looks at every object of torch
    and frees nothing. In ``intertwine.nn`` one would take as long as the import itself.

    >>> with no_collection():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
