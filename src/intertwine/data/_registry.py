"""The list of datasets that have a name: those of this package and those that users register."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from .._checked import checked
from ..errors import InputError
from ._image_data import ImageData

Reader = Callable[..., ImageData]
"""``read(folder, *, download, **options)``: reads a dataset from a folder, or, if that is None, from where datasets are
kept; fetches it first if asked to and not there."""


@checked
@dataclass(frozen=True)
class Registered:
    """A dataset with a name.

    Args:
        name: what :func:`load` knows it by.
        about: one sentence.
        files: which files it wants, and where.
        read: the reader; its further keyword arguments are the options of :func:`load`.
    """

    name: str
    about: str
    files: str
    read: Reader

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that :func:`load` takes for this dataset."""
        parameters = inspect.signature(self.read).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "download")


DATASETS: dict[str, Registered] = {}
"""Filled by :func:`register_dataset`; the files in ``named`` register theirs when they are imported."""


@checked
def register_dataset(name: str, *, about: str, files: str) -> Callable[[Reader], Reader]:
    """Make a reader known under a name.

    >>> from intertwine.data import load
    >>> @register_dataset("upright-digits", about="An example.", files="none")
    ... def upright(folder, *, download):
    ...     return load("digits")
    >>> load("upright-digits").train
    Split(1437 images 1 x 8 x 8, 10 classes)
    >>> forget_dataset("upright-digits")
    """

    def register(read: Reader) -> Reader:
        known = DATASETS.get(name)
        if known is not None and known.read is not read:
            raise InputError(
                "register_dataset",
                expected="a name that is free",
                got=f"{name!r}, which is taken",
                fix="Choose another name.",
            )
        DATASETS[name] = Registered(name, about, files, read)
        return read

    return register


def forget_dataset(name: str) -> None:
    """Take a name out of the list again."""
    DATASETS.pop(name, None)
