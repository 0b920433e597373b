"""The windows through which a local layer on images of one size looks: sizes and patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..errors import InputError

Pair = int | tuple[int, int]
Padding = Pair | Literal["same"]


def pair(who: str, name: str, value: Pair, *, least: int = 1) -> tuple[int, int]:
    """Rows and columns from one number or two, checked."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or not all(isinstance(n, int) and n >= least for n in both):
        raise InputError(
            who, expected=f"{name}: one or two whole numbers of {least} or more", got=repr(value), fix="For example 3."
        )
    return both


@dataclass(frozen=True)
class LocalWindow:
    """Output place (i, j) sees the input rows s i - p + d a, a = 0 .. k - 1, and the columns likewise.

    Attributes:
        input_size: H and W.
        kernel_size: k for rows and columns.
        stride: s.
        dilation: d.
        padding: zeros put above, below, left and right; the first of each pair is p.
    """

    input_size: tuple[int, int]
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]

    @classmethod
    def of(
        cls,
        who: str,
        input_size: Pair,
        kernel_size: Pair,
        *,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Pair = 1,
    ) -> LocalWindow:
        """From the arguments of a layer, checked. ``same`` gives ⌈H / s⌉ outputs, the odd zero below and right."""
        size, kernel = pair(who, "input_size", input_size), pair(who, "kernel_size", kernel_size)
        steps, spread = pair(who, "stride", stride), pair(who, "dilation", dilation)
        margins: tuple[tuple[int, int], ...]
        if padding == "same":
            needed = [
                max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
                for n, k, s, d in zip(size, kernel, steps, spread, strict=True)
            ]
            margins = tuple((total // 2, total - total // 2) for total in needed)
        elif isinstance(padding, str):
            raise InputError(who, expected="padding: pixels, or 'same'", got=repr(padding), fix="Use 0 for none.")
        else:
            margins = tuple((p, p) for p in pair(who, "padding", padding, least=0))
        window = cls(size, kernel, steps, spread, (margins[0], margins[1]))
        if min(window.output_size) < 1:
            raise InputError(
                who,
                expected=f"images of at least {window.reach[0]} x {window.reach[1]} with their padding",
                got=f"{size[0]} x {size[1]}",
                fix="Make the kernel smaller or the images larger.",
            )
        return window

    @property
    def reach(self) -> tuple[int, int]:
        """Height and width that a window covers, d (k - 1) + 1."""
        (a, b), (c, d) = self.kernel_size, self.dilation
        return c * (a - 1) + 1, d * (b - 1) + 1

    @property
    def output_size(self) -> tuple[int, int]:
        """Ho and Wo."""
        sizes = [
            (n + sum(margin) - reach) // s + 1
            for n, margin, reach, s in zip(self.input_size, self.padding, self.reach, self.stride, strict=True)
        ]
        return sizes[0], sizes[1]

    @property
    def positions(self) -> int:
        """L = Ho Wo."""
        return self.output_size[0] * self.output_size[1]

    @property
    def taps(self) -> int:
        """Pixels of a window, kh kw."""
        return self.kernel_size[0] * self.kernel_size[1]

    def check(self, who: str, x: Tensor, channels: int) -> None:
        """Refuse an input of another shape than the layer was built for."""
        if x.dim() != 4 or x.shape[1] != channels or tuple(x.shape[2:]) != self.input_size:
            raise InputError(
                who,
                expected=f"(batch, {channels}, {self.input_size[0]}, {self.input_size[1]})",
                got=str(tuple(x.shape)),
                fix="The layer has weights for each place: build it for the size of its input, or resize the input.",
            )

    def output_sizes(self, who: str, sizes: Sequence[int]) -> tuple[int, ...]:
        """Ho and Wo, or an error for sizes other than those the layer was built for."""
        if tuple(sizes) != self.input_size:
            raise InputError(who, expected=f"images of {self.input_size}", got=str(tuple(sizes)))
        return self.output_size

    def padded(self, x: Tensor) -> Tensor:
        """The input with its margin of zeros."""
        (top, bottom), (left, right) = self.padding
        return pad(x, (left, right, top, bottom)) if top or bottom or left or right else x

    def patches(self, x: Tensor) -> Tensor:
        """What each place sees: ``(batch, channels, H, W)`` to ``(L, batch, channels kh kw)``.

        Places come first, as a product of a matrix for each place wants them; the channels are last while windows are
        cut, so that the copy reads whole pixels.
        """
        (sh, sw), (dh, dw), (kh, kw) = self.stride, self.dilation, self.reach
        windows = self.padded(x).permute(2, 3, 0, 1).contiguous().unfold(0, kh, sh).unfold(1, kw, sw)
        taken = windows[..., ::dh, ::dw]  # (Ho, Wo, batch, channels, kh, kw)
        return taken.reshape(self.positions, x.shape[0], -1)


def common_interior(windows: Sequence[LocalWindow]) -> tuple[int, int] | None:
    """(step, margin) of :meth:`Layer.interior` for windows on the same places: away from all their margins of zeros."""
    if len({step for window in windows for step in window.stride}) > 1:
        return None
    margins = [0]
    for window in windows:
        for n, (before, _), reach, step, out in zip(
            window.input_size, window.padding, window.reach, window.stride, window.output_size, strict=True
        ):
            last = (n + before - reach) // step  # the last window inside the image
            margins += [-(-before // step), out - 1 - last]
    return windows[0].stride[0], max(margins)


@torch.no_grad()
def add_noise_(values: Tensor, scale: float, generator: torch.Generator | None) -> None:
    """Add Gaussian noise of this standard deviation in place."""
    values.add_(torch.randn(values.shape, generator=generator, dtype=values.dtype).to(values.device), alpha=scale)
