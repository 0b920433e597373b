"""Grids of factors: one image for every combination of some values, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError


@checked
@dataclass(frozen=True)
class FactorGrid:
    """The product of some factors; the last factor varies fastest.

    Args:
        names: one for each factor.
        values: the values of each factor, in the order of their classes.

    >>> grid = FactorGrid(("shape", "x"), ((1.0, 2.0, 3.0), (0.0, 0.5)))
    >>> len(grid), grid.sizes
    (6, (3, 2))
    >>> grid.classes(torch.tensor([0, 1, 2]))
    tensor([[0, 0],
            [0, 1],
            [1, 0]])
    >>> grid.index(torch.tensor([[1, 0]]))
    tensor([2])
    """

    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each factor has."""
        return tuple(len(values) for values in self.values)

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart in the order two neighbors in each factor are."""
        return tuple(prod(self.sizes[k + 1 :]) for k in range(len(self.sizes)))

    def __len__(self) -> int:
        return prod(self.sizes)

    def index(self, classes: Tensor) -> Tensor:
        """Index ``(n,)`` of each combination of classes ``(n, factors)``."""
        sizes = torch.tensor(self.sizes)
        if classes.shape[-1] != len(sizes) or bool(((classes < 0) | (classes >= sizes)).any()):
            raise InputError(
                "FactorGrid.index",
                expected=f"classes of {', '.join(self.names)} below {self.sizes}",
                got=f"shape {tuple(classes.shape)}, largest {classes.reshape(-1, classes.shape[-1]).amax(0).tolist()}",
                fix="Classes count from 0 in every factor.",
            )
        return (classes * torch.tensor(self.strides)).sum(-1)

    def classes(self, index: Tensor) -> Tensor:
        """Classes ``(n, factors)`` of the combinations with these indices ``(n,)``."""
        return index[..., None] // torch.tensor(self.strides) % torch.tensor(self.sizes)

    def value(self, classes: Tensor) -> Tensor:
        """Values ``(n, factors)``, float64, of combinations of classes ``(n, factors)``."""
        tables = [torch.tensor(values, dtype=torch.float64) for values in self.values]
        return torch.stack([table[classes[..., k]] for k, table in enumerate(tables)], -1)

    def indices(self, **chosen: Iterable[int]) -> Tensor:
        """Indices, in order, of the part of the grid with these classes; a factor that is not named keeps all.

        >>> grid = FactorGrid(("shape", "x"), ((1.0, 2.0, 3.0), (0.0, 0.5)))
        >>> grid.indices(shape=[0, 2])
        tensor([0, 1, 4, 5])
        """
        unknown = sorted(set(chosen) - set(self.names))
        if unknown:
            raise InputError(
                "FactorGrid.indices",
                expected=f"factors among {', '.join(self.names)}",
                got=", ".join(unknown),
                fix="Name a factor of the grid.",
            )
        axes = [
            torch.tensor(list(chosen.get(name, range(size))), dtype=torch.int64)
            for name, size in zip(self.names, self.sizes, strict=True)
        ]
        mesh = torch.meshgrid(*axes, indexing="ij")
        return self.index(torch.stack(mesh, -1).reshape(-1, len(axes)))
