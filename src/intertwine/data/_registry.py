"""The datasets that have a name. Each is one file in ``named/``, found by looking there; users register their own."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module

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


_datasets: dict[str, Registered] = {}


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
        known = _datasets.get(name)
        if known is not None and known.read is not read:
            raise InputError(
                "register_dataset",
                expected="a name that is free",
                got=f"{name!r}, which is taken",
                fix="Choose another name.",
            )
        _datasets[name] = Registered(name, about, files, read)
        return read

    return register


def forget_dataset(name: str) -> None:
    """Take a name out of the list again."""
    _datasets.pop(name, None)


def names() -> tuple[str, ...]:
    """The names of all datasets.

    >>> names()
    ('celeba', 'cifar10', 'cifar100', 'digits', 'digits6-180', 'dsprites', ...)
    """
    _find_files()
    return tuple(sorted(_datasets))


@checked
def describe(name: str) -> Registered:
    """What is known about a dataset without reading it: what it is, which files it wants where, its options.

    >>> describe("mnist").options
    ()
    >>> print(describe("digits").files)
    none; it comes with the package
    """
    if name not in names():
        raise InputError(
            "describe", expected=f"a dataset among {', '.join(names())}", got=repr(name), fix=suggestion(name)
        )
    return _datasets[name]


def suggestion(name: str) -> str:
    """What somebody may have meant who wrote this name."""
    near = get_close_matches(name, names(), n=1)
    return f"Did you mean {near[0]!r}?" if near else "Correct the name or the path."


@cache
def _find_files() -> None:
    package = import_module(".named", __package__)
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f".named.{module.name}", __package__)
