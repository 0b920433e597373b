"""Candidates: the transformations that might be a symmetry of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from .._checked import checked
from .._devices import OnCPU
from .._digest import content_digest
from ..measure import Symmetry, Transformation
from ..spaces import FieldType, Grid2d, Space


@checked
@dataclass(frozen=True, eq=False)
class Candidate(OnCPU):
    """A symmetry that the data might have.

    Attributes:
        name: the name in tables and files.
        words: what it does, in words.
        elements: its transformations except the identity; a selection if there are infinitely many.
        grid: the plane with its group, if there are exact layers for it; None otherwise.
        is_group: whether the elements, with the identity, are a group or samples of one; zooms by up to a quarter
            are not.
        besides: transformations that are imposed by augmentation, besides the group of the layers; for combinations
            such as ``d4 + shifts``.

    >>> from intertwine.discovery import parse_candidate
    >>> parse_candidate("c4", (1, 8, 8))
    Candidate(c4: quarter turns, 3 elements, exact layers)
    >>> parse_candidate("brightness", (1, 8, 8))
    Candidate(brightness: brighter or darker, 8 elements, augmentation)
    >>> parse_candidate("c4 + shifts", (1, 8, 8))
    Candidate(c4 + shifts: quarter turns together with circular shifts, 16 elements, exact layers and augmentation)
    """

    name: str
    words: str
    elements: tuple[Transformation, ...]
    grid: Grid2d | None = None
    is_group: bool = False
    besides: tuple[Transformation, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether nothing is resampled."""
        return all(each.exact for each in self.elements)

    @property
    def is_undone(self) -> bool:
        """Whether every element has an inverse, so that samples can be moved there and back."""
        return all(each.inverse is not None for each in self.elements)

    @checked
    def augmentation(self, *, layers: bool) -> Candidate | None:
        """What augmentation has to impose, with exact layers for the group or without; None if nothing is left."""
        if not layers or self.grid is None:
            return self
        return Candidate(self.name, self.words, self.besides) if self.besides else None

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

    @checked
    def moved_on(self, x: Tensor, which: Tensor, generator: torch.Generator) -> Tensor:
        """Move sample i, which element ``which[i]`` has moved, by another random element that does not undo it."""
        inverses = torch.tensor([0, *self._inverses(x[:2])])[which]
        count = len(self.elements)
        drawn = torch.randint(1, count + 1, (len(x),), generator=generator)
        drawn = torch.where(drawn == inverses, drawn % count + 1, drawn)
        return self.moved(x, torch.where(drawn == inverses, 0, drawn))

    def _inverses(self, x: Tensor) -> list[int]:
        """For each element, the number of the element that undoes it; 0 if there is none."""
        numbers = []
        for each in self.elements:
            y = each.forward(x)
            back = y if each.inverse is None else each.inverse(y)
            undo = (n for n, other in enumerate(self.elements, 1) if torch.allclose(other.forward(y), back, atol=1e-5))
            numbers.append(next(undo, 0))
        return numbers

    def _mapped(self, x: Tensor, which: Tensor, of: Callable[[Transformation], Callable[[Tensor], Tensor]]) -> Tensor:
        out = x.clone()
        for number in which.unique().tolist():
            if number:
                chosen = which == number
                out[chosen] = of(self.elements[number - 1])(x[chosen])
        return out

    @property
    def _is_augmented(self) -> bool:
        return self.grid is None or bool(self.besides)

    def __repr__(self) -> str:
        how = " and ".join(["exact layers"] * (self.grid is not None) + ["augmentation"] * self._is_augmented)
        elements = f"{len(self.elements)} element{'s' * (len(self.elements) != 1)}"
        return f"Candidate({self.name}: {self.words}, {elements}, {how})"


CandidateLike: TypeAlias = str | Space | FieldType | Symmetry | Transformation | Candidate
"""A candidate, or what makes one."""
