"""Candidates by name: the built-in ones, groups, combinations, and what users bring."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .._checked import checked
from ..errors import InputError
from ..groups import Dihedral, FiniteGroup, MatrixRepresentation
from ..measure import Symmetry, Transformation, parse_symmetry, transformations
from ..spaces import FieldAction, Grid2d
from ._candidate import Candidate, CandidateLike
from ._families import FAMILIES, NEEDS
from ._joint import joint_candidate

_ANGLES = "C25"  # 25 angles stand for all; an odd number, so that each of them resamples


@checked
def parse_candidate(candidate: CandidateLike, shape: tuple[int, ...]) -> Candidate:
    """Make a candidate for samples of this shape, such as ``(3, 32, 32)``.

    ==============  =================================================================================================
    ``hflip``       the left-right mirror; ``vflip`` is the up-down mirror, ``transpose`` the one along the diagonal
    ``c2``, ``c4``  half turns, quarter turns; ``d4`` adds mirrors; any name that ``parse_symmetry`` knows
    ``rotation``    turns by any angle
    ``shifts``      circular shifts by up to a quarter of the image
    ``scale``       zooms by up to a quarter
    ``colors``      permutations of the channels
    ``hue``         rotations of the color wheel, for three channels
    ``brightness``  multiplication by up to 1.5
    ``negative``    black and white exchanged
    ==============  =================================================================================================

    Names combine: ``c4 + shifts``. A :class:`~intertwine.measure.Symmetry` or
    :class:`~intertwine.measure.Transformation` of your own works too, also for signals, volumes and sets.

    >>> parse_candidate("hue", (1, 8, 8))
    Traceback (most recent call last):
    intertwine.errors.InputError: candidate hue: expected images with 3 channels; got shape (1, 8, 8).
    """
    if isinstance(candidate, Candidate):
        return candidate
    if isinstance(candidate, Transformation):
        back = candidate.inverse
        inverse = (
            ()
            if back is None
            else (Transformation(f"inverse of {candidate.name}", back, candidate.forward, exact=candidate.exact),)
        )
        return Candidate(candidate.name, candidate.name, (candidate, *inverse))
    name = candidate.strip().lower() if isinstance(candidate, str) else ""
    parts = [part.strip() for part in name.split("+")]
    if len(parts) > 1 and all(part in FAMILIES or part in _WORDS for part in parts):
        return _combination(parts, shape)
    if name in FAMILIES:
        words, needs, build = FAMILIES[name]
        needed, holds = NEEDS[needs]
        if not holds(shape):
            raise InputError(f"candidate {name}", expected=needed, got=f"shape {tuple(shape)}")
        return Candidate(name, words, tuple(build(shape)))
    if name == "transpose":
        symmetry = Symmetry(_diagonal(), name=name)
    else:
        symmetry = Symmetry(_ANGLES, name=name) if name == "rotation" else parse_symmetry(candidate)
    if symmetry.rank != len(shape) + 1:
        raise InputError(
            f"candidate {symmetry.name}",
            expected=f"samples with {symmetry.rank - 1} axes",
            got=f"shape {tuple(shape)}",
            fix="Name the space of your samples, such as Grid1d(D1) for signals.",
        )
    grid = _grid(symmetry)
    if len(shape) == 3 and shape[1] != shape[2] and _turns(symmetry):
        raise InputError(f"candidate {symmetry.name}", expected="square images", got=f"shape {tuple(shape)}")
    name = name if name in _WORDS else symmetry.name
    return Candidate(name, _WORDS.get(name.lower(), name), tuple(transformations(symmetry)), grid, is_group=True)


@checked
def combine(candidates: Sequence[Candidate], shape: tuple[int, ...]) -> Candidate | None:
    """The smallest candidate that contains all of these; None if their group has no name, and so no layers.

    >>> mirror, turns = parse_candidate("hflip", (1, 8, 8)), parse_candidate("c4", (1, 8, 8))
    >>> combine([mirror, turns], (1, 8, 8)).name
    'd4'
    """
    names = [name for name in _GROUPS if shape[-1] == shape[-2] or name not in ("c4", "d4", "transpose")]
    return joint_candidate(candidates, [parse_candidate(name, shape) for name in names] if len(shape) == 3 else [])


def _combination(names: Sequence[str], shape: tuple[int, ...]) -> Candidate:
    whole = combine([parse_candidate(name, shape) for name in names], shape)
    if whole is None:
        raise InputError("candidate", expected=f"a combination among {', '.join(_GROUPS)}", got=" + ".join(names))
    return whole


@checked
def usual_candidates(shape: tuple[int, ...]) -> list[str]:
    """The names of the built-in candidates that apply to images of this shape ``(channels, height, width)``.

    >>> usual_candidates((1, 8, 8))
    ['hflip', 'vflip', 'c2', 'c4', 'd4', 'rotation', 'shifts', 'scale', 'brightness']
    """
    if len(shape) != 3:
        return []
    square = ["c4", "d4", "rotation"] if shape[1] == shape[2] else []
    names = ["hflip", "vflip", "c2", *square, "shifts", "scale", "colors", "hue", "brightness"]
    return [name for name in names if name not in FAMILIES or NEEDS[FAMILIES[name][1]][1](shape)]


_WORDS = {
    "hflip": "the left-right mirror",
    "vflip": "the up-down mirror",
    "transpose": "the diagonal mirror",
    "flips": "both mirrors",
    "c2": "half turns",
    "c4": "quarter turns",
    "d4": "quarter turns and mirrors",
    "rotation": "turns by any angle",
}

_GROUPS = ("hflip", "vflip", "transpose", "c2", "c4", "flips", "d4")
"""Groups with exact layers, each before those that contain it."""


def _diagonal() -> Grid2d:
    # The vertical axis points up, so exchanging rows and columns of an image also reverses both axes.
    swap = torch.stack([torch.eye(2), torch.tensor([[0.0, -1.0], [-1.0, 0.0]])])
    return Grid2d("D1", action=MatrixRepresentation(Dihedral(1), swap, name="diagonal"))


def _grid(symmetry: Symmetry) -> Grid2d | None:
    """The plane, if the group is finite, maps the pixel grid to itself and acts on scalars."""
    action = symmetry.action
    if not isinstance(action, FieldAction) or not isinstance(action.space, Grid2d) or not symmetry.moves_filters:
        return None
    is_scalar = action.type is None or action.type.is_trivial
    return action.space if is_scalar and isinstance(symmetry.group, FiniteGroup) else None


def _turns(symmetry: Symmetry) -> bool:
    """Whether an element exchanges height and width."""
    moves = [symmetry.axis_move(g) for g in range(symmetry.order)]
    probe = torch.zeros(1, 1, 2, 3)
    return any(move is None or move(probe).shape != probe.shape for move in moves)
