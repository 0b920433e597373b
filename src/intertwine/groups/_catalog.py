"""The catalog of groups with a name. :func:`parse` reads it, and ``intertwine list groups`` prints it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .._checked import checked
from .._registry import Registry
from ..errors import InputError, ParseError
from ._group import Group

Make = TypeVar("Make", bound=Callable[..., Group])


@checked
@dataclass(frozen=True)
class NamedGroup:
    """A group, or a family of groups, that :func:`parse` finds by name.

    Attributes:
        name: the name, such as ``Q8`` or ``SO(3)``; for a family, the letters before the number.
        about: one line about it.
        make: builds the group; for a family, from its number.
        numbered: whether it is a family, such as C1, C2, ….
    """

    name: str
    about: str
    make: Callable[..., Group]
    numbered: bool = False

    @property
    def example(self) -> str:
        """A name to parse."""
        return f"{self.name}4" if self.numbered else self.name


GROUPS = Registry[NamedGroup]("group")
"""All groups with a name, by their names without parentheses."""


@checked
def register_group(name: str, *, about: str, numbered: bool = False) -> Callable[[Make], Make]:
    """Decorator: let :func:`parse` find a group, or a family of groups, by name.

    Args:
        name: the name; for a family, the letters before the number.
        about: one line about it.
        numbered: whether it is a family, built from its number.

    >>> from intertwine.groups import GROUPS
    >>> GROUPS["D"].about, GROUPS["D"].make(4).order
    ('rotations and reflections of the plane, of order 2n', 8)
    """

    def register(make: Make) -> Make:
        GROUPS.add(plain_name(name), NamedGroup(name, about, make, numbered))
        return make

    return register


def plain_name(name: str) -> str:
    """A name without parentheses and underscores, which are optional."""
    return re.sub(r"[()_]", "", name.strip())


def group_named(name: str, *, full_name: str) -> Group:
    """The group with this name; ``full_name`` is the text that an error quotes."""
    plain = plain_name(name)
    if plain in GROUPS and not GROUPS[plain].numbered:
        return GROUPS[plain].make()
    match = re.fullmatch(r"([A-Za-z]+)(\d+)", plain)
    if match and match[1] in GROUPS and GROUPS[match[1]].numbered:
        try:
            return GROUPS[match[1]].make(int(match[2]))
        except InputError as error:
            raise ParseError("parse", expected=error.expected, got=repr(full_name), fix=error.fix) from error
    raise ParseError(
        "parse",
        expected=f"a group such as {', '.join(entry.example for entry in GROUPS.values())}",
        got=repr(full_name),
        fix="Join factors with ' x ', as in 'C3 x S3'. For any other group, use FiniteGroup.from_permutations.",
    )
