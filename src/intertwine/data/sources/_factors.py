"""Grids of factors: one image per combination of values, in a fixed order."""

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
    """All combinations of the values of some factors. The last factor varies fastest.

    Args:
        names: the names of the factors.
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
        """The number of values of each factor."""
        return tuple(len(values) for values in self.values)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance in the order between neighboring values of each factor."""
        return tuple(prod(self.sizes[k + 1 :]) for k in range(len(self.sizes)))

    def __len__(self) -> int:
        return prod(self.sizes)

    def index(self, classes: Tensor) -> Tensor:
        """The index ``(n,)`` of each combination of classes ``(n, factors)``."""
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
        """The classes ``(n, factors)`` of the combinations with these indices ``(n,)``."""
        return index[..., None] // torch.tensor(self.strides) % torch.tensor(self.sizes)

    def value(self, classes: Tensor) -> Tensor:
        """The values ``(n, factors)``, float64, of combinations of classes ``(n, factors)``."""
        tables = [torch.tensor(values, dtype=torch.float64) for values in self.values]
        return torch.stack([table[classes[..., k]] for k, table in enumerate(tables)], -1)

    def indices(self, **chosen: Iterable[int]) -> Tensor:
        """The indices, in order, of the part of the grid with the chosen classes. Other factors keep all their classes.

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
            )
        axes = [
            torch.tensor(list(chosen.get(name, range(size))), dtype=torch.int64)
            for name, size in zip(self.names, self.sizes, strict=True)
        ]
        mesh = torch.meshgrid(*axes, indexing="ij")
        return self.index(torch.stack(mesh, -1).reshape(-1, len(axes)))
