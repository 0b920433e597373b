"""The registry of named datasets, from this package and from users."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from .._checked import checked
from ..errors import InputError
from ._image_data import ImageData

Reader = Callable[..., ImageData]
"""``read(folder, *, download, **options)`` reads a dataset from a folder (None: the default folder). With ``download``,
it first downloads missing files."""


@checked
@dataclass(frozen=True)
class Registered:
    """A dataset with a name.

    Args:
        name: its name for :func:`load`.
        about: a one-sentence description.
        files: which files it needs, and where.
        read: the reader. Its other keyword arguments are options of :func:`load`.
    """

    name: str
    about: str
    files: str
    read: Reader

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options of :func:`load` for this dataset."""
        parameters = inspect.signature(self.read).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "download")


DATASETS: dict[str, Registered] = {}
"""All datasets by name. The files in ``named`` register theirs when imported."""


@checked
def register_dataset(name: str, *, about: str, files: str) -> Callable[[Reader], Reader]:
    """Decorator: register a reader under a name.

    >>> from intertwine.data import load
    >>> @register_dataset("upright-digits", about="An example.", files="none")
    ... def upright(folder, *, download):
    ...     return load("digits")
    >>> load("upright-digits").train
    Split(1437 images 1 x 8 x 8, 10 classes)
    >>> unregister_dataset("upright-digits")
    """

    def register(read: Reader) -> Reader:
        existing = DATASETS.get(name)
        if existing is not None and existing.read is not read:
            raise InputError("register_dataset", expected="a name that is not taken", got=f"{name!r}, which is taken")
        DATASETS[name] = Registered(name, about, files, read)
        return read

    return register


def unregister_dataset(name: str) -> None:
    """Remove a name from the registry."""
    DATASETS.pop(name, None)
