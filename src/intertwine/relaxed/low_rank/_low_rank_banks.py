"""The base class of low-rank layers: K filter banks, combined differently at every position."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ..._cost_rules import building_pays
from ..._devices import rounded_as_autocast
from ...errors import InputError
from ...nn import Window
from ...spaces import FieldType
from .._kernel_shares import TRANSLATION, LocalKernels, share
from .._places import Padding, Pair, Places
from .._relaxed_layer import RelaxedLayer, scalars
from ._combining import Normalize, PlaceTable, Sharing, apart_from_mean
from ._local import apply_banks, require_trivial_group
from ._spatial_bias import spatial_map

Each = Pair | Sequence[Pair]
Path = Literal["auto", "conv", "build"]


class LowRankBanks(RelaxedLayer):
    """Stores f_1 .. f_K, the spatial bias and the window, and computes Σ_k w_k(i, j) (f_k * x)(i, j) + b."""

    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
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
        caller = type(self).__name__
        super().__init__(scalars(caller, "in_type", in_type), scalars(caller, "out_type", out_type))
        require_trivial_group(caller, self.in_type, self.out_type)
        if rank < 1:
            raise InputError(caller, expected="rank of 1 or more", got=str(rank))
        self.rank, self.normalize = rank, normalize
        mixed = isinstance(kernel_size, list) or isinstance(dilation, list)
        if mixed and padding != "same":
            raise InputError(
                caller,
                expected="padding='same' for banks of different kernel sizes or dilations",
                got=f"padding={padding!r}",
                fix="With other padding the banks would have different positions.",
            )
        each = [
            Places.of(caller, input_size, kernel, stride=stride, padding=padding, dilation=spread)
            for kernel, spread in zip(
                _each(caller, "kernel_size", kernel_size, rank), _each(caller, "dilation", dilation, rank), strict=True
            )
        ]
        self.windows, self.mixed = tuple(places.window for places in each), mixed
        self.window = hull(self.windows) if mixed else self.windows[0]
        self.places = Places(self.window, each[0].input_size)
        self.fixed_sizes = self.places.input_size
        if rank > self.places.count:
            raise InputError(
                caller,
                expected=f"rank of at most {self.places.count}, the number of places "
                f"({self.places.output_size[0]} x {self.places.output_size[1]})",
                got=str(rank),
            )
        shape = self.out_type.dim, self.in_type.dim
        if mixed:
            self.weights = nn.ParameterList(torch.empty(*shape, *window.kernel_size) for window in self.windows)
        else:
            self.weight = nn.Parameter(torch.empty(rank, *shape, *self.window.kernel_size))
        self.spatial = PlaceTable(1, self.places.output_size, bias_sharing) if spatial_bias else None
        self.bias = nn.Parameter(torch.empty(self.out_type.dim)) if bias else None
        self._reset_banks()

    def reset_parameters(self) -> None:
        """Draw the banks by He's rule and set the bias to 0; the tables reset themselves."""
        self._reset_banks()

    def _reset_banks(self) -> None:
        for values in self.weights if self.mixed else [self.weight]:
            bound = math.sqrt(6 / values.shape[-3:].numel())  # the fan of one bank, for any rank
            nn.init.uniform_(values, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @abstractmethod
    def combining_weights(self, x: Tensor) -> Tensor:
        """w: ``(K, Ho, Wo)``, or ``(batch, K, Ho, Wo)`` if they depend on the input."""

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Ho and Wo, for the sizes the layer was built for."""
        self.require_fixed_sizes(sizes)
        return self.places.output_size

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one stride, away from the zero padding."""
        return self.window.interior(sizes)

    def common_banks(self) -> Tensor:
        """f_1 .. f_K on one square of taps, ``(K, out, in, kh, kw)``: zeros fill smaller or dilated banks."""
        if not self.mixed:
            return self.weight
        squares = []
        for bank, window in zip(self.banks(), self.windows, strict=True):
            square = bank.new_zeros(*bank.shape[:2], *self.window.kernel_size)
            rows, columns = (
                slice(first - before, first - before + reach, step)
                for first, before, reach, step in zip(
                    self.window.before, window.before, window.reach, window.dilation, strict=True
                )
            )
            square[..., rows, columns] = bank
            squares.append(square)
        return torch.stack(squares)

    def shares_of(self, w: Tensor) -> Mapping[str, Tensor]:
        """``translation`` for the combining weights w ``(K, Ho, Wo)``, from the products ⟨f_k, f_l⟩ alone."""
        flat = self.common_banks().flatten(1)
        gram = flat @ flat.T
        # ‖Σ_k w_k f_k‖² needs only the products of the banks: no bank is built per position.
        everywhere, away = w.flatten(1), apart_from_mean(w).flatten(1)
        outside, whole = ((part * (gram @ part)).sum().clamp_min(0) for part in (away, everywhere))
        bias = self._bias_map()
        if bias is not None:
            outside, whole = outside + apart_from_mean(bias).square().sum(), whole + bias.square().sum()
        return {TRANSLATION: share(outside, whole)}

    def kernels_of(self, w: Tensor) -> LocalKernels:
        """The kernel of every position, for the combining weights w ``(K, Ho, Wo)``."""
        bias = self._bias_map()
        weight = torch.einsum("kxy,k...->xy...", w, self.common_banks())
        return LocalKernels(weight, None if bias is None else bias.movedim(0, -1))

    def _bias_map(self) -> Tensor | None:
        """s + b, ``(out, Ho, Wo)``; None if there is neither."""
        if self.spatial is None and self.bias is None:
            return None
        return spatial_map(self.spatial, self.bias).expand(self.out_type.dim, *self.places.output_size)

    def banks(self) -> list[Tensor]:
        """f_1 .. f_K, each ``(out_channels, in_channels, kh, kw)``."""
        return list(self.weights) if self.mixed else [self.weight[k] for k in range(self.rank)]

    def cheaper_path(self, batch: int) -> Literal["conv", "build"]:
        """The path that should be faster for this layer and batch size."""
        sizes = {"positions": self.places.count, "fan": self.in_type.dim * self.window.taps, "width": self.out_type.dim}
        return "build" if building_pays(self.rank, **sizes, batch=batch) else "conv"

    def extra_repr(self) -> str:
        """Sizes."""
        places = self.places
        kernels = [each.kernel_size for each in self.windows] if self.mixed else self.window.kernel_size
        return (
            f"{self.in_type.dim}, {self.out_type.dim}, kernel_size={kernels}, rank={self.rank}, "
            f"input_size={places.input_size}, stride={self.window.stride}, output_size={places.output_size}, "
            f"normalize={self.normalize}"
        )

    def with_bias(self, y: Tensor) -> Tensor:
        """y + s + b."""
        if self.spatial is None and self.bias is None:
            return y
        return y + spatial_map(self.spatial, self.bias)

    def combined_outputs(self, x: Tensor, w: Tensor) -> Tensor:
        """The conv path: Σ_k w_k(i, j) (f_k * x)(i, j), for w ``(K, Ho, Wo)`` or ``(batch, K, Ho, Wo)``."""
        w = w.unsqueeze(-3)  # an axis for the output channels
        if self.mixed or self.rank == 1 or not torch.is_grad_enabled():
            total: Tensor | None = None
            for k, (bank, window) in enumerate(zip(self.banks(), self.windows, strict=True)):
                part = window.convolve(x, bank)
                factor = w.select(-4, k).to(part.dtype)
                # Without gradients, accumulating in place avoids a buffer for K outputs.
                total = part * factor if total is None else _add_product(total, part, factor)
            return total if total is not None else x
        outputs = self.window.convolve(x, self.weight.flatten(0, 1))
        outputs = outputs.unflatten(1, (self.rank, self.out_type.dim))
        return (outputs * w.to(outputs.dtype)).sum(1)

    def built_banks(self, w: Tensor) -> Tensor:
        """F(i, j) = Σ_k w_k(i, j) f_k for w ``(K, Ho, Wo)``: ``(L, out_channels, kh kw in_channels)``."""
        channels_last = self.weight.movedim(2, -1).flatten(1)
        return (w.flatten(1).t() @ channels_last).unflatten(1, (self.out_type.dim, -1))

    def combined_banks(self, x: Tensor, w: Tensor) -> Tensor:
        """The build path: the bank of every position, applied there."""
        return apply_banks(rounded_as_autocast(x), self.built_banks(w), self.places)


def hull(windows: Sequence[Window]) -> Window:
    """The smallest window without dilation that covers, at each position, all of these windows."""
    sizes, padding = [], []
    for axis in range(windows[0].dimension):
        ends = [window.reach[axis] - window.before[axis] for window in windows]  # one past the last sample
        after = [window.padding[axis][1] - end for window, end in zip(windows, ends, strict=True)]
        before, end = max(window.before[axis] for window in windows), max(ends)
        sizes.append(before + end)
        padding.append((before, end + max(after)))
    return Window(tuple(sizes), windows[0].stride, tuple(padding), (1,) * len(sizes))


def stacked_outputs(x: Tensor, banks: Sequence[Tensor], windows: Sequence[Window]) -> Tensor:
    """f_k * x for every bank, ``(batch, K, out, Ho, Wo)``: plain torch, for tracers."""
    return torch.stack([window.convolve(x, bank) for bank, window in zip(banks, windows, strict=True)], 1)


def _add_product(total: Tensor, part: Tensor, factor: Tensor) -> Tensor:
    return torch.addcmul(total, part, factor) if torch.is_grad_enabled() else total.addcmul_(part, factor)


def _each(caller: str, name: str, value: Each, rank: int) -> list[Pair]:
    """One value per bank: a list has them one by one, anything else holds for all."""
    if not isinstance(value, list):
        return [value] * rank  # type: ignore[list-item]
    if len(value) != rank:
        raise InputError(caller, expected=f"{name} to be one for all banks, or a list of {rank}", got=repr(value))
    return value
