"""Windows that slide over the plane: where their centers lie, and whether the group keeps the set of centers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..errors import InputError
from ..groups import FiniteGroup
from ..spaces import Grid
from ._tables import on_cpu


def pair(value: int | Sequence[int], *, who: str, what: str, least: int) -> tuple[int, int]:
    """One whole number for each axis."""
    values = (value, value) if isinstance(value, int) else tuple(value)
    if len(values) != 2 or not all(isinstance(v, int) and v >= least for v in values):
        raise InputError(
            who,
            expected=f"{what} of at least {least}, or two of them (height, width)",
            got=repr(value),
            fix=f"For example {what}={max(1, least)}.",
        )
    return values


@dataclass(frozen=True)
class Stencil:
    """A window with its stride, padding and dilation, ``(height, width)`` each, and the symmetry it has to keep.

    Attributes:
        axes: along which the set of centers must be symmetric; see :func:`moving_axes`.
        group: the name of the group, for messages.
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    axes: tuple[int, ...]
    group: str

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How many places the window takes along each axis."""
        return tuple(self._travel(axis, n) // self.stride[axis] + 1 for axis, n in enumerate(sizes))

    def _travel(self, axis: int, n: int) -> int:
        return n + 2 * self.padding[axis] - self.dilation[axis] * (self.kernel_size[axis] - 1) - 1

    def require_room(self, who: str, sizes: Sequence[int]) -> None:
        """The window must fit into the padded input."""
        for axis, n in enumerate(sizes):
            if self._travel(axis, n) < 0:
                least = n - self._travel(axis, n)
                raise InputError(
                    who,
                    expected=f"an input of at least {least} along {('the height', 'the width')[axis]}",
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
                    expected=f"{' or '.join(map(str, good))} along {('the height', 'the width')[axis]}: with kernel "
                    f"{self.kernel_size[axis]}, stride {stride} and padding {self.padding[axis]} the samples are "
                    f"symmetric about the center on sizes {good[-1] % stride} mod {stride} only",
                    got=f"{n}, on which the layer would not commute with {self.group}",
                    fix="Crop or pad the input, change kernel or padding by one, or pass allow_asymmetric=True.",
                )

    def shift_step(self, sizes: Sequence[int], *, periodic: bool) -> int | None:
        """Shifts of a periodic input by multiples of this shift the output."""
        if self.stride[0] != self.stride[1] or not (periodic or self.padding == (0, 0)):
            return None
        out = self.output_sizes(sizes)
        whole = all(m * s == n for m, s, n in zip(out, self.stride, sizes, strict=True))
        return self.stride[0] if whole else None


@on_cpu
def moving_axes(space: Grid) -> tuple[int, ...]:
    """The axes of the array (0 height, 1 width) that some element of H does not leave in place."""
    group = space.stabilizer
    if not isinstance(group, FiniteGroup):
        return (0, 1)
    moved = (space.matrices(group.elements) - torch.eye(2, dtype=torch.float64)).abs().amax((0, 2)) > 1e-9
    return tuple(axis for axis, m in ((0, moved[1]), (1, moved[0])) if m)  # x is the width, y the height


@on_cpu
def mixes_axes(space: Grid) -> bool:
    """Whether some element of H turns the height towards the width."""
    group = space.stabilizer
    if not isinstance(group, FiniteGroup):
        return True
    matrices = space.matrices(group.elements)
    return bool((matrices[:, 0, 1].abs() > 1e-9).any() or (matrices[:, 1, 0].abs() > 1e-9).any())
