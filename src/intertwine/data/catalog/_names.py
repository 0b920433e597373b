"""The names and descriptions of all datasets."""

from __future__ import annotations

import pkgutil
from difflib import get_close_matches
from functools import cache
from importlib import import_module

from ..._checked import checked
from ...errors import InputError
from .. import named
from .._registry import DATASETS, Registered


def names() -> tuple[str, ...]:
    """The names of all datasets.

    >>> names()
    ('bars-by-color', 'bars-by-direction', 'celeba', 'cifar10', ...)
    """
    _import_named()
    return tuple(sorted(DATASETS))


@checked
def describe(name: str) -> Registered:
    """The description of a dataset: what it is, which files it needs and where, and its options. Reads no data.

    >>> describe("mnist").options
    ()
    >>> print(describe("digits").files)
    none; it comes with the package
    """
    if name not in names():
        raise InputError(
            "describe", expected=f"a dataset among {', '.join(names())}", got=repr(name), fix=suggestion(name)
        )
    return DATASETS[name]


def suggestion(name: str) -> str:
    """A hint if a name is close to a known one; else empty."""
    near = get_close_matches(name, names(), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""


@cache
def _import_named() -> None:
    """Import every file in ``named``. Each registers its datasets."""
    for module in pkgutil.iter_modules(named.__path__):
        import_module(f"{named.__name__}.{module.name}")
