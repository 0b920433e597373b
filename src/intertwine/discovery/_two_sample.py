"""The area under the curve of a two-sample test, its null distribution and its p-value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch

from .._checked import checked
from ..errors import InputError

PERMUTATIONS = 1999


@checked
@dataclass(frozen=True)
class AUC:
    """How well a network tells moved samples from others that it has not seen.

    Attributes:
        value: the probability that a random moved sample gets the higher score; 0.5 is chance.
        null: the central 95 % of the value if coins and samples were independent.
        p_value: the probability of such a value or a larger one by chance; with a floor, the larger of that and of the
            probability of such a difference to the floor.
        floor: the value of the same test on samples that were made symmetric first, which is what resampling alone
            gives; None if nothing is resampled, or if the transformations are not a group.
        error: the standard error of the value.
    """

    value: float
    null: tuple[float, float]
    p_value: float
    floor: float | None = None
    error: float = 0.0


@checked
def area_under_curve(scores: Sequence[float], coins: Sequence[int], *, floor: AUC | None = None) -> AUC:
    """The AUC with its permutation test: coins are independent of samples that look alike, so permuting is exact.

    Args:
        scores: one per sample; higher for those that look moved.
        coins: 1 for samples that were moved, 0 for others.
        floor: the result of the same test on samples that are symmetric but for resampling.

    >>> result = area_under_curve([0.1, 0.4, 0.2, 0.9, 0.8, 0.7], [0, 0, 0, 1, 1, 1])
    >>> result.value, result.p_value < 0.1
    (1.0, True)
    """
    if len(scores) != len(coins):
        raise InputError("area_under_curve", expected=f"{len(scores)} coins, one per score", got=str(len(coins)))
    if not set(coins) <= {0, 1}:
        raise InputError("area_under_curve", expected="coins 0 and 1", got=str(sorted(set(coins))[:5]))
    s = torch.tensor(scores, dtype=torch.float64)
    moved = torch.tensor(coins, dtype=torch.float64)
    ones = int(moved.sum())
    zeros = len(moved) - ones
    if not ones or not zeros:
        return AUC(0.5, (0.0, 1.0), 1.0, None if floor is None else floor.value, 0.5)
    _, inverse, counts = s.unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0).double() - (counts - 1) / 2)[inverse]  # ties share their mean rank

    def area(rank_sum: torch.Tensor) -> torch.Tensor:
        return (rank_sum - ones * (ones + 1) / 2) / (ones * zeros)

    value = float(area((ranks * moved).sum()))
    generator = torch.Generator().manual_seed(0)
    drawn = [ranks[torch.randperm(len(ranks), generator=generator)[:ones]].sum() for _ in range(PERMUTATIONS)]
    null = area(torch.stack(drawn))
    low, high = null.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    p = (1 + int((null >= value - 1e-12).sum())) / (1 + PERMUTATIONS)
    error = _standard_error(value, ones, zeros)
    if floor is None:
        return AUC(value, (low, high), p, None, error)
    above = NormalDist(floor.value, math.hypot(error, floor.error)).cdf(value)
    return AUC(value, (low, high), max(p, 1 - above), floor.value, error)


def _standard_error(area: float, ones: int, zeros: int) -> float:
    """The standard error of an AUC (Hanley and McNeil 1982); half a pair is added, or an AUC of 1 would have none."""
    a = (area * ones * zeros + 0.25) / (ones * zeros + 0.5)
    q1, q2 = a / (2 - a), 2 * a**2 / (1 + a)
    return math.sqrt((a * (1 - a) + (ones - 1) * (q1 - a**2) + (zeros - 1) * (q2 - a**2)) / (ones * zeros))
