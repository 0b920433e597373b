"""How the elements of a group move batches of tensors: by a field type, or by scalars on a space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..groups import Group
from ..spaces import AxisMove, FieldType, Grid, HomogeneousSpace, Point, Space

OUTSIDE = "mirror"
"""What an image shows beyond its border where an element has to resample it."""


@dataclass(frozen=True)
class FieldAction:
    """The group of a space acting on batches ``(n, channels, ...)``.

    Attributes:
        space: where the samples lie.
        type: what the channels are; None for scalars, however many there are.
    """

    space: Space
    type: FieldType | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.space, Grid | HomogeneousSpace | Point):
            raise InputError(
                "Symmetry",
                expected="a grid, a finite space or a point, whose fields are plain tensors",
                got=self.space.name,
                fix="Give maps of your own with Symmetry.from_maps.",
            )

    @property
    def group(self) -> Group:
        """The group that acts."""
        return self.space.compact_group

    @property
    def digest(self) -> str:
        """Identifies the space and the type."""
        return self.space.digest if self.type is None else self.type.digest

    @property
    def rank(self) -> int:
        """The number of axes of a batch."""
        axes = {Grid: getattr(self.space, "dimension", 0), HomogeneousSpace: 1, Point: 0}
        return 2 + next(n for kind, n in axes.items() if isinstance(self.space, kind))

    @cached_property
    def moves_nothing(self) -> bool:
        """Whether no element changes anything, which is worth an error."""
        if self.type is not None and not is_trivial(self.type):
            return False
        if isinstance(self.space, Grid):
            still = torch.eye(self.space.dimension, dtype=torch.float64)
            probes = self.group.elements if self.group.is_finite else self.group.probes  # type: ignore[attr-defined]
            return bool((self.space.matrices(probes) == still).all())
        return isinstance(self.space, Point) or self.space.points == 1  # type: ignore[attr-defined]

    def move(self, g: Any, x: Tensor) -> Tensor:
        """τ_g x."""
        return self.move_scalars(g, x) if self.type is None else self._transform(self.type, g, x)

    def move_scalars(self, g: Any, x: Tensor) -> Tensor:
        """Every channel on its own, as a scalar field."""
        return self._transform(self._scalar, g, x.unsqueeze(2)).squeeze(2)

    def _transform(self, kind: FieldType, g: Any, x: Tensor) -> Tensor:
        options = {"padding": OUTSIDE} if isinstance(self.space, Grid) else {}
        moved: Tensor = kind.transform(x, self.space.from_compact(g), **options)
        return moved

    @cached_property
    def _scalar(self) -> FieldType:
        return self.space.field(self.space.stabilizer.trivial)

    def fits(self, x: Tensor) -> bool:
        """Whether a layer's output can be taken as scalar fields on this space."""
        if isinstance(self.space, HomogeneousSpace):
            return x.ndim == 3 and x.shape[2] == self.space.points
        return isinstance(self.space, Grid) and x.ndim == self.rank and max(x.shape[2:]) > 1

    def axis_move(self, g: Any) -> AxisMove | None:
        """How g moves the samples of a grid, if it exchanges and reverses axes; None otherwise."""
        return self.space.axis_move(g) if isinstance(self.space, Grid) else None

    def is_exact(self, g: Any) -> bool:
        """Whether nothing is interpolated."""
        return not isinstance(self.space, Grid) or self.axis_move(g) is not None

    def channel_order(self, g: Any, channels: int) -> tuple[int, ...] | None:
        """The index p with (τ_g x)[:, i] = moved x[:, p[i]], or None where channels are mixed otherwise."""
        if self.type is None:
            return tuple(range(channels))
        matrix = self.type.rho(g)
        move = AxisMove.from_matrix(matrix)
        return None if move is None or any(move.flips) or len(matrix) != channels else move.order

    def __repr__(self) -> str:
        return f"scalars on {self.space.name}" if self.type is None else f"{self.type.rho.name} on {self.space.name}"


def is_trivial(kind: FieldType) -> bool:
    """Whether the representation leaves all channels as they are."""
    group = kind.space.stabilizer
    probes = group.elements if group.is_finite else group.probes  # type: ignore[attr-defined]
    return bool((kind.rho(probes) == torch.eye(kind.dim, dtype=torch.float64)).all())
