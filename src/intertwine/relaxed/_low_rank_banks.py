"""K filter banks that are combined anew at every place: what both low-rank layers share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from .._checked import checked
from ..errors import InputError
from ._combining import Normalize, PlaceTable, Sharing
from ._local import apply_banks
from ._local_window import LocalWindow, Padding, Pair, channel_count
from ._relaxed import Relaxed

Each = Pair | Sequence[Pair]
Path = Literal["auto", "conv", "build"]

BUILD_FROM_RANK = 4
BUILD_FROM_RANK_NARROW = 2
NARROW = 32
BUILD_FROM_BATCH = 32
BUILD_AT_MOST = 10_000_000


@checked
def path_by_cost(rank: int, *, places: int, fan: int, width: int, batch: int) -> Literal["conv", "build"]:
    """Which way to compute a low-rank layer: a fixed rule, not a measurement, so that results repeat.

    ``build`` adds up the bank of every place and applies it there: K L D Co + B L D Co products. ``conv`` convolves
    with all K banks and adds up the outputs: K B L D Co products, but in one convolution, which does several times more
    products in a second. Building pays from rank 4 on, from rank 2 for windows of at most 32 numbers (the first layer
    of a network), with batches of 32 and more, while all banks together, L D Co numbers, stay below 10 million; beyond
    that it waits for memory. Measured on a CPU, see ``benchmarks/low_rank.py``.

    Args:
        rank: K.
        places: L.
        fan: D, numbers of a window: channels times height times width.
        width: Co, channels of the output.
        batch: B.

    >>> [path_by_cost(k, places=25, fan=288, width=32, batch=64) for k in (2, 4)]
    ['conv', 'build']
    >>> path_by_cost(4, places=676, fan=576, width=64, batch=64)
    'conv'
    """
    enough = BUILD_FROM_RANK_NARROW if fan <= NARROW else BUILD_FROM_RANK
    pays = rank >= enough and batch >= BUILD_FROM_BATCH and places * fan * width <= BUILD_AT_MOST
    return "build" if pays else "conv"


class LowRankBanks(Relaxed):
    """Holds f_1 .. f_K, the spatial bias and the window, and computes Σ_k w_k(i, j) (f_k * x)(i, j) + b."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Each,
        *,
        rank: int,
        input_size: Pair,
        stride: Pair,
        padding: Padding,
        dilation: Each,
        normalize: Normalize,
        bias_sharing: Sharing,
        bias: bool,
        spatial_bias: bool,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.in_channels = channel_count(who, "in_channels", in_channels)
        self.out_channels = channel_count(who, "out_channels", out_channels)
        if not isinstance(rank, int) or rank < 1:
            raise InputError(who, expected="rank of 1 or more", got=repr(rank), fix="Rank 1 is a convolution.")
        self.rank, self.normalize = rank, normalize
        mixed = isinstance(kernel_size, list) or isinstance(dilation, list)
        if mixed and padding != "same":
            raise InputError(
                who,
                expected="padding='same' for banks of different kernel sizes or dilations",
                got=f"padding={padding!r}",
                fix="Only so do all of them have the same places.",
            )
        self.windows = tuple(
            LocalWindow.of(who, input_size, kernel, stride=stride, padding=padding, dilation=spread)
            for kernel, spread in zip(
                _each(who, "kernel_size", kernel_size, rank), _each(who, "dilation", dilation, rank), strict=True
            )
        )
        self.window, self.mixed = self.windows[0], mixed
        if rank > self.window.positions:
            raise InputError(
                who,
                expected=f"rank of at most {self.window.positions}, the number of places "
                f"({self.window.output_size[0]} x {self.window.output_size[1]})",
                got=str(rank),
                fix="So many banks can already be different everywhere: lower the rank.",
            )
        shape = out_channels, in_channels
        if mixed:
            self.weights = nn.ParameterList(torch.empty(*shape, *window.kernel_size) for window in self.windows)
        else:
            self.weight = nn.Parameter(torch.empty(rank, *shape, *self.window.kernel_size))
        self.spatial = PlaceTable(1, self.window.output_size, bias_sharing) if spatial_bias else None
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self._reset_banks()

    def reset_parameters(self) -> None:
        """Draw the banks by He's rule; the bias is 0. The tables have a method of their own."""
        self._reset_banks()

    def _reset_banks(self) -> None:
        for values in self.weights if self.mixed else [self.weight]:
            bound = math.sqrt(6 / values.shape[-3:].numel())  # the fan is that of one bank, whatever the rank
            nn.init.uniform_(values, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @abstractmethod
    def combining_weights(self, x: Tensor) -> Tensor:
        """w: ``(K, Ho, Wo)``, or ``(batch, K, Ho, Wo)`` where they depend on the input."""

    def banks(self) -> list[Tensor]:
        """f_1 .. f_K, each ``(out_channels, in_channels, kh, kw)``."""
        return list(self.weights) if self.mixed else list(self.weight.unbind(0))

    def cheaper_path(self, batch: int) -> Literal["conv", "build"]:
        """What :func:`path_by_cost` says of this layer and so many images."""
        fan = self.in_channels * self.window.taps
        return path_by_cost(self.rank, places=self.window.positions, fan=fan, width=self.out_channels, batch=batch)

    def extra_repr(self) -> str:
        """Sizes."""
        window = self.window
        kernels = [each.kernel_size for each in self.windows] if self.mixed else window.kernel_size
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={kernels}, rank={self.rank}, "
            f"input_size={window.input_size}, stride={window.stride}, output_size={window.output_size}, "
            f"normalize={self.normalize}"
        )

    def combined_outputs(self, x: Tensor, w: Tensor) -> Tensor:
        """The conv path: Σ_k w_k(i, j) (f_k * x)(i, j), for w ``(K, Ho, Wo)`` or ``(batch, K, Ho, Wo)``."""
        w = w.unsqueeze(-3)  # one axis for the channels of the output
        if self.mixed or self.rank == 1 or not torch.is_grad_enabled():
            total: Tensor | None = None
            for k, (bank, window) in enumerate(zip(self.banks(), self.windows, strict=True)):
                part = conv2d(window.padded(x), bank, None, window.stride, 0, window.dilation)
                factor = w.select(-4, k).to(part.dtype)
                # In place where nothing has to be remembered: no buffer for K outputs.
                total = part * factor if total is None else _add_product(total, part, factor)
            return total if total is not None else x
        window = self.window
        outputs = conv2d(window.padded(x), self.weight.flatten(0, 1), None, window.stride, 0, window.dilation)
        outputs = outputs.unflatten(1, (self.rank, self.out_channels))
        return (outputs * w.to(outputs.dtype)).sum(1)

    def built_banks(self, w: Tensor) -> Tensor:
        """F(i, j) = Σ_k w_k(i, j) f_k for w ``(K, Ho, Wo)``: ``(L, out_channels, in_channels kh kw)``."""
        return (w.flatten(1).t() @ self.weight.flatten(1)).unflatten(1, (self.out_channels, -1))

    def combined_banks(self, x: Tensor, w: Tensor) -> Tensor:
        """The build path: the bank of every place, applied there."""
        return apply_banks(x, self.built_banks(w), self.window)


def _add_product(total: Tensor, part: Tensor, factor: Tensor) -> Tensor:
    return torch.addcmul(total, part, factor) if torch.is_grad_enabled() else total.addcmul_(part, factor)


def _each(who: str, name: str, value: Each, rank: int) -> list[Pair]:
    """One for each bank: a list gives them one by one, anything else holds for all."""
    if not isinstance(value, list):
        return [value] * rank  # type: ignore[list-item]
    if len(value) != rank:
        raise InputError(
            who, expected=f"a list of {rank} for {name}, one a bank", got=repr(value), fix="Or give one for all."
        )
    return value
