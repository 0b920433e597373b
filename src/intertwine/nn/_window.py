"""How a window slides over an array: kernel size, stride, padding and dilation, in any dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from math import prod
from numbers import Integral
from typing import Any, Literal

from torch import Tensor
from torch.compiler import is_compiling
from torch.nn.functional import conv1d, conv2d, conv3d, linear, pad

from .._checked import checked
from .._cost_rules import whole_map_pays
from ..errors import InputError

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

_AXES = ("depth", "height", "width")
_REPEATS = {"reflect": 1, "circular": 0}  # how much larger than the padding an input must be
_CONVOLVE = {1: conv1d, 2: conv2d, 3: conv3d}


@checked
@dataclass(frozen=True)
class Window:
    """The positions from which a layer sees its input: position i sees samples s i - p + d a, a = 0 .. k - 1.

    Every layer with a kernel has one as ``layer.window``. :meth:`of` makes it from the arguments of a layer.

    Attributes:
        kernel_size: k per axis.
        stride: s per axis.
        padding: samples added before and after the input, per axis; p is the number before.
        dilation: d per axis.
        padding_mode: what those samples are, as in torch's convolutions.
        reach: how many samples a window covers along each axis, d (k - 1) + 1.
        before: the padding in front along each axis, p.

    >>> window = Window.of(3, stride=2, padding=1)
    >>> window.output_sizes((9, 8)), window.input_sizes((5, 4)), window.reach
    ((5, 4), (9, 7), (3, 3))
    >>> window.interior((9, 9))  # a shift by 2 moves the output by 1, one position away from the border
    (2, 1)
    >>> Window.of(4).same().padding
    ((1, 2), (1, 2))
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    padding_mode: PaddingMode = "zeros"
    # Derived at construction rather than cached on first use: a compiler that traces a layer before its first call
    # could not fill in a cache.
    reach: tuple[int, ...] = field(init=False, repr=False, compare=False)
    before: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _slack: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _least: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _around: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _torch_pads: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lengths = {len(self.kernel_size), len(self.stride), len(self.padding), len(self.dilation)}
        counts = (*self.kernel_size, *self.stride, *self.dilation)
        if len(lengths) > 1 or lengths.pop() not in _CONVOLVE or min(counts) < 1 or min(chain(*self.padding)) < 0:
            raise InputError(
                "Window",
                expected="kernel sizes, strides and dilations of at least 1 and paddings of at least 0, for 1, 2 or 3 "
                "axes",
                got=f"{self.kernel_size}, {self.stride}, {self.dilation} and {self.padding}",
                fix="Window.of(3, stride=2, padding=1) makes one from the arguments of a convolution.",
            )
        even = all(low == high for low, high in self.padding)
        reach = tuple(d * (k - 1) + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True))
        slack = tuple(sum(both) - r for both, r in zip(self.padding, reach, strict=True))
        derived = {
            "reach": reach,
            "before": tuple(low for low, _ in self.padding),
            "_slack": slack,
            "_least": tuple(map(max, [-s for s in slack], self._repeated())),
            "_around": tuple(chain(*reversed(self.padding))),  # for torch's pad: the last axis first
            "_torch_pads": even and self.padding_mode == "zeros",  # torch's convolutions can pad themselves
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def _repeated(self) -> list[int]:
        """The smallest input per axis that has the samples which the padding repeats."""
        if self.padding_mode not in _REPEATS:
            return [0] * self.dimension
        return [max(both) + _REPEATS[self.padding_mode] for both in self.padding]

    @classmethod
    @checked
    def of(
        cls,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        padding_mode: PaddingMode = "zeros",
        dimension: int = 2,
        caller: str = "Window",
    ) -> Window:
        """A window from the arguments of a convolution: one number for all axes, or one per axis."""
        if dimension not in _CONVOLVE:
            raise InputError(caller, expected="1, 2 or 3 dimensions", got=str(dimension))
        k = per_axis(kernel_size, dimension, caller=caller, what="kernel_size", least=1)
        s = per_axis(stride, dimension, caller=caller, what="stride", least=1)
        p = per_axis(padding, dimension, caller=caller, what="padding", least=0)
        d = per_axis(dilation, dimension, caller=caller, what="dilation", least=1)
        return cls(k, s, tuple((n, n) for n in p), d, padding_mode)

    # -- sizes -------------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel_size)

    @property
    def taps(self) -> int:
        """The number of samples in a window, Π k."""
        return prod(self.kernel_size)

    # Not checked: these run in every forward pass, and a tracer may pass symbols for sizes.
    def travel(self, axis: int, size: int) -> int:
        """How far the window can move along an axis of this size; negative if it does not fit."""
        return size + self._slack[axis]

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The number of positions of the window along each axis."""
        return tuple([(n + self._slack[axis]) // self.stride[axis] + 1 for axis, n in enumerate(sizes)])

    def input_sizes(self, positions: Sequence[int]) -> tuple[int, ...]:
        """The smallest input with this many positions: the output size of a transposed layer."""
        return tuple([(m - 1) * self.stride[axis] - self._slack[axis] for axis, m in enumerate(positions)])

    def require_room(self, caller: str, sizes: Sequence[int]) -> None:
        """Raise an error unless the window fits into the padded input and the input has what the padding repeats."""
        for axis, n in enumerate(sizes):
            if n < self._least[axis]:
                repeats = f" for padding_mode {self.padding_mode!r}" if self.travel(axis, n) >= 0 else ""
                raise InputError(
                    caller,
                    expected=f"an input of at least {self._least[axis]} along {self.axis_name(axis)}{repeats}",
                    got=f"sizes {tuple(sizes)}",
                    fix="Use a larger input, a smaller kernel or padding_mode='replicate'."
                    if repeats
                    else "Use a smaller kernel, more padding or a larger input.",
                )

    def axis_name(self, axis: int) -> str:
        """``the height``, for messages."""
        return f"the {_AXES[axis - self.dimension]}"

    @checked
    def sizes(self, value: int | Sequence[int], *, caller: str = "Window", what: str = "input_size") -> tuple[int, ...]:
        """One size per axis, from one number for all axes or one per axis."""
        return per_axis(value, self.dimension, caller=caller, what=what, least=1)

    @checked
    def same(self, sizes: Sequence[int] | None = None) -> Window:
        """This window, padded to take ⌈n / stride⌉ positions on sizes n; an odd sample goes after the input.

        At stride 1 the padding does not depend on the sizes, so they can be omitted.
        """
        ends = (1,) * self.dimension if sizes is None else sizes
        bare = self.unpadded
        needed = bare.input_sizes([-(-n // step) for n, step in zip(ends, self.stride, strict=True)])
        missing = [max(m - n, 0) for m, n in zip(needed, ends, strict=True)]
        return replace(self, padding=tuple((m // 2, m - m // 2) for m in missing))

    # -- translations ------------------------------------------------------------------------------------------

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The step by which shifts of a periodic input shift the output; None if there is none."""
        if len(set(self.stride)) > 1 or (any(self._around) and self.padding_mode != "circular"):
            return None
        out = self.output_sizes(sizes)
        divides = all(m * s == n for m, s, n in zip(out, self.stride, sizes, strict=True))
        return self.stride[0] if divides else None

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """(step, margin) of :meth:`Layer.interior`, away from the padding; None if strides differ."""
        if len(set(self.stride)) > 1:
            return None
        margins = [0]
        for n, before, reach, step, out in zip(
            sizes, self.before, self.reach, self.stride, self.output_sizes(sizes), strict=True
        ):
            last = (n + before - reach) // step  # the last position whose window ends inside the input
            margins += [-(-before // step), out - 1 - last]
        return self.stride[0], max(margins)

    # -- tensors -----------------------------------------------------------------------------------------------

    @property
    def unpadded(self) -> Window:
        """The same window for an input that is already padded."""
        return replace(self, padding=((0, 0),) * self.dimension)

    def padded(self, x: Tensor) -> Tensor:
        """The input, padded along its last axes."""
        if not any(self._around):
            return x
        return pad(x, self._around, mode="constant" if self.padding_mode == "zeros" else self.padding_mode)

    def convolve(self, x: Tensor, filters: Tensor, bias: Tensor | None = None, *, groups: int = 1) -> Tensor:
        """The convolution with filters ``(out, in / groups, *kernel_size)``."""
        convolve = _CONVOLVE[len(self.kernel_size)]
        if self._torch_pads:
            return convolve(x, filters, bias, self.stride, self.before, self.dilation, groups)
        return convolve(self.padded(x), filters, bias, self.stride, 0, self.dilation, groups)

    def apply(self, x: Tensor, filters: Tensor, bias: Tensor | None = None, *, groups: int = 1) -> Tensor:
        """:meth:`convolve`, as one product if the filters cover the whole map and that pays.

        What it does depends on the sizes of ``x``, so it cannot be traced.
        """
        if groups == 1 and self._covers(x):
            return linear(x.flatten(1), filters.flatten(1), bias).view(len(x), len(filters), *[1] * self.dimension)
        return self.convolve(x, filters, bias, groups=groups)

    def _covers(self, x: Tensor) -> bool:
        # A compiled layer should work for other sizes too, so it must not ask for this one.
        if is_compiling() or any(self._around) or not whole_map_pays(self.taps):
            return False
        return x.shape[2:] == self.kernel_size == self.reach

    def samples(self, x: Tensor, positions: Sequence[int], first: int = 2) -> list[Tensor]:
        """The first sample of each window, then the next of each, …: views of a padded ``x``.

        Args:
            x: its spatial axes start at ``first``.
            positions: the number of windows along each axis.
            first: the first spatial axis.
        """
        views = []
        for tap in product(*map(range, self.kernel_size)):
            starts = [index * spread for index, spread in zip(tap, self.dilation, strict=True)]
            ends = [start + (n - 1) * s + 1 for start, n, s in zip(starts, positions, self.stride, strict=True)]
            seen = [slice(*bounds) for bounds in zip(starts, ends, self.stride, strict=True)]
            views.append(x[(slice(None),) * first + tuple(seen)])
        return views

    def cut(self, x: Tensor) -> Tensor:
        """Views of all windows in a padded ``x``, whose spatial axes start at 2; the samples of a window come last."""
        for axis, (reach, step) in enumerate(zip(self.reach, self.stride, strict=True), 2):
            x = x.unfold(axis, reach, step)
        dilated: tuple[Any, ...] = (..., *[slice(None, None, step) for step in self.dilation])
        return x[dilated] if max(self.dilation) > 1 else x


def per_axis(value: int | Sequence[int], dimension: int, *, caller: str, what: str, least: int) -> tuple[int, ...]:
    """One whole number per spatial axis."""
    values = tuple(value) if isinstance(value, Sequence) else (value,) * dimension
    if len(values) != dimension or not all(isinstance(v, Integral) and v >= least for v in values):
        raise InputError(
            caller,
            expected=f"{what} of at least {least}, or {dimension} of them ({', '.join(_AXES[-dimension:])})",
            got=repr(value),
        )
    return tuple(int(v) for v in values)
