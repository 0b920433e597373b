"""The positions of a layer that has weights for images of one size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError
from ..nn import Window

Pair = int | tuple[int, int]
Padding = Pair | Literal["same"]


@dataclass(frozen=True)
class Places:
    """A window on images of one size.

    Attributes:
        window: what one position sees.
        input_size: H and W.
        output_size: Ho and Wo.
    """

    window: Window
    input_size: tuple[int, int]
    output_size: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "output_size", self.window.output_sizes(self.input_size))

    @classmethod
    def of(
        cls,
        caller: str,
        input_size: Pair,
        kernel_size: Pair,
        *,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Pair = 1,
    ) -> Places:
        """Places from the arguments of a layer. ``same`` gives ⌈H / s⌉ outputs; odd zeros go below and right."""
        window = Window.of(
            kernel_size,
            stride=stride,
            padding=0 if isinstance(padding, str) else padding,
            dilation=dilation,
            caller=caller,
        )
        height, width = window.sizes(input_size, caller=caller)
        if padding == "same":
            window = window.same((height, width))
        window.require_room(caller, (height, width))
        return cls(window, (height, width))

    @property
    def count(self) -> int:
        """L = Ho Wo."""
        return self.output_size[0] * self.output_size[1]

    def check(self, caller: str, x: Tensor, channels: int) -> None:
        """Raise an error for an input that does not have the shape the layer was built for."""
        if x.dim() != 4 or x.shape[1] != channels or tuple(x.shape[2:]) != self.input_size:
            raise InputError(
                caller,
                expected=f"(batch, {channels}, {self.input_size[0]}, {self.input_size[1]})",
                got=str(tuple(x.shape)),
                fix="The layer has weights per position: build it for the size of its input, or resize the input.",
            )

    def patches(self, x: Tensor) -> Tensor:
        """What each position sees: ``(batch, channels, H, W)`` to ``(L, batch, kh kw channels)``.

        Positions come first, the layout of a batched product with one matrix per position. Channels come last: all
        channels of a pixel are then copied at once.
        """
        rows_first = self.window.padded(x).permute(2, 3, 0, 1).contiguous()
        pixels = self.window.samples(rows_first, self.output_size, 0)
        return torch.cat(pixels, -1).reshape(self.count, x.shape[0], -1)
