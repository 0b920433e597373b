"""Spaces by name: ``parse_space("D4")``, ``parse_space("hflip")``, ``parse_space("Grid1d(D1)")``."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache

import torch

from .._checked import checked
from ..errors import InputError, ParseError
from ..groups import CompactLieGroup, Dihedral, FiniteGroup, Group, MatrixRepresentation, Subgroup, parse
from ._cloud import Cloud2d, Cloud3d
from ._grids import Grid1d, Grid2d, Grid3d
from ._homogeneous import HomogeneousSpace
from ._point import Point
from ._space import Space
from ._sphere import Sphere
from ._tuples import Tuples


def _upside_down() -> Grid2d:
    mirror = torch.stack([torch.eye(2), torch.diag(torch.tensor([1.0, -1.0]))])
    return Grid2d("D1", action=MatrixRepresentation(Dihedral(1), mirror, name="upside down"))


_NAMED: dict[str, Callable[[], Space]] = {
    "hflip": lambda: Grid2d("D1"),
    "vflip": _upside_down,
    "flips": lambda: Grid2d("D2"),
    "sphere": Sphere,
}
"""Spaces with a name of their own, besides the name of their group."""

_SPACES: dict[str, Callable[[str], Space]] = {
    "Grid1d": Grid1d,
    "Grid2d": Grid2d,
    "Grid3d": Grid3d,
    "Point": Point,
    "Cloud2d": Cloud2d,
    "Cloud3d": Cloud3d,
    "Tuples": lambda order: Tuples(_whole(order)),
}
_EXAMPLES = (*_NAMED, "C2", "C4", "C8", "D4", "SO(2)", "O(2)", "O", "Oh", "SO(3)", "S5", "Grid1d(D1)", "Grid2d(D4)")


@checked
def parse_space(name: str) -> Space:
    """The space of this name, with its group.

    ========================================  ==================================================================
    ``hflip``, ``vflip``, ``flips``           images under the left-right mirror, the up-down mirror, or both
    ``C4``, ``D4``, ``C8``, ``SO(2)``, ...    images under rotations; ``D`` and ``O(2)`` add reflections
    ``O``, ``Oh``, ``SO(3)``, ...             volumes
    ``S5``                                    sets of 5 points
    ``sphere``                                fields on the sphere under SO(3)
    ``Grid1d(D1)``, ``Grid3d(Oh)``, ...       the space as it is printed
    ========================================  ==================================================================

    Group names may be in lower case: ``c4`` is ``C4``.

    >>> parse_space("hflip"), parse_space("c4"), parse_space("Oh"), parse_space("S5"), parse_space("Grid1d(D1)")
    (Grid2d(D1), Grid2d(C4), Grid3d(Oh), S5/S4, Grid1d(D1))
    >>> parse_space("hflop")
    Traceback (most recent call last):
        ...
    intertwine.errors.ParseError: symmetry: expected hflip, vflip, flips, sphere, ...; got 'hflop'. Did you mean hflip?
    """
    return _parse_space(name)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # the cached result may take part in gradients later
def _parse_space(name: str) -> Space:
    plain = name.strip()
    if plain.lower() in _NAMED:
        return _NAMED[plain.lower()]()
    match = re.fullmatch(r"(\w+)\(\s*(.+?)\s*\)", plain)
    if match and match[1] in _SPACES:
        return _SPACES[match[1]](match[2])
    space = _default_space(_group(plain))
    if space is None:
        close = get_close_matches(plain, _EXAMPLES, 1)
        raise ParseError(
            "symmetry",
            expected=f"{', '.join(_NAMED)}, a group that acts on images (C4, D4, C8, SO(2)), volumes (O, Oh, SO(3)) or "
            "sets (S5), or a space such as Grid1d(D1)",
            got=repr(name),
            fix=f"Did you mean {close[0]}?" if close else "",
        )
    return space


def _whole(text: str) -> int:
    if not text.isdigit():
        raise ParseError("symmetry", expected="a number in Tuples(...)", got=repr(text))
    return int(text)


def _group(name: str) -> Group | None:
    for spelled in (name, name.capitalize(), name.upper()):
        try:
            return parse(spelled)
        except InputError:
            continue
    return None


def _default_space(group: Group | None) -> Space | None:
    """The space that a group acts on by default; None if there is none."""
    if not isinstance(group, FiniteGroup | CompactLieGroup):
        return None
    dim = getattr(group.standard, "dim", None)
    if dim in (2, 3):
        return Grid2d(group) if dim == 2 else Grid3d(group)
    match = re.fullmatch(r"S(\d+)", group.name)
    if match and isinstance(group, FiniteGroup) and group.order > 1:
        stabilizer = Subgroup(group, group.fixing(0).embedding, name=f"S{int(match[1]) - 1}")
        return HomogeneousSpace(group, stabilizer)
    return None
