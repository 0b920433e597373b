"""Which classes an invariant network confuses that the free one tells apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import torch
from torch import Tensor

from .._checked import checked

_LEAST = 3  # excess errors
_LEVEL = 0.05  # over all pairs
_MAX_PAIRS = 5


@checked
@dataclass(frozen=True)
class ConfusedPair:
    """Two classes that get confused under a symmetry.

    Attributes:
        first: the name of one class.
        second: the name of the other.
        excess: how many more samples of the two the invariant network confuses than the free one, in percent of the
            samples of both.
    """

    first: str
    second: str
    excess: float


@checked
def confused_pairs(
    predictions: Iterable[tuple[Tensor, Tensor, Tensor]], classes: tuple[str, ...]
) -> tuple[ConfusedPair, ...]:
    """The pairs with clearly more errors, the worst first.

    Errors on one sample are not independent, so samples are the units: the excess of a pair is compared with its spread
    over samples, at a level that is corrected for the number of pairs.

    Args:
        predictions: for each seed the labels ``(n,)``, and the predictions of the invariant network and of the free one
            ``(n,)``, or ``(shares, n)`` with one row per share of the data.
        classes: the names of the classes.

    >>> labels, free = torch.tensor([0, 1] * 10), torch.tensor([0, 1] * 10)
    >>> confused_pairs([(labels, torch.zeros(20, dtype=torch.int64), free)], ("6", "9"))
    (ConfusedPair(first='6', second='9', excess=50.0),)
    """
    seeds = [(labels, strict.view(-1, len(labels)), free.view(-1, len(labels))) for labels, strict, free in predictions]
    rows = max((len(strict) for _, strict, _ in seeds), default=1)
    number = len(classes) * (len(classes) - 1) / 2
    sure = NormalDist().inv_cdf(1 - _LEVEL / max(1.0, number))
    pairs = []
    for a, b in combinations(range(len(classes)), 2):
        excess = torch.cat(
            [_mistakes(labels, strict, a, b) - _mistakes(labels, free, a, b) for labels, strict, free in seeds]
        )
        more = float(excess.sum())
        # One more sample on which the networks disagree is added, as for differences in accuracy.
        if more >= _LEAST and more > sure * math.sqrt(float(excess.square().sum()) + rows**2):
            among = sum(len(strict) * int(((labels == a) | (labels == b)).sum()) for labels, strict, _ in seeds)
            pairs.append(ConfusedPair(classes[a], classes[b], 100 * more / among))
    return tuple(sorted(pairs, key=lambda pair: -pair.excess)[:_MAX_PAIRS])


def _mistakes(labels: Tensor, predictions: Tensor, a: int, b: int) -> Tensor:
    """For each sample, how often it is of one class and taken for the other."""
    wrong = (labels == a) & (predictions == b) | (labels == b) & (predictions == a)
    return wrong.sum(0).double()
