"""Which classes an invariant network confuses that the free one tells apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checked import checked

_LEAST = 3  # excess errors
_SURE = 2.0  # standard errors
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

    Args:
        predictions: triples of labels, predictions of the invariant network and predictions of the free one.
        classes: the names of the classes.

    >>> labels, free = torch.tensor([0, 1] * 10), torch.tensor([0, 1] * 10)
    >>> confused_pairs([(labels, torch.zeros(20, dtype=torch.int64), free)], ("6", "9"))
    (ConfusedPair(first='6', second='9', excess=50.0),)
    """
    k = len(classes)
    strict, free, counts = torch.zeros(k, k), torch.zeros(k, k), torch.zeros(k)
    for labels, by_strict, by_free in predictions:
        strict += _confusion(labels, by_strict, k)
        free += _confusion(labels, by_free, k)
        counts += labels.bincount(minlength=k)
    strict, free = strict + strict.T, free + free.T
    pairs = []
    for a in range(k):
        for b in range(a + 1, k):
            more = float(strict[a, b] - free[a, b])
            if more >= _LEAST and more > _SURE * math.sqrt(float(strict[a, b] + free[a, b]) + 1):
                share = 100 * more / float(counts[a] + counts[b])
                pairs.append(ConfusedPair(classes[a], classes[b], share))
    return tuple(sorted(pairs, key=lambda pair: -pair.excess)[:_MAX_PAIRS])


def _confusion(labels: Tensor, predictions: Tensor, k: int) -> Tensor:
    return (labels * k + predictions).bincount(minlength=k * k).view(k, k).float()
