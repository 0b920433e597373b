"""Published numbers against ours: means, spreads, and how certain a claimed ordering is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..._checked import checked
from ._experiment import Experiment, Metric, Ordering, Published, Scale


@checked
@dataclass(frozen=True)
class Cell:
    """One metric of one row: the published number, and one value per seed of ours."""

    published: Published | None
    values: tuple[float, ...]

    @property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds; None with fewer than two."""
        if len(self.values) < 2:
            return None
        return statistics.stdev(self.values) if all(map(math.isfinite, self.values)) else math.nan


@checked
@dataclass(frozen=True)
class Verdict:
    """Whether our runs show an ordering that the paper claims.

    Attributes:
        ordering: the claim.
        holds: whether our means have this order; None unless both rows have runs.
        confidence: probability of a difference at most as large as the observed one if the two rows were equal (Welch's
            t-test, one-sided in the claimed direction). At 0.5 the runs say nothing, at 0.99 the ordering is unlikely
            to be chance. None with fewer than two seeds of either row.
        published: whether the published means have this order; None unless the paper gives both.
    """

    ordering: Ordering
    holds: bool | None
    confidence: float | None
    published: bool | None


@checked
@dataclass(frozen=True)
class Comparison:
    """The table of an experiment at one scale.

    Attributes:
        cells: the numbers, by row and metric.
        verdicts: one per claim.
        left_out: how many degenerate runs of which row do not count.
    """

    cells: Mapping[tuple[str, str], Cell]
    verdicts: tuple[Verdict, ...]
    left_out: Mapping[str, int]


@checked
def compare(
    experiment: Experiment, runs: Mapping[str, Sequence[Mapping[str, float]]], *, scale: Scale = "paper"
) -> Comparison:
    """Compare the metrics of finished runs at a scale, by row, with the published ones; leave out degenerate runs."""
    cells = {
        (row.name, metric.name): Cell(
            row.published.get(metric.name) if scale in metric.comparable else None,
            tuple(run[metric.name] for run in runs.get(row.name, ()) if metric.name in run and experiment.counts(run)),
        )
        for row in experiment.rows
        for metric in experiment.metrics
    }
    verdicts = tuple(
        _verdict(
            claim,
            experiment.metric(claim.metric),
            *(cells[row, claim.metric] for row in (claim.first, claim.second)),
            published=[experiment.row(row).published.get(claim.metric) for row in (claim.first, claim.second)],
        )
        for claim in experiment.orderings
    )
    skipped = {row.name: sum(not experiment.counts(run) for run in runs.get(row.name, ())) for row in experiment.rows}
    return Comparison(cells, verdicts, {row: count for row, count in skipped.items() if count})


def _verdict(
    claim: Ordering, metric: Metric, first: Cell, second: Cell, *, published: Sequence[Published | None]
) -> Verdict:
    sign = 1.0 if metric.better == "higher" else -1.0
    means = [number.mean for number in published if number is not None]
    claimed = sign * (means[0] - means[1]) > 0 if len(means) == 2 else None
    if first.mean is None or second.mean is None:
        return Verdict(claim, None, None, claimed)
    a, b = ([sign * value for value in cell.values] for cell in (first, second))
    return Verdict(claim, sign * (first.mean - second.mean) > 0, welch_confidence(a, b), claimed)


@checked
def welch_confidence(larger: Sequence[float], smaller: Sequence[float]) -> float | None:
    """One-sided Welch t-test that the first mean is the larger one: the distribution function at the observed t.

    >>> round(welch_confidence([3.0, 3.1, 2.9], [1.0, 1.2, 0.8]), 4)
    0.9997
    """
    n, m = len(larger), len(smaller)
    if n < 2 or m < 2:
        return None
    difference = statistics.fmean(larger) - statistics.fmean(smaller)
    u, v = statistics.variance(larger) / n, statistics.variance(smaller) / m
    if u + v == 0:  # no spread: the difference is certain, or there is none
        return 0.5 if difference == 0 else float(difference > 0)
    freedom = (u + v) ** 2 / (u**2 / (n - 1) + v**2 / (m - 1))
    from scipy.special import stdtr

    return float(stdtr(freedom, difference / (u + v) ** 0.5))
