"""Registries: what is registered under a name is listed, tested and available on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Generic, TypeVar

from .errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries of one kind by name, in order of registration.

    >>> shapes = Registry[int]("shape")
    >>> shapes.add("triangle", 3)
    3
    >>> list(shapes)
    ['triangle']
    >>> shapes["triangel"]
    Traceback (most recent call last):
        ...
    intertwine.errors.InputError: shape: expected one of triangle; got 'triangel'. Did you mean triangle?
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        """Register ``entry`` under a name that is not taken, and return it."""
        if self._entries.setdefault(name, entry) is not entry:
            raise InputError(
                f"{self.kind} {name!r}", expected="a name that is not taken", got=f"a second {self.kind} of this name"
            )
        return entry

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            close = get_close_matches(name, self._entries, 1)
            raise InputError(
                self.kind,
                expected=f"one of {', '.join(self._entries)}",
                got=repr(name),
                fix=f"Did you mean {close[0]}?" if close else "",
            )
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> list[T]:
        """All entries."""
        return list(self._entries.values())
