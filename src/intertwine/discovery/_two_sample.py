"""The area under the curve of a two-sample test, its null distribution and its p-value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        p_value: the probability of such a value or a larger one by chance.
        floor: the value for resampled samples against untouched ones; None if nothing is resampled.
    """

    value: float
    null: tuple[float, float]
    p_value: float
    floor: float | None = None


@checked
def area_under_curve(scores: Sequence[float], coins: Sequence[int], *, floor: float | None = None) -> AUC:
    """The AUC with its permutation test: coins are independent of samples that look alike, so permuting is exact.

    >>> result = area_under_curve([0.1, 0.4, 0.2, 0.9, 0.8, 0.7], [0, 0, 0, 1, 1, 1])
    >>> result.value, result.p_value < 0.1
    (1.0, True)
    """
    if len(scores) != len(coins):
        raise InputError("area_under_curve", expected=f"{len(scores)} coins, one per score", got=str(len(coins)))
    s = torch.tensor(scores, dtype=torch.float64)
    moved = torch.tensor(coins, dtype=torch.float64)
    ones = int(moved.sum())
    zeros = len(moved) - ones
    if not ones or not zeros:
        return AUC(0.5, (0.0, 1.0), 1.0, floor)
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
    return AUC(value, (low, high), p, floor)
