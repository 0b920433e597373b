"""Candidates: the transformations that might be a symmetry of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import TypeAlias

import torch
from torch import Tensor

from .._checked import checked
from .._devices import OnCPU
from .._digest import content_digest
from ..errors import InputError
from ..groups import Dihedral, FiniteGroup, MatrixRepresentation
from ..measure import Symmetry, Transformation, parse_symmetry, transformations
from ..spaces import FieldAction, FieldType, Grid2d, Space, resample

_DRAWN = 16  # elements of a continuous family


@checked
@dataclass(frozen=True, eq=False)
class Candidate(OnCPU):
    """A symmetry that the data might have.

    Attributes:
        name: the name in tables and files.
        words: what it does, in words.
        elements: its transformations except the identity; a random selection if there are infinitely many.
        grid: the plane with its group, if there are exact layers for it; None otherwise.

    >>> parse_candidate("c4", (1, 8, 8))
    Candidate(c4: quarter turns, 3 elements, exact layers)
    >>> parse_candidate("brightness", (1, 8, 8))
    Candidate(brightness: brighter or darker, 8 elements, augmentation)
    """

    name: str
    words: str
    elements: tuple[Transformation, ...]
    grid: Grid2d | None = None

    @property
    def is_exact(self) -> bool:
        """Whether nothing is resampled."""
        return all(each.exact for each in self.elements)

    @checked
    def digest(self, x: Tensor) -> str:
        """A digest of what the elements do to these samples, since functions cannot be compared."""
        return content_digest("candidate", self.name, *(each.forward(x) for each in self.elements))

    @checked
    def moved(self, x: Tensor, which: Tensor) -> Tensor:
        """Apply element ``which[i]`` to sample i; 0 is the identity."""
        return self._mapped(x, which, lambda each: each.forward)

    @checked
    def there_and_back(self, x: Tensor, which: Tensor) -> Tensor:
        """Apply element ``which[i]`` to sample i, and its inverse: what resampling alone does to it."""

        def both(each: Transformation) -> Callable[[Tensor], Tensor]:
            back = each.inverse
            return (lambda y: y) if back is None else (lambda y: back(each.forward(y)))

        return self._mapped(x, which, both)

    def _mapped(self, x: Tensor, which: Tensor, of: Callable[[Transformation], Callable[[Tensor], Tensor]]) -> Tensor:
        out = x.clone()
        for number in which.unique().tolist():
            if number:
                chosen = which == number
                out[chosen] = of(self.elements[number - 1])(x[chosen])
        return out

    def __repr__(self) -> str:
        how = "exact layers" if self.grid is not None else "augmentation"
        elements = f"{len(self.elements)} element{'s' * (len(self.elements) != 1)}"
        return f"Candidate({self.name}: {self.words}, {elements}, {how})"


CandidateLike: TypeAlias = str | Space | FieldType | Symmetry | Transformation | Candidate
"""A candidate, or what makes one."""


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

    A :class:`~intertwine.measure.Symmetry` or :class:`~intertwine.measure.Transformation` of your own works too, also
    for signals, volumes and sets.

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
    if isinstance(candidate, str) and candidate.strip().lower() in _BUILT_IN:
        name = candidate.strip().lower()
        words, needs, build = _BUILT_IN[name]
        needed, holds = _NEEDS[needs]
        if not holds(shape):
            raise InputError(f"candidate {name}", expected=needed, got=f"shape {tuple(shape)}")
        return Candidate(name, words, tuple(build(shape)))
    spelled = candidate.strip() if isinstance(candidate, str) else None
    lower = spelled.lower() if spelled is not None else ""
    symmetry = Symmetry(_diagonal(), name=lower) if lower == "transpose" else parse_symmetry(candidate)
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
    name = lower if lower in _WORDS else symmetry.name
    return Candidate(name, _WORDS.get(name.lower(), name), tuple(transformations(symmetry)), grid)


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
    return [name for name in names if name not in _BUILT_IN or _NEEDS[_BUILT_IN[name][1]][1](shape)]


_WORDS = {
    "hflip": "the left-right mirror",
    "vflip": "the up-down mirror",
    "transpose": "the diagonal mirror",
    "flips": "both mirrors",
    "c2": "half turns",
    "c4": "quarter turns",
    "d4": "quarter turns and mirrors",
}


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


# -- the built-in families: functions of the module, so that they can be sent to other processes -----------------------


def _shifted(x: Tensor, by: tuple[int, ...]) -> Tensor:
    return x.roll(by, tuple(range(2, 2 + len(by))))


def _zoomed(x: Tensor, factor: float) -> Tensor:
    centers = [(n - 1) / 2 for n in x.shape[2:]]
    axes = [(torch.arange(n, dtype=x.dtype) - c) / factor + c for n, c in zip(x.shape[2:], centers, strict=True)]
    index = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
    return resample(x, index, border="mirror", interpolation="linear")


def _permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    return x[:, list(order)]


def _recolored(x: Tensor, angle: float) -> Tensor:
    """Rotate colors about the gray axis; shades of gray stay as they are."""
    k = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], dtype=x.dtype) / math.sqrt(3)
    turn = torch.eye(3, dtype=x.dtype) + math.sin(angle) * k + (1 - math.cos(angle)) * (k @ k)
    return torch.einsum("ij,njhw->nihw", turn, x)


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor


def _negated(x: Tensor) -> Tensor:
    return 1 - x


def _rotations(shape: tuple[int, ...]) -> Sequence[Transformation]:
    return transformations(Symmetry("SO(2)", samples=_DRAWN))


def _shifts(shape: tuple[int, ...]) -> Sequence[Transformation]:
    generator = torch.Generator().manual_seed(0)
    reach = [max(1, n // 4) for n in shape[1:]]
    drawn: list[tuple[int, ...]] = []
    while len(drawn) < _DRAWN:
        by = tuple(int(torch.randint(-r, r + 1, (), generator=generator)) for r in reach)
        drawn += [by] if any(by) else []
    return [
        Transformation(
            f"shift by {by}", partial(_shifted, by=by), partial(_shifted, by=tuple(-b for b in by)), exact=True
        )
        for by in drawn
    ]


def _zooms(shape: tuple[int, ...]) -> Sequence[Transformation]:
    factors = [1.25 ** (k / 4) for k in (-4, -3, -2, 2, 3, 4)]
    return [
        Transformation(f"zoom by {f:.2f}", partial(_zoomed, factor=f), partial(_zoomed, factor=1 / f)) for f in factors
    ]


def _colors(shape: tuple[int, ...]) -> Sequence[Transformation]:
    orders = list(permutations(range(shape[0])))[1:]
    return [
        Transformation(
            f"channels {order}",
            partial(_permuted, order=order),
            partial(_permuted, order=tuple(sorted(range(len(order)), key=order.__getitem__))),
            exact=True,
        )
        for order in orders
    ]


def _hues(shape: tuple[int, ...]) -> Sequence[Transformation]:
    angles = [2 * math.pi * k / 8 for k in range(1, 8)]
    return [
        Transformation(
            f"hue by {math.degrees(a):.0f}°", partial(_recolored, angle=a), partial(_recolored, angle=-a), exact=True
        )
        for a in angles
    ]


def _brightnesses(shape: tuple[int, ...]) -> Sequence[Transformation]:
    factors = [1.5 ** (k / 4) for k in (-4, -3, -2, -1, 1, 2, 3, 4)]
    return [
        Transformation(f"brightness × {f:.2f}", partial(_scaled, factor=f), partial(_scaled, factor=1 / f), exact=True)
        for f in factors
    ]


def _negatives(shape: tuple[int, ...]) -> Sequence[Transformation]:
    return [Transformation("negative", _negated, _negated, exact=True)]


_NEEDS: dict[str, tuple[str, Callable[[tuple[int, ...]], bool]]] = {
    "images": ("images (channels, height, width)", lambda shape: len(shape) == 3),
    "square": ("square images", lambda shape: len(shape) == 3 and shape[1] == shape[2]),
    "channels": ("2 to 4 channels", lambda shape: 2 <= shape[0] <= 4),
    "colors": ("images with 3 channels", lambda shape: len(shape) == 3 and shape[0] == 3),
    "anything": ("samples", lambda shape: True),
}

_BUILT_IN: dict[str, tuple[str, str, Callable[[tuple[int, ...]], Sequence[Transformation]]]] = {
    "rotation": ("turns by any angle", "square", _rotations),
    "shifts": ("circular shifts", "images", _shifts),
    "scale": ("zooms by up to a quarter", "images", _zooms),
    "colors": ("permutations of the channels", "channels", _colors),
    "hue": ("other hues", "colors", _hues),
    "brightness": ("brighter or darker", "anything", _brightnesses),
    "negative": ("black and white exchanged", "anything", _negatives),
}
"""Name → what it does, which samples it needs, and its transformations."""
