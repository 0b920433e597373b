"""One computation in several ways, and which of them is the cheapest for given sizes.

All variants take the input ``x`` of shape (batch, channels, samples, height, width), the table h of shape (out
samples, height', width', taps, samples, hidden), where height' = width' = 1 if the kernel is the same at all places,
and the mixture V of shape (hidden, channels, out channels). They return (batch, out channels, out samples, height',
width'):

    out_o(g, u) = Σ_a Σ_s Σ_c Σ_j h_j(g, u, a, s) V_jco x_c(s, u + a)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._cost_rules import cost_rules_enabled
from ..._registry import Registry
from ...errors import InputError
from ._soft_rank import rank
from ._soft_support import Support
from ._soft_window import by_runs, window


@dataclass(frozen=True)
class Sizes:
    """What the cost of a variant depends on; ``moving`` says that the kernel depends on the place."""

    batch: int
    channels: int
    out: int
    samples: int
    groups: int
    places: int
    taps: int
    square: int
    hidden: int
    moving: bool
    training: bool
    input_gradient: bool = True


Prepared = tuple[Tensor, ...]


def _as_they_are(table: Tensor, mixture: Tensor, support: Support) -> Prepared:
    return table, mixture


@dataclass(frozen=True)
class Variant:
    """One way to compute a layer.

    Attributes:
        prepare: what does not depend on the input, from the table and the mixture; it may be kept in evaluation.
        run: the layer on an input.
        moves: can the kernel differ from place to place?
        cost: time of one call in multiply-adds at full speed; None where the variant does not apply.
    """

    prepare: Callable[[Tensor, Tensor, Support], Prepared]
    run: Callable[[Tensor, Prepared, Support], Tensor]
    moves: bool
    cost: Callable[[Sizes], float | None]


VARIANTS: Registry[Variant] = Registry("variant")
"""All ways to compute a soft layer."""


# The definition, place by place. Never chosen; the others are tested against it.
def _loop(x: Tensor, prepared: Prepared, support: Support) -> Tensor:
    table, mixture = prepared
    (height, width), seen = support.window.output_sizes(x.shape[-2:]), support.window.padded(x)
    found = []
    for row in range(height):
        for column in range(width):
            own = table[:, min(row, table.shape[1] - 1), min(column, table.shape[2] - 1)]
            kernel = torch.einsum("gtsj,jco->gtsco", own, mixture)
            patch = torch.stack([seen[..., row + down, column + right] for down, right in support.offsets], -1)
            found.append(torch.einsum("gtsco,ncst->nog", kernel, patch))
    return torch.stack(found, -1).unflatten(-1, (height, width))


VARIANTS.add("loop", Variant(_as_they_are, _loop, True, lambda sizes: None))


# Costs are multiply-adds at full speed, about 38 per nanosecond where the constants were measured (one core, AVX2,
# float32). Products with few channels do not get faster below a certain number of them.
def _window_cost(s: Sizes) -> float | None:
    if not s.moving:
        return None
    back = s.training and s.input_gradient
    least = 16 if back else 8
    kernels = s.places * s.groups * s.samples * s.taps * max(s.channels, least) * max(s.out, least)
    passes = 1 + s.training + back
    return 1.5 * kernels * (passes * s.batch + (passes + s.training) * s.hidden)


def _by_rows(table: Tensor, mixture: Tensor, support: Support) -> Prepared:
    return by_runs(table, support), mixture


def _run_window(x: Tensor, prepared: Prepared, support: Support) -> Tensor:
    return window(x, prepared[0], prepared[1], support)


VARIANTS.add("window", Variant(_by_rows, _run_window, True, _window_cost))


def _rank_cost(s: Sizes) -> float | None:
    if not s.moving:
        return None
    filtering, mixing = 2 * s.samples * s.taps * s.hidden, s.hidden * s.out
    copies = 30 * s.samples * s.taps / s.groups  # patches are copied once for all groups
    filters = 1 + 2 * s.training + (s.training and s.input_gradient)
    mixtures = 1 + 2 * s.training
    every = filters * filtering + mixtures * (mixing + copies)
    return s.places * s.groups * s.batch * max(s.channels, 8) * every


def _run_rank(x: Tensor, prepared: Prepared, support: Support) -> Tensor:
    return rank(x, prepared[0], prepared[1], support)


VARIANTS.add("rank", Variant(_as_they_are, _run_rank, True, _rank_cost))


# The kernel is the same everywhere: an ordinary convolution with samples and channels together.
def _dense_kernel(table: Tensor, mixture: Tensor, support: Support) -> Prepared:
    hidden, channels, out = mixture.shape
    groups, samples = len(table), table.shape[4]
    square = support.square(table[:, 0, 0].permute(1, 3, 0, 2))  # place, hidden, group, sample
    square = square.permute(2, 1, 3, 0).reshape(groups, hidden, -1)
    kernel = mixture.permute(2, 1, 0).reshape(out * channels, hidden) @ square
    kernel = kernel.view(groups, out, channels * samples, support.size, support.size)
    return (kernel.transpose(0, 1).contiguous(),)  # outputs then come in order, and are not copied for it


def _dense(x: Tensor, prepared: Prepared, support: Support) -> Tensor:
    y = support.window.convolve(x.flatten(1, 2), prepared[0].flatten(0, 1))
    return y.unflatten(1, prepared[0].shape[:2])


def _dense_cost(s: Sizes) -> float | None:
    if s.moving:
        return None
    weights = s.square * s.samples * s.groups * s.channels * s.out
    return (3 if s.training else 1) * weights * (s.batch * s.places + s.hidden + 200)


VARIANTS.add("dense", Variant(_dense_kernel, _dense, False, _dense_cost))


# The same with the mixture last: each channel is filtered by itself, with few filters.
def _factors(table: Tensor, mixture: Tensor, support: Support) -> Prepared:
    square = support.square(table[:, 0, 0].permute(1, 3, 0, 2)).permute(1, 2, 3, 0)
    return square.unflatten(-1, (support.size, support.size)).contiguous(), mixture.permute(2, 1, 0).flatten(1)


def _factored(x: Tensor, prepared: Prepared, support: Support) -> Tensor:
    filters, mixing = prepared
    hidden, groups = filters.shape[:2]
    batch, channels = x.shape[:2]
    y = support.window.convolve(x.flatten(0, 1), filters.flatten(0, 1))
    height, width = y.shape[-2:]
    y = mixing @ y.reshape(batch, channels * hidden, groups * height * width)
    return y.view(batch, len(mixing), groups, height, width)


FACTORED_LIMIT = 1 << 27
"""Most numbers between the two steps of ``factored``: it is the only variant that keeps more than its output."""


def _factored_cost(s: Sizes) -> float | None:
    between = s.batch * s.places * s.channels * s.groups * s.hidden
    if s.moving or between > FACTORED_LIMIT:
        return None
    # Fewer multiply-adds, but the numbers in between go through memory several times.
    return between * (1.5 * (s.square * s.samples + s.out) + 2000) / (1 if s.training else 3)


VARIANTS.add("factored", Variant(_factors, _factored, False, _factored_cost))


def cheapest(sizes: Sizes) -> str:
    """The name of the variant with the smallest cost; without cost rules, the one that makes the whole kernel."""
    if not cost_rules_enabled():
        return "window" if sizes.moving else "dense"
    costs = {name: VARIANTS[name].cost(sizes) for name in VARIANTS}
    return min((cost, name) for name, cost in costs.items() if cost is not None)[1]


def check_variant(caller: str, name: str | None) -> str | None:
    """The name, if there is such a variant; None means the cheapest at each call."""
    if name is not None and name not in set(VARIANTS):
        raise InputError(
            caller,
            expected=f"a variant among {', '.join(VARIANTS)}, or None for the cheapest",
            got=repr(name),
            fix="Leave it at None.",
        )
    return name
