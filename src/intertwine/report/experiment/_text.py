"""A comparison in words, the same for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...experiments import Cell, Comparison, Experiment, ExperimentRow, Metric, Published, Verdict
from .._numbers import measured_places, number, percent, written_places

SURE = 0.95
"""The confidence from which on a claim counts as seen, or as contradicted below one minus it."""

NOT_RUN = "not run"
NOT_REPORTED = "–"
NOT_PUBLISHED = "–"


@dataclass(frozen=True)
class Line:
    """One row in one metric.

    Attributes:
        row: the row.
        cell: its numbers.
        published: the paper's mean and spread.
        published_runs: behind how many runs, where that is given.
        ours: mean and standard deviation over seeds.
        our_runs: over how many seeds.
        difference: ours minus published.
        judgment: whether the difference is in the good direction.
        beside: of each metric that is shown beside, mean and standard deviation over seeds, and the mean.
    """

    row: ExperimentRow
    cell: Cell
    published: str
    published_runs: str
    ours: str
    our_runs: str
    difference: str
    judgment: Literal["", "better", "worse", "equal"]
    beside: tuple[tuple[str, float | None], ...] = ()


@dataclass(frozen=True)
class Claim:
    """One ordering that the paper claims.

    Attributes:
        verdict: what was found.
        text: the claim as a sentence.
        published: whether the published means are ordered so.
        here: whether ours are.
        confidence: how sure that is, or why it cannot be said.
        tone: good or bad where the confidence suffices.
    """

    verdict: Verdict
    text: str
    published: str
    here: str
    confidence: str
    tone: Literal["", "good", "bad", "quiet"]


def metric_name(metric: Metric | str) -> str:
    """The metric's name with spaces, as in a sentence."""
    name = metric if isinstance(metric, str) else metric.name
    return name.replace("_", " ")


def metric_label(metric: Metric) -> str:
    """The name with its unit, for an axis or a heading."""
    return f"{metric_name(metric)} ({metric.unit})" if metric.unit else metric_name(metric)


def shown_metrics(experiment: Experiment, comparison: Comparison) -> list[tuple[Metric, list[Metric]]]:
    """The metrics that have numbers and a table of their own, each with those that are columns of that table."""
    some = [metric for metric in experiment.metrics if has_numbers(experiment, comparison, metric)]
    return [(metric, [other for other in some if other.beside == metric.name]) for metric in some if not metric.beside]


def beside_name(metric: Metric) -> str:
    """The name of a column: what the metric's name adds to that of the metric it stands beside."""
    return metric_name(metric.name.removeprefix(f"{metric.beside}_"))


def direction(metric: Metric) -> str:
    """Which way is good, with an arrow."""
    return "↑ higher is better" if metric.better == "higher" else "↓ lower is better"


def cell_of(comparison: Comparison, row: ExperimentRow, metric: Metric) -> Cell:
    """The cell, empty where the comparison has none."""
    return comparison.cells.get((row.name, metric.name)) or Cell(row.published.get(metric.name), ())


def spread_of(cell: Cell) -> float | None:
    """The standard deviation over seeds; none where a seed diverged, because the library's own fails on NaN."""
    return cell.spread if all(map(math.isfinite, cell.values)) else None


def has_numbers(experiment: Experiment, comparison: Comparison, metric: Metric) -> bool:
    """Whether there is anything to show of this metric."""
    cells = [cell_of(comparison, row, metric) for row in experiment.rows]
    return any(cell.published is not None or cell.values for cell in cells)


def places_of(experiment: Experiment, comparison: Comparison, metric: Metric) -> int:
    """Decimals of our numbers in this metric."""
    cells = [cell_of(comparison, row, metric) for row in experiment.rows]
    given = sorted(_given_places(cell.published) for cell in cells if cell.published is not None)
    spreads = [spread for cell in cells if (spread := spread_of(cell)) is not None]
    values = [value for cell in cells for value in cell.values]
    return measured_places(values, spreads, given[len(given) // 2] if given else None)


def _given_places(published: Published) -> int:
    """A published number keeps the digits it came with."""
    return written_places([published.mean] if published.spread is None else [published.mean, published.spread])


def lines(experiment: Experiment, comparison: Comparison, metric: Metric, beside: Sequence[Metric] = ()) -> list[Line]:
    """Published against ours in one metric, a line a row, with the metrics that are shown beside it."""
    places = places_of(experiment, comparison, metric)
    ran = {name for (name, _), cell in comparison.cells.items() if cell.values}
    found = [
        _line(row, cell_of(comparison, row, metric), metric, places, NOT_REPORTED if row.name in ran else NOT_RUN)
        for row in experiment.rows
    ]
    for other in beside:
        digits = places_of(experiment, comparison, other)
        found = [
            replace(line, beside=(*line.beside, _beside(cell_of(comparison, line.row, other), digits)))
            for line in found
        ]
    return found


def _beside(cell: Cell, places: int) -> tuple[str, float | None]:
    return ("" if cell.mean is None else _plus_minus(cell.mean, spread_of(cell), places)), cell.mean


def _line(row: ExperimentRow, cell: Cell, metric: Metric, places: int, missing: str) -> Line:
    given = cell.published
    mean = cell.mean
    difference: str = ""
    judgment: Literal["", "better", "worse", "equal"] = ""
    if given is not None and mean is not None and math.isfinite(mean):
        apart = 0.0 if math.isclose(mean, given.mean, rel_tol=1e-12) else mean - given.mean
        difference = number(apart, places, signed=True)
        good = apart > 0 if metric.better == "higher" else apart < 0
        judgment = "equal" if apart == 0 else "better" if good else "worse"
    return Line(
        row=row,
        cell=cell,
        published=NOT_PUBLISHED if given is None else _plus_minus(given.mean, given.spread, _given_places(given)),
        published_runs="" if given is None or given.runs is None else f"n = {given.runs}",
        ours=missing if mean is None else _plus_minus(mean, spread_of(cell), places),
        our_runs="" if mean is None else f"n = {len(cell.values)}",
        difference=difference,
        judgment=judgment,
    )


def _plus_minus(mean: float, spread: float | None, places: int) -> str:
    return number(mean, places) if spread is None else f"{number(mean, places)} ± {number(spread, places)}"


def claims(experiment: Experiment, comparison: Comparison) -> list[Claim]:
    """The claims of the paper, in its order."""
    return [_claim(experiment, verdict) for verdict in comparison.verdicts]


def _claim(experiment: Experiment, verdict: Verdict) -> Claim:
    claim = verdict.ordering
    metric = experiment.metric(claim.metric)
    first, second = experiment.row(claim.first).title, experiment.row(claim.second).title
    sure = verdict.confidence
    tone: Literal["", "good", "bad", "quiet"] = ""
    if verdict.holds is None:
        here, confidence, tone = NOT_RUN, "", "quiet"
    else:
        here = "holds" if verdict.holds else "does not hold"
        confidence = "needs 2 seeds" if sure is None else percent(sure)
        if sure is not None and (sure >= SURE or sure <= 1 - SURE):
            tone = "good" if verdict.holds else "bad"
    return Claim(
        verdict=verdict,
        text=f"{first} has {metric.better} {metric_name(metric)} than {second}",
        published={True: "yes", False: "no", None: "not given"}[verdict.published],
        here=here,
        confidence=confidence,
        tone=tone,
    )


CONFIDENCE = (
    "Confidence: one-sided Welch t-test over seeds, each claim by itself. 50% says nothing, 99% that the ordering is "
    "hardly chance, 1% that the opposite is seen."
)
