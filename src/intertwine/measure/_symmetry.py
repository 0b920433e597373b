"""Symmetries: how a group moves the input and the output of a network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._checked import Positive, checked, describe
from .._devices import OnCPU
from .._digest import content_digest
from ..errors import InputError, TypeMismatchError
from ..groups import FiniteGroup, Group, LieGroup
from ..spaces import AxisMove, FieldAction, FieldType, Point, Space
from ._map_action import MapAction, TensorMap

Output: TypeAlias = str | FieldType
"""The type of an output: a field type, or the name of a representation."""

_ALL = 64  # up to this order, every element of a group is applied


class Symmetry(OnCPU):
    """A group that moves the input of a network, and its output if that moves too: a pair of field types.

    Functions that take a symmetry also take a name, a space with its group, or a field type. A space means scalars, one
    per channel: ``Grid2d("D4")`` for images, ``Grid1d("D1")`` for signals, ``Grid3d("Oh")`` for volumes,
    ``HomogeneousSpace(S5, S4)`` for sets of five points. A field type says what the channels are:
    ``Grid2d("D4").field("irrep1")`` for wind or flow, ``Point("SO(3)").field("irrep1")`` for vectors.

    Every element of a finite group of up to 64 elements is applied; of larger groups, ``samples`` random elements are.
    Elements that do not map the pixel grid to itself, such as rotations by 45°, resample the image (mirrored at its
    border), and estimates then have a ``floor``.

    Args:
        input: the type of the input: a name, a space, or a field type.
        output: the type of the output, if it moves: a field type, or the name of a representation. The name means
            fields for outputs with spatial axes, and vectors for outputs ``(n, k)``. By default, outputs ``(n, k)`` are
            invariant and outputs with spatial axes are scalars.
        name: the name in tables.
        samples: how many random elements of an infinite or large group to apply.
        seed: the seed for drawing them.

    >>> from intertwine.spaces import Grid2d
    >>> Symmetry("hflip")
    Symmetry(hflip: scalars on Grid2d(D1))
    >>> plane = Grid2d("D4")
    >>> Symmetry(plane, output="irrep1")
    Symmetry(Grid2d(D4): scalars on Grid2d(D4) to irrep1)
    >>> Symmetry(plane.field("irrep1"), output=plane.field("trivial")).order
    8
    """

    how_to_make = 'Give a name such as "hflip" or "D4", a space such as Grid2d("D4"), a field type, or a Symmetry.'

    @checked
    def __init__(
        self,
        input: str | Space | FieldType,
        *,
        output: Output | None = None,
        name: str | None = None,
        samples: Positive = 8,
        seed: int = 0,
    ) -> None:
        action = FieldAction.of(input)
        usual = input.strip() if isinstance(input, str) else action.space.name
        self._set(name or usual, action, output, samples, seed)

    @staticmethod
    @checked
    def from_maps(
        group: FiniteGroup,
        maps: Sequence[TensorMap],
        *,
        name: str,
        channels: Positive = 3,
        sizes: tuple[int, ...] = (5, 5),
        output: Output | None = None,
    ) -> Symmetry:
        """A symmetry given by maps τ_g of batches, with τ_gh = τ_g τ_h; the output moves by the same maps.

        Maps that exchange and reverse axes and rearrange channels also act on the filters of a network (see
        :func:`transform_network`). Other maps only act on the input.

        Args:
            group: the abstract group.
            maps: one map per element, the identity first.
            name: the name in tables.
            channels: the number of channels of the random tensor on which the law is checked.
            sizes: the sizes of its remaining axes.
            output: the type of the output, if it moves in another way.

        >>> from intertwine.groups import Cyclic
        >>> swap = Symmetry.from_maps(Cyclic(2), [lambda x: x, lambda x: x.flip(1)], name="swap colors")
        >>> swap.order, swap.channel_order(1, 3)
        (2, (2, 1, 0))
        """
        symmetry = Symmetry.__new__(Symmetry)
        symmetry._set(name, MapAction(name, group, maps, channels, sizes), output, 1, 0)
        return symmetry

    def _set(self, name: str, action: FieldAction | MapAction, output: Output | None, samples: int, seed: int) -> None:
        self.name, self.action, self.output, self._samples, self._seed = name, action, output, samples, seed
        if action.moves_nothing or self.order == 1:
            raise InputError(
                f"Symmetry {name!r}",
                expected="a group that moves something",
                got=repr(action),
                fix='Say what the channels are, as in Point("SO(3)").field("irrep1").',
            )
        if isinstance(output, FieldType) and output.space.compact_group != self.group:
            raise TypeMismatchError(
                f"Symmetry {name!r}",
                expected=f"an output type of the group {self.group.name}",
                got=f"{output} of {output.space.compact_group.name}",
            )
        if isinstance(output, str) and isinstance(action, FieldAction) and action.space.stabilizer == self.group:
            self._output_type(2)  # reports a wrong name now rather than at the first measurement

    @property
    def digest(self) -> str:
        """A digest of what is applied; user-defined maps count by name."""
        out = self.output.digest if isinstance(self.output, FieldType) else self.output
        return content_digest("symmetry", self.name, self.action.digest, out or "", self._samples, self._seed)

    # -- elements ----------------------------------------------------------------------------------------------

    @property
    def group(self) -> Group:
        """The group that acts."""
        return self.action.group

    @cached_property
    def elements(self) -> tuple[Any, ...]:
        """The elements that are applied, the identity first."""
        group = self.group
        if isinstance(group, FiniteGroup):
            if group.order <= _ALL or isinstance(self.action, MapAction):
                return tuple(range(group.order))
            others = torch.randint(1, group.order, (self._samples,), generator=self._generator())
            return (0, *others.tolist())
        if not isinstance(group, LieGroup):
            raise InputError(f"Symmetry {self.name!r}", expected="a finite group or a Lie group", got=group.name)
        return (group.identity, *group.sample(self._samples, self._generator()))

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed)

    @property
    def order(self) -> int:
        """The number of elements that are applied, including the identity."""
        return len(self.elements)

    @property
    def rank(self) -> int:
        """The number of axes of a batch."""
        return self.action.rank

    @checked
    def element(self, g: int) -> Any:
        """Element number g, as the group represents it."""
        if not 0 <= g < self.order:
            raise InputError(
                f"Symmetry {self.name!r}",
                expected=f"an element of {self.group.name}, 0 to {self.order - 1}",
                got=str(g),
            )
        return self.elements[g]

    @checked
    def require_finite(self, *, caller: str) -> FiniteGroup:
        """Return the group; raise an error if only some of its elements are applied."""
        if not isinstance(self.group, FiniteGroup) or self.group.order != self.order:
            raise InputError(
                caller,
                expected=f"a finite group of at most {_ALL} elements",
                got=f"{self.name}, of which {self.order - 1} elements are drawn",
                fix="Use a subgroup such as C4 or D4.",
            )
        return self.group

    # -- the input ---------------------------------------------------------------------------------------------

    @checked
    def apply(self, g: int, x: Tensor) -> Tensor:
        """τ_g x for element number g."""
        if x.ndim != self.rank or x.is_complex():
            raise InputError(
                f"Symmetry {self.name!r}", expected=f"a batch of real numbers with {self.rank} axes", got=describe(x)
            )
        return self.action.move(self.element(g), x)

    @checked
    def is_exact(self, g: int) -> bool:
        """Whether element number g moves samples without interpolation."""
        return self.action.is_exact(self.element(g))

    @checked
    def axis_move(self, g: int) -> AxisMove | None:
        """How an element exchanges and reverses axes; None if it moves samples in another way."""
        return self.action.axis_move(self.element(g))

    @checked
    def channel_order(self, g: int, channels: int) -> tuple[int, ...] | None:
        """The index p with (τ_g x)[:, i] = moved x[:, p[i]]; None if channels are mixed in another way."""
        return self.action.channel_order(self.element(g), channels)

    @property
    def moves_filters(self) -> bool:
        """Whether all elements move pixels by flips and quarter turns, so that they also act on filters."""
        complete = isinstance(self.group, FiniteGroup) and self.group.order == self.order
        return complete and self.rank == 4 and all(self.axis_move(g) is not None for g in range(self.order))

    @checked
    def require_axis_move(self, g: int, *, caller: str) -> AxisMove:
        """How an element moves pixels; raise an error if it does not act on filters."""
        move = self.axis_move(g)
        if move is None or move.dimension != 2:
            raise InputError(
                caller,
                expected="elements that move pixels by flips and quarter turns",
                got=f"element {g} of {self.name}",
                fix="Such a map does not act on filters; measure outputs with invariance_error instead.",
            )
        return move

    # -- the output --------------------------------------------------------------------------------------------

    @checked
    def output_action(self, y: Tensor, *, caller: str) -> FieldAction | MapAction:
        """How outputs with the shape of y move."""
        kind = self._output_type(y.ndim)
        if kind is not None:
            return FieldAction(kind.space, kind)
        typed = self.action.type if isinstance(self.action, FieldAction) else None
        if y.ndim != self.rank or (typed is not None and not typed.is_trivial):
            raise InputError(
                caller,
                expected=_EXPECTED.get(self.rank, f"outputs with {self.rank} axes, like the input")
                if typed is None
                else "output=, the type of the output, since the input has one",
                got=f"shape {tuple(y.shape)}",
                fix="For class scores use invariance_error; for other outputs (n, k), give their type with output=.",
            )
        return self.action if isinstance(self.action, MapAction) else FieldAction(self.action.space)

    def _output_type(self, ndim: int) -> FieldType | None:
        if not isinstance(self.output, str):
            return self.output
        if ndim == 2 or isinstance(self.action, MapAction):
            return Point(self.group).field(self.output)
        return self.action.space.field(self.output)

    @property
    def judges_output(self) -> bool:
        """Whether the output has a type, and should move rather than stay."""
        return self.output is not None

    @checked
    def require_plain_output(self, *, caller: str) -> None:
        """Raise an error if the output moves in another way than scalars."""
        kind = self._output_type(2)
        if kind is not None and not kind.is_trivial:
            raise InputError(
                caller,
                expected="invariant outputs, or scalar images",
                got=f"output {self.output}",
                fix="Leave output= out.",
            )

    @checked
    def with_output(self, output: Output | None) -> Symmetry:
        """The symmetry with another output type; unchanged if ``output`` is None."""
        if output is None:
            return self
        symmetry = Symmetry.__new__(Symmetry)
        symmetry._set(self.name, self.action, output, self._samples, self._seed)
        return symmetry

    def __repr__(self) -> str:
        kind = self.output
        to = "" if kind is None else f" to {kind if isinstance(kind, str) else f'{kind.rho.name} on {kind.space.name}'}"
        return f"Symmetry({self.name}: {self.action}{to})"


_EXPECTED = {4: "a network whose output is images (n, c, h, w)"}

SymmetryLike: TypeAlias = str | Space | FieldType | Symmetry
"""A symmetry, or what makes one."""


@checked
def parse_symmetry(symmetry: SymmetryLike, *, output: Output | None = None) -> Symmetry:
    """Make a symmetry from a name, a space or a field type; :func:`intertwine.spaces.parse_space` lists the names.

    >>> parse_symmetry("c4").order
    4
    >>> parse_symmetry("hflop")
    Traceback (most recent call last):
        ...
    intertwine.errors.ParseError: symmetry: expected hflip, ...; got 'hflop'. Did you mean hflip?
    """
    if isinstance(symmetry, Symmetry):
        return symmetry.with_output(output)
    return Symmetry(symmetry, output=output)
