"""What a symmetry is worth: how many times more data the free network needs to match another one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from .._checked import checked
from ._evidence import Curve

_RESAMPLES = 400
_LEAST_RISE = 0.005  # a free curve that does not rise cannot be compared horizontally
_MOST = 64.0  # beyond the measured range, curves say little


@checked
@dataclass(frozen=True)
class Worth:
    """How many times more data the free network needs.

    Attributes:
        factor: the factor; above 1, the symmetry helps.
        interval: its 95 % interval, from resampling samples and seeds.
    """

    factor: float
    interval: tuple[float, float]


@checked
def data_worth(free: Curve, other: Curve) -> Worth | None:
    """The horizontal distance between two learning curves, on a logarithmic axis, averaged over the measured points.

    Between measured shares the free curve is a straight line on this axis. None if there are fewer than two
    shares, or if the free network does not profit from data.

    >>> right = {share: {0: torch.arange(100) < n} for share, n in ((0.25, 50), (1.0, 70))}
    >>> better = {share: {0: torch.arange(100) < n} for share, n in ((0.25, 60), (1.0, 80))}
    >>> data_worth(right, better).factor
    2.0
    """
    shares = sorted(set(free) & set(other))
    if len(shares) < 2:
        return None
    seeds = sorted(set.intersection(*(set(curve[share]) for curve in (free, other) for share in shares)))
    if not seeds:
        return None
    sides = [[_stacked(curve, shares, seed) for seed in seeds] for curve in (free, other)]
    logs = [math.log2(share) for share in shares]
    accuracies = _means(sides[0], [None] * len(seeds))
    if max(accuracies) - min(accuracies) < _LEAST_RISE:
        return None
    value = _distance(logs, *(_means(side, [None] * len(seeds)) for side in sides))
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(_RESAMPLES):
        chosen = torch.randint(len(seeds), (len(seeds),), generator=generator).tolist()
        counts = [sides[0][k].shape[-1] for k in chosen]
        picks = [torch.randint(n, (n,), generator=generator) for n in counts]
        drawn.append(_distance(logs, *(_means([side[k] for k in chosen], picks) for side in sides)))
    low, high = torch.tensor(drawn, dtype=torch.float64).quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    return Worth(2**value, (2**low, 2**high))


def _stacked(curve: Curve, shares: list[float], seed: int) -> Tensor:
    return torch.stack([curve[share][seed].double() for share in shares])


def _means(by_seed: Sequence[Tensor], picks: Sequence[Tensor | None]) -> list[float]:
    """The accuracy at each share, over seeds and samples, or over the picked samples."""
    means = [(right if pick is None else right[:, pick]).mean(1) for right, pick in zip(by_seed, picks, strict=True)]
    return torch.stack(means).mean(0).tolist()


def _distance(logs: list[float], free: list[float], other: list[float]) -> float:
    """The mean over the points of the other curve of the distance to the free curve, in doublings."""
    rising = [max(free[: k + 1]) for k in range(len(free))]
    inside = [k for k, value in enumerate(other) if rising[0] <= value <= rising[-1]]
    limit = math.log2(_MOST)
    # Beyond its measured range the free curve is a guess, so these points count only if there are no others.
    distances = [_position(logs, rising, other[k], logs[k]) - logs[k] for k in inside or range(len(other))]
    return sum(max(-limit, min(limit, each)) for each in distances) / len(distances)


def _position(logs: list[float], rising: list[float], value: float, start: float) -> float:
    """Where the free curve has a value; of several places, the one nearest to ``start``."""
    places = []
    for (left, right), (low, high) in zip(pairwise(logs), pairwise(rising), strict=True):
        if low <= value <= high:
            flat = high == low
            places.append(
                min(max(start, left), right) if flat else left + (right - left) * (value - low) / (high - low)
            )
    if places:
        return min(places, key=lambda place: abs(place - start))
    end = 0 if value < rising[0] else -1
    inner = 1 if end == 0 else -2
    slope = (rising[end] - rising[inner]) / (logs[end] - logs[inner])
    return logs[end] + (value - rising[end]) / slope if slope > 0 else math.copysign(math.inf, value - rising[end])
