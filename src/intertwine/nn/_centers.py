"""What a group requires of a window: centers that it maps to each other, and equal options along axes it exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import torch
from torch import Tensor

from .._devices import on_cpu
from ..errors import InputError
from ..groups import FiniteGroup
from ..spaces import Grid
from ._layer import axis_names
from ._window import Window


@dataclass(frozen=True)
class Centers:
    """The axes along which the centers of windows must be symmetric about the center of the input.

    Attributes:
        axes: see :func:`moving_axes`.
        group: the name of the group, for messages.
        on_sample: whether the center must be a sample, before and after. On the hexagonal lattice, rotations about any
            other point of an array don't map its samples to samples.
    """

    axes: tuple[int, ...]
    group: str
    on_sample: bool = False

    @classmethod
    def of(cls, space: Grid) -> Self:
        """What the stabilizer of a grid requires."""
        return cls(moving_axes(space), space.stabilizer.name, on_sample=is_hexagonal(space))

    def require_symmetric(self, caller: str, window: Window, sizes: Sequence[int]) -> None:
        """Raise an error unless the centers are symmetric on an input of these sizes.

        They are if and only if the window travels a whole number of strides. On other sizes the first and the last
        window do not mirror each other, and the layer would not commute with any reflection or rotation.
        """
        if self.on_sample and not (window.padding_mode == "circular" and set(window.stride) == {1}):
            self._require_on_sample(caller, window, sizes)
        for axis in self.axes:
            n, stride = sizes[axis], window.stride[axis]
            excess = window.travel(axis, n) % stride
            if excess:
                fitting = [m for m in (n - excess, n - excess + stride) if m > 0]
                raise InputError(
                    caller,
                    expected=f"{' or '.join(map(str, fitting))} along {window.axis_name(axis)}: with kernel "
                    f"{window.kernel_size[axis]}, stride {stride} and padding {window.before[axis]} the samples are "
                    f"symmetric about the center on sizes {fitting[-1] % stride} mod {stride} only",
                    got=f"{n}, on which the layer would not commute with {self.group}",
                    fix="Put FitStride before the layer, crop or pad the input, or pass allow_asymmetric=True.",
                )

    def _require_on_sample(self, caller: str, window: Window, sizes: Sequence[int]) -> None:
        if len(set(sizes)) > 1:
            raise InputError(caller, expected="equal sizes on the hexagonal lattice", got=str(tuple(sizes)))
        n, stride = sizes[0], window.stride[0]

        def fits(n: int) -> bool:
            return n % 2 == 1 and window.travel(0, n) % (2 * stride) == 0

        if not fits(n):
            near = [m for m in range(max(n - 2 * stride, 1), n + 2 * stride + 1) if fits(m)]
            raise InputError(
                caller,
                expected=f"a size of {' or '.join(map(str, near))}" if near else "a kernel of odd size",
                got=f"{n}, on which the layer would not commute with {self.group}: rotations of the hexagonal lattice "
                "need a sample at the center of the input and of the output",
                fix="Resample the input to such a size, or pass allow_asymmetric=True.",
            )


def is_hexagonal(space: Grid) -> bool:
    """Whether a plane is sampled on the hexagonal lattice."""
    return getattr(space, "lattice", "square") == "hexagonal"


def placed(caller: str, window: Window, sizes: Sequence[int], centers: Centers | None) -> tuple[int, ...]:
    """The positions of a window on these sizes; an error if it does not fit, or is not symmetric but must be."""
    window.require_room(caller, sizes)
    if centers is not None:
        centers.require_symmetric(caller, window, sizes)
    return window.output_sizes(sizes)


@on_cpu
def moving_axes(space: Grid) -> tuple[int, ...]:
    """The axes of the array along which windows must be symmetric about the center.

    An element that sends an axis to itself or to another axis without reversing it preserves every set of windows that
    starts at the same sample along both. Any other element needs symmetric windows.
    """
    moves = _index_moves(space)
    if moves is None:
        return tuple(range(space.dimension))
    eye = torch.eye(space.dimension, dtype=torch.float64)
    preserved = (moves - eye).abs().amax(2) < 1e-9
    if space.exact:
        preserved |= (moves >= 0).all(2) & (moves.sum(2) == 1)
    return tuple(axis for axis, still in enumerate(preserved.all(0).tolist()) if not still)


@on_cpu
def mixed_axes(space: Grid) -> tuple[tuple[int, int], ...]:
    """The pairs of axes of the array that some element of H mixes."""
    pairs = tuple(combinations(range(space.dimension), 2))
    moves = _index_moves(space)
    if moves is None:
        return pairs
    off = moves.abs().amax(0) > 1e-9
    return tuple((a, b) for a, b in pairs if off[a, b] or off[b, a])


def _index_moves(space: Grid) -> Tensor | None:
    """The elements of a finite H as matrices on the indices of a centered array, ``(|H|, d, d)``."""
    group = space.stabilizer
    if not isinstance(group, FiniteGroup):
        return None
    d = space.dimension
    around = space.coordinates((3,) * d)
    steps = torch.stack([around[tuple(2 if a == b else 1 for b in range(d))] for a in range(d)], 1)
    return torch.linalg.inv(steps) @ space.matrices(group.elements) @ steps


def require_even_hand(caller: str, space: Grid, window: Window) -> None:
    """Raise an error unless options are equal along axes that the group mixes."""
    pairs = mixed_axes(space)
    values = {
        "stride": window.stride,
        "padding": window.before,
        "dilation": window.dilation,
        "kernel_size": window.kernel_size,
    }
    uneven = [f"{name}={v}" for name, v in values.items() if any(v[a] != v[b] for a, b in pairs)]
    if uneven:
        names = axis_names(space)
        which = " and ".join(f"{names[a]} and {names[b]}" for a, b in pairs)
        raise InputError(
            caller,
            expected=f"equal options along {which}, because {space.stabilizer.name} mixes them",
            got=", ".join(uneven),
            fix="Make them equal, choose a group that maps each axis to itself, or pass allow_asymmetric=True.",
        )


def require_square_lattice(caller: str, space: Grid) -> None:
    """Raise an error for the hexagonal lattice, whose rotations don't map square windows to themselves."""
    if is_hexagonal(space):
        raise InputError(
            caller,
            expected=f"the square lattice, on which {space.stabilizer.name} maps a square window to itself",
            got=space.name,
            fix="Make the plane with lattice='square'.",
        )
