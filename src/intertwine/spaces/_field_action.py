"""How group elements move batches of tensors, as fields of a given type or as scalars on a space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from .._checked import checked, describe
from .._devices import OnCPU
from ..errors import InputError
from ..groups import Element, Group
from ._axis_move import AxisMove
from ._field import FieldType, acts_trivially
from ._grid import Grid
from ._homogeneous import HomogeneousSpace
from ._parse import parse_space
from ._point import Point
from ._resample import Border
from ._space import Space
from ._sphere import Sphere
from ._sphere_grid import SphereGrid


@checked
@dataclass(frozen=True)
class FieldAction(OnCPU):
    """The compact group of a space acting on batches ``(n, channels, ...)``, or on single fields ``(channels, ...)``.

    Measurements and augmentations use it to move data. It is :meth:`FieldType.transform`, except that without a type
    any number of channels count as scalars.

    Attributes:
        space: the space on which fields are sampled.
        type: the type of the fields; None for any number of scalars.
        padding: what lies outside an array, for elements that resample it.

    >>> import torch
    >>> quarter = FieldAction.of("C4")
    >>> quarter.move(1, torch.arange(4.0).reshape(1, 1, 2, 2)).tolist()
    [[[[1.0, 3.0], [0.0, 2.0]]]]
    """

    space: Space
    type: FieldType | None = None
    padding: Border = "mirror"

    def __post_init__(self) -> None:
        if self.type is not None and self.type.space != self.space:
            raise InputError("FieldAction", expected=f"a type of fields on {self.space}", got=str(self.type))

    @staticmethod
    @checked
    def of(symmetry: str | Space | FieldType, *, padding: Border = "mirror") -> FieldAction:
        """The action on fields of a type, or on scalars on a space, which may be given by name."""
        if isinstance(symmetry, FieldType):
            return FieldAction(symmetry.space, symmetry, padding)
        return FieldAction(parse_space(symmetry) if isinstance(symmetry, str) else symmetry, None, padding)

    @property
    def group(self) -> Group:
        """The group that acts."""
        return self.space.compact_group

    @property
    def digest(self) -> str:
        """The digest of the type, or of the space if there is no type."""
        return self.space.digest if self.type is None else self.type.digest

    @property
    def rank(self) -> int:
        """The number of axes of a batch."""
        if isinstance(self.space, Grid):
            return 2 + self.space.dimension
        return next(n for n, kind in ((4, Sphere), (3, HomogeneousSpace), (2, Space)) if isinstance(self.space, kind))

    @cached_property
    def moves_nothing(self) -> bool:
        """Whether every element acts as the identity."""
        if self.type is not None and not self.type.is_trivial:
            return False
        if isinstance(self.space, Grid):
            return acts_trivially(self.space.action)
        return isinstance(self.space, Point) or (isinstance(self.space, HomogeneousSpace) and self.space.points == 1)

    @checked
    def move(self, g: Element, x: Tensor) -> Tensor:
        """τ_g x, the batch moved by g."""
        return self.move_scalars(g, x) if self.type is None else self._transform(self.type, g, self._required(x))

    @checked
    def move_scalars(self, g: Element, x: Tensor) -> Tensor:
        """The batch moved by g, with each channel treated as a scalar field."""
        x = self._required(x)
        # Augmentation moves one image at a time, for which the general way below takes twice as long.
        move = self.axis_move(g) if isinstance(g, int) else None
        if move is not None:
            return move(x)
        # Insert a channel axis of size 1 after the channels, which then act as part of the batch.
        axis = 1 - self.rank
        return self._transform(self._scalar, g, x.unsqueeze(axis)).squeeze(axis)

    def _transform(self, kind: FieldType, g: Element, x: Tensor) -> Tensor:
        options = {"padding": self.padding} if isinstance(self.space, Grid) else {}
        moved: Tensor = kind.transform(x, self.space.from_compact(g), **options)
        return moved

    def _required(self, x: Tensor) -> Tensor:
        if x.ndim not in (self.rank - 1, self.rank) or x.is_complex():
            raise InputError(f"action on {self}", expected=f"real numbers with {self.rank} axes", got=describe(x))
        return x

    @cached_property
    def _scalar(self) -> FieldType:
        return self.space.field(self.space.stabilizer.trivial)

    @checked
    def fits(self, x: Tensor) -> bool:
        """Whether a batch has the shape of scalar fields on this space."""
        if isinstance(self.space, HomogeneousSpace):
            return x.ndim == 3 and x.shape[2] == self.space.points
        if isinstance(self.space, Sphere):
            return x.ndim == 4 and SphereGrid.of_shape(*x.shape[2:]) is not None
        return isinstance(self.space, Grid) and x.ndim == self.rank and max(x.shape[2:]) > 1

    @checked
    def axis_move(self, g: Element) -> AxisMove | None:
        """How g moves the samples of a grid, if it only permutes and reverses axes; None otherwise."""
        return self.space.axis_move(g) if isinstance(self.space, Grid) else None

    @checked
    def is_exact(self, g: Element) -> bool:
        """Whether g moves all samples exactly: no interpolation, and no loss of degrees above a sphere's band limit."""
        if isinstance(self.space, Grid):
            return self.axis_move(g) is not None
        return not isinstance(self.space, Sphere)

    @checked
    def channel_order(self, g: Element, channels: int) -> tuple[int, ...] | None:
        """The permutation p for which channel i of τ_g x is the moved channel p[i] of x; None if channels mix."""
        if self.type is None:
            return tuple(range(channels))
        if not isinstance(self.space, Grid):  # on other spaces the matrix of an element depends on the point
            return None
        matrix = self.type.rho(g)
        move = AxisMove.from_matrix(matrix)
        return None if move is None or any(move.flips) or len(matrix) != channels else move.order

    def __repr__(self) -> str:
        return f"scalars on {self.space.name}" if self.type is None else f"{self.type.rho.name} on {self.space.name}"
