"""Transformations: maps of images, with their inverses, that measurements apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from .._checked import checked
from ..spaces import FieldAction
from ._map_action import MapAction
from ._symmetry import Symmetry, SymmetryLike, parse_symmetry


@checked
@dataclass(frozen=True, eq=False)
class Transformation:
    """A map τ of images ``(n, c, h, w)``.

    Args:
        name: the name in tables.
        forward: x ↦ τx.
        inverse: y ↦ τ⁻¹y, as exact as pixels allow; None if there is none.
        exact: whether pixels only change places and nothing is resampled.

    >>> import torch
    >>> roll = Transformation("roll", lambda x: x.roll(1, -1), lambda y: y.roll(-1, -1), exact=True)
    >>> float(roll.round_trip(torch.rand(1, 1, 4, 4)))
    0.0
    """

    name: str
    forward: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor] | None = None
    exact: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def round_trip(self, x: Tensor) -> Tensor:
        """‖τ⁻¹τx − x‖ / ‖x‖ for each image: what is lost by resampling twice."""
        if self.inverse is None:
            return x.new_full((len(x),), float("nan"))
        difference = (self.inverse(self.forward(x)) - x).flatten(1).norm(dim=1)
        return difference / x.flatten(1).norm(dim=1).clamp_min(1e-30)


@checked
def transformations(symmetry: SymmetryLike | Transformation) -> list[Transformation]:
    """The elements of a symmetry except the identity; a single transformation is returned as it is.

    >>> [t.name for t in transformations("c4")]
    ['c4[1]', 'c4[2]', 'c4[3]']
    """
    if isinstance(symmetry, Transformation):
        return [symmetry]
    parsed = parse_symmetry(symmetry)
    return [_element(parsed, g) for g in range(1, parsed.order)]


def _element(symmetry: Symmetry, g: int) -> Transformation:
    name = symmetry.name if symmetry.order == 2 else f"{symmetry.name}[{g}]"
    return _applied(name, symmetry, symmetry.action, g)


def output_transformation(symmetry: Symmetry, g: int, y: Tensor, *, caller: str) -> Transformation:
    """How an element moves outputs with the shape of y."""
    return _applied(symmetry.name, symmetry, symmetry.output_action(y, caller=caller), g)


def _applied(name: str, symmetry: Symmetry, action: FieldAction | MapAction, g: int) -> Transformation:
    element = symmetry.element(g)
    back: Any = symmetry.group.inverse(element)
    return Transformation(
        name, partial(action.move, element), partial(action.move, back), exact=action.is_exact(element)
    )


def rank_of(symmetry: SymmetryLike | Transformation) -> int | None:
    """The number of axes of the batches that a symmetry moves; None for a transformation, which may take any."""
    return None if isinstance(symmetry, Transformation) else parse_symmetry(symmetry).rank


def name_of(symmetry: SymmetryLike | Transformation) -> str:
    """The name in tables."""
    return symmetry.name if isinstance(symmetry, Transformation) else parse_symmetry(symmetry).name
