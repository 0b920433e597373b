"""The difference in accuracy between two networks, paired over samples and seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checked import Positive, checked
from ..errors import InputError

_SEED_SPREAD = 0.01
"""The standard deviation over seeds that is assumed if there is one seed only."""

_ASSUMED = 10
"""The degrees of freedom that an assumed standard deviation counts for."""


@checked
@dataclass(frozen=True)
class Difference:
    """A difference in accuracy, with its standard error over samples and seeds.

    Attributes:
        mean: the difference.
        samples_error: the standard error over samples held out.
        seeds_error: the standard error over seeds.
        count: the number of samples held out, over all seeds.
        seeds: the number of seeds.
        seeds_freedom: the degrees of freedom of the standard error over seeds.
    """

    mean: float
    samples_error: float
    seeds_error: float
    count: int
    seeds: int
    seeds_freedom: int

    @property
    def error(self) -> float:
        """The standard error."""
        return math.hypot(self.samples_error, self.seeds_error)

    @property
    def freedom(self) -> float:
        """Degrees of freedom (Welch and Satterthwaite)."""
        if self.error == 0:
            return max(1, self.count - 1)
        parts = self.samples_error**4 / max(1, self.count - 1) + self.seeds_error**4 / max(1, self.seeds_freedom)
        return max(1.0, self.error**4 / parts)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        reach = self.quantile(0.975) * self.error
        return self.mean - reach, self.mean + reach

    def quantile(self, level: float) -> float:
        """The quantile of Student's distribution."""
        from scipy.special import stdtrit  # scipy.stats would take seconds to import

        return float(stdtrit(self.freedom, level))

    @checked
    def p_above(self, bound: float) -> float:
        """The p-value of "the difference is at most ``bound``": small if it is surely larger."""
        from scipy.special import stdtr

        if self.error == 0:
            return 0.0 if self.mean > bound else 1.0
        return float(stdtr(self.freedom, (bound - self.mean) / self.error))


@checked
@dataclass(frozen=True)
class Spread:
    """The variance of differences over seeds, pooled over pairs of networks.

    Attributes:
        variance: the variance of one seed.
        freedom: its degrees of freedom.
    """

    variance: float = _SEED_SPREAD**2
    freedom: int = _ASSUMED


@checked
def pooled_spread(pairs: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]]) -> Spread:
    """The variance over seeds of the differences of several pairs of networks, as for :func:`difference`.

    Three seeds say little about one pair, but networks on the same data vary alike.

    >>> a, b = torch.zeros(4), torch.ones(4)
    >>> pooled_spread([([a, b], [a, a])])
    Spread(variance=0.5, freedom=1)
    """
    total, freedom = 0.0, 0
    for first, second in pairs:
        means = torch.stack([(a.double() - b.double()).mean() for a, b in zip(first, second, strict=True)])
        if len(means) > 1:
            total += float((means - means.mean()).square().sum())
            freedom += len(means) - 1
    return Spread(total / freedom, freedom) if freedom else Spread()


@checked
def moderated(own: Spread, everything: Spread) -> Spread:
    """The variance of one pair of networks, averaged with that of all pairs.

    >>> moderated(Spread(0.4, 2), Spread(0.1, 4))
    Spread(variance=0.2, freedom=4)
    """
    total = own.freedom + everything.freedom
    variance = (own.freedom * own.variance + everything.freedom * everything.variance) / total
    return Spread(variance, max(own.freedom, everything.freedom))


@checked
def difference(
    first: Sequence[Tensor], second: Sequence[Tensor], spread: Spread | None = None, *, folds: Positive = 4
) -> Difference:
    """Accuracy of the first network minus that of the second.

    Seed s holds out its own samples, so the pairs are those of one seed. The standard error adds the variance over
    samples and the variance over seeds, which counts a part twice: it errs on the safe side.

    Args:
        first: for each seed, how right the first network was on each sample, from 0 to 1.
        second: the same for the second network.
        spread: the variance over seeds; by default that of this pair.
        folds: the number of seeds that hold out different samples. More seeds hold the same samples out again, which
            does not lower the standard error over samples.

    >>> right, wrong = torch.ones(50), torch.zeros(50)
    >>> difference([right, right], [right, wrong]).mean
    0.5
    """
    shapes = [[tuple(each.shape) for each in side] for side in (first, second)]
    if not first or shapes[0] != shapes[1]:
        raise InputError(
            "difference", expected="one or more seeds, with the same samples for both networks", got=str(shapes)
        )
    per_seed = [a.double() - b.double() for a, b in zip(first, second, strict=True)]
    everything = torch.cat(per_seed)
    n, seeds = len(everything), len(per_seed)
    # One discordant pair is added, or an error of 0 would follow from a few samples that agree by chance.
    within = (float((everything - everything.mean()).square().sum()) + 1) / max(1, n - 1)
    between = spread or pooled_spread([(first, second)])
    return Difference(
        float(everything.mean()),
        math.sqrt(within / n * max(1.0, seeds / folds)),
        math.sqrt(between.variance / seeds),
        n,
        seeds,
        between.freedom,
    )
