"""What was measured about one candidate: how right each network was, by share of the data and by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import torch
from torch import Tensor

from .._checked import checked
from ._networks import STRICTNESS, Strictness
from ._paired import Difference, Spread, difference, moderated, pooled_spread
from ._samples import FOLDS
from ._two_sample import AUC

Curve = Mapping[float, Mapping[int, Tensor]]
"""Share of the training samples → seed → for each sample held out, whether the prediction is right."""

Pair = tuple[Strictness, Strictness]
"""Two networks, the stricter first."""


@checked
@dataclass(frozen=True, eq=False)
class Evidence:
    """All measurements of one candidate.

    Attributes:
        name: the name of the candidate.
        words: what it does, in words.
        exact: whether equivariant layers impose all of it, and augmentation nothing.
        curves: for each network, its learning curve; ``free`` is always there if there are labels.
        guessing: seed → for each sample held out, whether the most frequent class is right.
        samples: the number of samples of the data.
        auc: the answer to the question whether moved samples look alike; None if it was not asked.
        spread: two networks, the stricter first → the variance over seeds of their difference, averaged over the
            learning curve; see :func:`spreads`.
        full_spread: the same with all data.
    """

    name: str
    words: str
    exact: bool
    curves: Mapping[Strictness, Curve] = field(default_factory=dict)
    guessing: Mapping[int, Tensor] = field(default_factory=dict)
    samples: int = 0
    auc: AUC | None = None
    spread: Mapping[Pair, Spread] = field(default_factory=dict)
    full_spread: Mapping[Pair, Spread] = field(default_factory=dict)

    @property
    def networks(self) -> list[Strictness]:
        """The networks that were measured, from strict to free."""
        return [each for each in STRICTNESS if self.curves.get(each)]

    @checked
    def accuracy(self, network: Strictness, share: float = 1.0) -> float:
        """The mean accuracy over samples held out and seeds."""
        return float(torch.cat([right.double() for right in self.curves[network][share].values()]).mean())

    @checked
    def along_curve(self, network: Strictness) -> dict[int, Tensor]:
        """For each seed and sample held out, how often the prediction is right over all shares of the data."""
        curve = self.curves[network]
        seeds = sorted(set.intersection(*(set(by_seed) for by_seed in curve.values())))
        return {seed: torch.stack([curve[share][seed].double() for share in curve]).mean(0) for seed in seeds}

    @checked
    def gain(self, network: Strictness, over: Strictness = "free", *, full: bool = False) -> Difference:
        """Accuracy of a network minus that of another one, averaged over the learning curve, or for all data."""
        one, other = shared(self._right(network, full=full), self._right(over, full=full))
        spread = self.full_spread if full else self.spread
        return difference(one, other, spread.get(_pair(network, over)), folds=FOLDS)

    def _right(self, network: Strictness, *, full: bool) -> Mapping[int, Tensor]:
        return self.curves[network][1.0] if full else self.along_curve(network)

    def pairs(self, *, full: bool) -> dict[Pair, tuple[list[Tensor], list[Tensor]]]:
        """For every two networks, how right they were, seed by seed."""
        return {
            (a, b): shared(self._right(a, full=full), self._right(b, full=full))
            for a, b in combinations(self.networks, 2)
        }

    @checked
    def over_guessing(self) -> Difference:
        """Accuracy of the best network with all data, minus that of guessing the most frequent class."""
        best = max(self.networks, key=self.accuracy)
        return difference(*shared(self.curves[best][1.0], self.guessing), folds=FOLDS)


def shared(first: Mapping[int, Tensor], second: Mapping[int, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The values of the seeds that both have; networks that lose early have fewer."""
    seeds = sorted(set(first) & set(second))
    return [first[seed] for seed in seeds], [second[seed] for seed in seeds]


def spreads(evidence: Sequence[Evidence], *, full: bool) -> dict[Pair, Spread]:
    """For every two networks, the variance over seeds of their difference, pooled over candidates.

    A few seeds say little about two networks, but equivariant networks on the same data vary alike, and so do their
    differences to the free one. So the variance of two networks is averaged with that of all of its kind, weighted by
    degrees of freedom.
    """
    pairs: dict[Pair, list[tuple[list[Tensor], list[Tensor]]]] = {}
    for each in evidence:
        for names, right in each.pairs(full=full).items():
            pairs.setdefault(names, []).append(right)
    spread: dict[Pair, Spread] = {}
    for reference in ("free", "invariant"):
        kind = {names: several for names, several in pairs.items() if ("free" in names) == (reference == "free")}
        everything = pooled_spread([right for several in kind.values() for right in several])
        # Differences to one reference vary independently but for its own part; other differences follow from them.
        independent = pooled_spread(
            [right for names, several in kind.items() if reference in names for right in several]
        )
        whole = replace(everything, freedom=independent.freedom)
        spread |= {names: moderated(pooled_spread(several), whole) for names, several in kind.items()}
    return spread


def _pair(network: Strictness, over: Strictness) -> Pair:
    return (network, over) if STRICTNESS.index(network) <= STRICTNESS.index(over) else (over, network)
