"""A list of things by name: what is registered is listed, tested and found by the command line."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Generic, TypeVar

from .errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name, in the order in which they were registered.

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
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Register ``thing`` and return it. A name belongs to one thing only."""
        if self._things.setdefault(name, thing) is not thing:
            raise InputError(
                f"{self.kind} {name!r}",
                expected="a name that is not taken",
                got=f"a second {self.kind} of this name",
                fix="Choose another name.",
            )
        return thing

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            close = get_close_matches(name, self._things, 1)
            raise InputError(
                self.kind,
                expected=f"one of {', '.join(self._things)}",
                got=repr(name),
                fix=f"Did you mean {close[0]}?" if close else "Choose one of these.",
            )
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def values(self) -> list[T]:
        """The things themselves."""
        return list(self._things.values())
