"""Which places of the input one place of the output sees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .._kept import kept_table
from ..errors import InputError


@dataclass(frozen=True)
class Stencil:
    """The taps of a kernel of ``size`` × ``size`` places, all of them or those of the inscribed disk.

    Attributes:
        size: of the square.
        padding: zeros around the input.
        disk: keep the taps with |a| ≤ (size − 1) / 2 only.
    """

    size: int
    padding: int
    disk: bool = True

    @cached_property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """(row, column) of each tap in the square, row by row."""
        twice = [2 * i - (self.size - 1) for i in range(self.size)]
        limit = (self.size - 1) ** 2 if self.disk else 2 * self.size**2
        return tuple(
            (i, j) for i in range(self.size) for j in range(self.size) if twice[i] ** 2 + twice[j] ** 2 <= limit
        )

    @cached_property
    def runs(self) -> tuple[tuple[int, int, int, int], ...]:
        """Taps that lie side by side: (row, first column, how many, number of the first tap)."""
        found = []
        for row in range(self.size):
            taps = [(j, number) for number, (i, j) in enumerate(self.offsets) if i == row]
            if taps:
                found.append((row, taps[0][0], len(taps), taps[0][1]))
        return tuple(found)

    @property
    def taps(self) -> int:
        """Their number T."""
        return len(self.offsets)

    def displacements(self, device: torch.device | None = None) -> Tensor:
        """From the center to each tap, the half width being 1: ``(taps, 2)``, float64."""
        half = max(self.size - 1, 1) / 2
        return (torch.tensor(self.offsets, dtype=torch.float64, device=device) - (self.size - 1) / 2) / half

    def out_size(self, size: int) -> int:
        """Places after the layer, for one axis."""
        return size + 2 * self.padding - self.size + 1

    def positions(self, height: int, width: int, *, of_input: bool, device: torch.device | None = None) -> Tensor:
        """Absolute places (row, column), the input filling [−1, 1]: ``(height', width', taps or 1, 2)``, float64.

        The places are those that the taps see (``of_input``) or those of their centers. A place is the center of its
        pixel, so that pooling keeps the coordinates.
        """
        center = (self.size - 1) / 2
        places = self.offsets if of_input else ((center, center),)
        taps = torch.tensor(places, dtype=torch.float64, device=device)
        rows, columns = (
            torch.arange(self.out_size(size), dtype=torch.float64, device=device)[:, None]
            + taps[:, axis]
            - self.padding
            for axis, size in enumerate((height, width))
        )
        rows, columns = (2 * rows + 1) / height - 1, (2 * columns + 1) / width - 1
        return torch.stack(torch.broadcast_tensors(rows[:, None], columns[None]), -1)

    def square(self, table: Tensor) -> Tensor:
        """Taps along axis 0 spread over the square, zeros between: ``(size², ...)``."""
        if self.taps == self.size**2:
            return table
        return table.new_zeros(self.size**2, *table.shape[1:]).index_copy(0, _places(self, table.device), table)


@kept_table(64)
def _places(stencil: Stencil, device: torch.device) -> Tensor:
    return torch.tensor([i * stencil.size + j for i, j in stencil.offsets], device=device)


@kept_table(64)
def reversal(stencil: Stencil, height: int, width: int, device: torch.device) -> Tensor:
    """For the transposed layer: row ``(y · width' + x) · T + t`` of the table, for each input place and reversed tap.

    The input place v is seen from u = v + padding − a_t, by tap t. Where u lies outside, any row does: the gradient it
    is multiplied with is zero.
    """
    taps = torch.tensor(stencil.offsets, device=device).flip(0)
    y = torch.arange(height, device=device)[:, None] + stencil.padding - taps[:, 0]
    x = torch.arange(width, device=device)[:, None] + stencil.padding - taps[:, 1]
    y, x = y.clamp(0, stencil.out_size(height) - 1), x.clamp(0, stencil.out_size(width) - 1)
    tap = torch.arange(stencil.taps - 1, -1, -1, device=device)
    return ((y[:, None] * stencil.out_size(width) + x[None]) * stencil.taps + tap).flatten()


def check_stencil(who: str, size: object, padding: object, support: str) -> Stencil:
    """The stencil, if there is one with these options."""
    if support not in ("disk", "square"):
        raise InputError(who, expected="support disk or square", got=repr(support), fix="Choose one of them.")
    if not isinstance(size, int) or size < 1:
        raise InputError(who, expected="a positive kernel_size", got=repr(size), fix="For example kernel_size=7.")
    if size % 2 == 0 and (support == "disk" or padding == "same"):
        raise InputError(
            who,
            expected="an odd kernel_size, which has a center, for a disk or for padding 'same'",
            got=str(size),
            fix=f"Try kernel_size={size + 1}, or support='square' with padding=0.",
        )
    amount = {"same": size // 2, "valid": 0}.get(padding, -1) if isinstance(padding, str) else padding
    if not isinstance(amount, int) or not 0 <= amount < size:
        raise InputError(
            who,
            expected="padding 'same', 'valid' or a number from 0 to kernel_size - 1",
            got=repr(padding),
            fix="For example padding='same'.",
        )
    return Stencil(size, amount, support == "disk")
