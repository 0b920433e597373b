"""Windows that slide over a grid: where their centers lie, and whether the group keeps the set of centers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil

import torch
from torch import Tensor

from .._devices import on_cpu
from ..errors import InputError
from ..groups import FiniteGroup
from ..spaces import Grid
from ._layer import axis_names

_AXES = ("depth", "height", "width")


def per_axis(value: int | Sequence[int], dimension: int, *, who: str, what: str, least: int) -> tuple[int, ...]:
    """One whole number for each axis of space."""
    values = (value,) * dimension if isinstance(value, int) else tuple(value)
    if len(values) != dimension or not all(isinstance(v, int) and v >= least for v in values):
        raise InputError(
            who,
            expected=f"{what} of at least {least}, or {dimension} of them ({', '.join(_AXES[-dimension:])})",
            got=repr(value),
            fix=f"For example {what}={max(1, least)}.",
        )
    return values


@dataclass(frozen=True)
class Stencil:
    """A window with its stride, padding and dilation, one number an axis each, and the symmetry it has to keep.

    Attributes:
        axes: along which the set of centers must be symmetric; see :func:`moving_axes`.
        group: the name of the group, for messages.
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    axes: tuple[int, ...]
    group: str

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How many places the window takes along each axis."""
        return tuple(self._travel(axis, n) // self.stride[axis] + 1 for axis, n in enumerate(sizes))

    def _travel(self, axis: int, n: int) -> int:
        return n + 2 * self.padding[axis] - self.dilation[axis] * (self.kernel_size[axis] - 1) - 1

    def _name(self, axis: int) -> str:
        return f"the {_AXES[axis - len(self.kernel_size)]}"

    def require_room(self, who: str, sizes: Sequence[int]) -> None:
        """The window must fit into the padded input."""
        for axis, n in enumerate(sizes):
            if self._travel(axis, n) < 0:
                least = n - self._travel(axis, n)
                raise InputError(
                    who,
                    expected=f"an input of at least {least} along {self._name(axis)}",
                    got=f"sizes {tuple(sizes)}",
                    fix="Use a smaller kernel, more padding or a larger input.",
                )

    def require_symmetric(self, who: str, sizes: Sequence[int]) -> None:
        """The centers of the windows must lie symmetric about the center of the input.

        They do if and only if the window fits a whole number of strides. On other sizes the first and the last window
        do not mirror each other, and the layer would commute with no reflection and no turn.
        """
        for axis in self.axes:
            n, stride = sizes[axis], self.stride[axis]
            excess = self._travel(axis, n) % stride
            if excess:
                good = [m for m in (n - excess, n - excess + stride) if self._travel(axis, m) >= 0]
                raise InputError(
                    who,
                    expected=f"{' or '.join(map(str, good))} along {self._name(axis)}: with kernel "
                    f"{self.kernel_size[axis]}, stride {stride} and padding {self.padding[axis]} the samples are "
                    f"symmetric about the center on sizes {good[-1] % stride} mod {stride} only",
                    got=f"{n}, on which the layer would not commute with {self.group}",
                    fix="Crop or pad the input, change kernel or padding by one, or pass allow_asymmetric=True.",
                )

    def shift_step(self, sizes: Sequence[int], *, periodic: bool) -> int | None:
        """Shifts of a periodic input by multiples of this shift the output."""
        if len(set(self.stride)) > 1 or not (periodic or not any(self.padding)):
            return None
        out = self.output_sizes(sizes)
        whole = all(m * s == n for m, s, n in zip(out, self.stride, sizes, strict=True))
        return self.stride[0] if whole else None

    def interior(self) -> tuple[int, int] | None:
        """The stride, and how many outputs from the border on a window meets no padding; None for several strides."""
        if len(set(self.stride)) > 1:
            return None
        return self.stride[0], max(ceil(p / s) for p, s in zip(self.padding, self.stride, strict=True))

    def uneven(self, pairs: Sequence[tuple[int, int]]) -> list[str]:
        """The options that differ along two axes which the group turns into each other; see :func:`mixed_axes`."""
        options = ("stride", "padding", "dilation", "kernel_size")
        values = {name: getattr(self, name) for name in options}
        return [f"{name}={v}" for name, v in values.items() if any(v[a] != v[b] for a, b in pairs)]


@on_cpu
def moving_axes(space: Grid) -> tuple[int, ...]:
    """The axes of the array along which windows must lie symmetric about the center.

    An element that sends an axis to itself or to another without turning it around keeps every set of windows that
    starts at the same place along both; any other needs symmetric ones.
    """
    moves = _index_moves(space)
    if moves is None:
        return tuple(range(space.dimension))
    eye = torch.eye(space.dimension, dtype=torch.float64)
    kept = (moves - eye).abs().amax(2) < 1e-9
    if space.exact:
        kept |= (moves >= 0).all(2) & (moves.sum(2) == 1)
    return tuple(axis for axis, still in enumerate(kept.all(0).tolist()) if not still)


@on_cpu
def mixed_axes(space: Grid) -> tuple[tuple[int, int], ...]:
    """The pairs of axes of the array that some element of H turns towards each other."""
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


def require_even_hand(who: str, space: Grid, stencil: Stencil) -> None:
    """A group that turns one axis towards another needs the same options along both."""
    pairs = mixed_axes(space)
    uneven = stencil.uneven(pairs)
    if uneven:
        names = axis_names(space)
        which = " and ".join(f"{names[a]} and {names[b]}" for a, b in pairs)
        raise InputError(
            who,
            expected=f"equal options along {which}, because {space.stabilizer.name} turns one into the other",
            got=", ".join(uneven),
            fix="Make them equal, choose a group that keeps the axes, or pass allow_asymmetric=True.",
        )
