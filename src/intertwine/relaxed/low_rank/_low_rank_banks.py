"""K filter banks, combined differently at every place: what both low-rank layers share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ..._checked import checked
from ..._cost_rules import building_pays
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
    return "build" if building_pays(rank, places=places, fan=fan, width=width, batch=batch) else "conv"


class LowRankBanks(RelaxedLayer):
    """Holds f_1 .. f_K, the spatial bias and the window, and computes Σ_k w_k(i, j) (f_k * x)(i, j) + b."""

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
        if not isinstance(rank, int) or rank < 1:
            raise InputError(caller, expected="rank of 1 or more", got=repr(rank), fix="Rank 1 is a convolution.")
        self.rank, self.normalize = rank, normalize
        mixed = isinstance(kernel_size, list) or isinstance(dilation, list)
        if mixed and padding != "same":
            raise InputError(
                caller,
                expected="padding='same' for banks of different kernel sizes or dilations",
                got=f"padding={padding!r}",
                fix="Only so do all of them have the same places.",
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
                fix="So many banks can already be different everywhere: lower the rank.",
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

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Ho and Wo, for the sizes that the layer was built for."""
        self.require_fixed_sizes(sizes)
        return self.places.output_size

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one stride, away from the zeros around."""
        return self.window.interior(sizes)

    def common_banks(self) -> Tensor:
        """f_1 .. f_K on one square of taps, ``(K, out, in, kh, kw)``: smaller or dilated banks have zeros between."""
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
        places, away = w.flatten(1), apart_from_mean(w).flatten(1)
        outside, whole = ((part * (gram @ part)).sum().clamp_min(0) for part in (away, places))
        bias = self._bias_map()
        if bias is not None:
            outside, whole = outside + apart_from_mean(bias).square().sum(), whole + bias.square().sum()
        return {TRANSLATION: share(outside, whole)}

    def kernels_of(self, w: Tensor) -> LocalKernels:
        """The kernel of every place, for the combining weights w ``(K, Ho, Wo)``."""
        bias = self._bias_map()
        weight = torch.einsum("kxy,k...->xy...", w, self.common_banks())
        return LocalKernels(weight, None if bias is None else bias.movedim(0, -1))

    def _bias_map(self) -> Tensor | None:
        """s + b, ``(out, Ho, Wo)``; None where there is neither."""
        if self.spatial is None and self.bias is None:
            return None
        return spatial_map(self.spatial, self.bias).expand(self.out_type.dim, *self.places.output_size)

    def banks(self) -> list[Tensor]:
        """f_1 .. f_K, each ``(out_channels, in_channels, kh, kw)``."""
        return list(self.weights) if self.mixed else [self.weight[k] for k in range(self.rank)]

    def cheaper_path(self, batch: int) -> Literal["conv", "build"]:
        """What :func:`path_by_cost` says about this layer and this batch size."""
        fan = self.in_type.dim * self.window.taps
        return path_by_cost(self.rank, places=self.places.count, fan=fan, width=self.out_type.dim, batch=batch)

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
        w = w.unsqueeze(-3)  # one axis for the channels of the output
        if self.mixed or self.rank == 1 or not torch.is_grad_enabled():
            total: Tensor | None = None
            for k, (bank, window) in enumerate(zip(self.banks(), self.windows, strict=True)):
                part = window.convolve(x, bank)
                factor = w.select(-4, k).to(part.dtype)
                # In place where nothing has to be remembered: no buffer for K outputs.
                total = part * factor if total is None else _add_product(total, part, factor)
            return total if total is not None else x
        outputs = self.window.convolve(x, self.weight.flatten(0, 1))
        outputs = outputs.unflatten(1, (self.rank, self.out_type.dim))
        return (outputs * w.to(outputs.dtype)).sum(1)

    def built_banks(self, w: Tensor) -> Tensor:
        """F(i, j) = Σ_k w_k(i, j) f_k for w ``(K, Ho, Wo)``: ``(L, out_channels, in_channels kh kw)``."""
        return (w.flatten(1).t() @ self.weight.flatten(1)).unflatten(1, (self.out_type.dim, -1))

    def combined_banks(self, x: Tensor, w: Tensor) -> Tensor:
        """The build path: the bank of every place, applied there."""
        return apply_banks(x, self.built_banks(w), self.places)


def hull(windows: Sequence[Window]) -> Window:
    """The smallest window without dilation that sees, from each place, what any of these see."""
    sizes, padding = [], []
    for axis in range(windows[0].dimension):
        ends = [window.reach[axis] - window.before[axis] for window in windows]  # one behind the last sample
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
    """One for each bank: a list gives them one by one, anything else holds for all."""
    if not isinstance(value, list):
        return [value] * rank  # type: ignore[list-item]
    if len(value) != rank:
        raise InputError(
            caller, expected=f"a list of {rank} for {name}, one a bank", got=repr(value), fix="Or give one for all."
        )
    return value
