"""The taps of soft layers: the input positions that one output position sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from ..._kept import kept_table
from ...errors import InputError
from ...nn import Window


@dataclass(frozen=True)
class Support:
    """The taps of a square kernel: all of them, or those of the inscribed disk.

    Attributes:
        window: the window of the square.
        disk: whether to use only taps with |a| ≤ (size − 1) / 2.
        size: the size of the square.
        border: the number of zeros on each side of the input.
        offsets: (row, column) of each tap in the square, row by row.
        in_square: the index of each tap in the square.
        runs: neighboring taps of one row: (row, first column, count, index of the first tap).
    """

    window: Window
    disk: bool = True
    size: int = field(init=False, compare=False)
    border: int = field(init=False, compare=False)
    offsets: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)
    in_square: list[int] = field(init=False, compare=False, repr=False)
    runs: tuple[tuple[int, int, int, int], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        size = self.window.kernel_size[0]
        twice = [2 * i - (size - 1) for i in range(size)]
        limit = (size - 1) ** 2 if self.disk else 2 * size**2
        square = [(i, j) for i in range(size) for j in range(size)]
        offsets = tuple((i, j) for i, j in square if twice[i] ** 2 + twice[j] ** 2 <= limit)
        runs, first = [], 0
        for row in range(size):
            columns = [j for i, j in offsets if i == row]
            if columns:
                runs.append((row, columns[0], len(columns), first))
            first += len(columns)
        derived = {
            "size": size,
            "border": self.window.before[0],
            "offsets": offsets,
            "in_square": [i * size + j for i, j in offsets],
            "runs": tuple(runs),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, caller: str, size: object, padding: object, support: str) -> Self:
        """The support from the arguments of a layer, checked."""
        if support not in ("disk", "square"):
            raise InputError(caller, expected="support disk or square", got=repr(support))
        if not isinstance(size, int) or size < 1:
            raise InputError(caller, expected="a positive kernel_size", got=repr(size))
        if size % 2 == 0 and (support == "disk" or padding == "same"):
            raise InputError(
                caller,
                expected="an odd kernel_size, which has a center, for a disk or for padding 'same'",
                got=str(size),
                fix=f"Try kernel_size={size + 1}, or support='square' with padding=0.",
            )
        window = Window.of(size, caller=caller)
        if padding == "same":
            return cls(window.same(), support == "disk")
        amount = 0 if padding == "valid" else padding
        if not isinstance(amount, int) or not 0 <= amount < size:
            raise InputError(
                caller,
                expected="padding 'same', 'valid' or a number from 0 to kernel_size - 1",
                got=repr(padding),
            )
        return cls(Window.of(size, padding=amount, caller=caller), support == "disk")

    @property
    def taps(self) -> int:
        """The number of taps T."""
        return len(self.offsets)

    def displacements(self, device: torch.device | None = None) -> Tensor:
        """Offsets from the center to each tap, in units of the half width: ``(taps, 2)``, float64."""
        half = max(self.size - 1, 1) / 2
        return (torch.tensor(self.offsets, dtype=torch.float64, device=device) - (self.size - 1) / 2) / half

    def positions(self, height: int, width: int, *, of_input: bool, device: torch.device | None = None) -> Tensor:
        """Absolute positions (row, column) in [−1, 1]²: ``(height', width', taps or 1, 2)``, float64.

        These are the positions that the taps see (``of_input``) or the positions of their centers. A position is the
        center of its pixel, so pooling does not change the coordinates.
        """
        center = (self.size - 1) / 2
        places = self.offsets if of_input else ((center, center),)
        taps = torch.tensor(places, dtype=torch.float64, device=device)
        rows, columns = (
            torch.arange(n, dtype=torch.float64, device=device)[:, None] + taps[:, axis] - self.border
            for axis, n in enumerate(self.window.output_sizes((height, width)))
        )
        rows, columns = (2 * rows + 1) / height - 1, (2 * columns + 1) / width - 1
        return torch.stack(torch.broadcast_tensors(rows[:, None], columns[None]), -1)

    def square(self, table: Tensor) -> Tensor:
        """Taps along axis 0 spread over the square, with zeros elsewhere: ``(size², ...)``."""
        if self.taps == self.size**2:
            return table
        return table.new_zeros(self.size**2, *table.shape[1:]).index_copy(0, _places(self, table.device), table)


@kept_table(64)
def _places(support: Support, device: torch.device) -> Tensor:
    return torch.tensor(support.in_square, device=device)


@kept_table(64)
def reversal(support: Support, height: int, width: int, device: torch.device) -> Tensor:
    """For the transposed layer: the row of the table for each input position and reversed tap.

    Both tables have the order (row, kernel row, position, tap). Tap t sees the input position v from
    u = v + padding − a_t. If u lies outside, any row will do: the gradient that multiplies it is zero.
    """
    rows, columns = support.window.output_sizes((height, width))
    number = torch.arange(support.taps - 1, -1, -1, device=device)
    offsets, runs = torch.tensor(support.offsets, device=device)[number], torch.tensor(support.runs, device=device)
    run = torch.repeat_interleave(runs[:, 2])[number]
    count, first = runs[run, 2], runs[run, 3]
    y = torch.arange(height, device=device)[:, None] + support.border - offsets[:, 0]
    x = torch.arange(width, device=device)[:, None] + support.border - offsets[:, 1]
    y, x = y.clamp(0, rows - 1)[:, None], x.clamp(0, columns - 1)
    index = columns * (y * support.taps + first) + x * count + number - first  # height, width, tap
    return torch.cat([index[:, :, start : start + taps].flatten(1) for _, _, taps, start in support.runs], 1).flatten()
