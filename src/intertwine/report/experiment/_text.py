"""A comparison in words, shared by the terminal and the page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...experiments import Cell, Comparison, Experiment, ExperimentRow, Metric, Published, Verdict
from .._numbers import measured_places, number, percent, written_places

SURE = 0.95
"""A claim counts as confirmed from this confidence on, and as contradicted below one minus it."""

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
        published_runs: the number of published runs, if given.
        ours: mean and standard deviation over seeds.
        our_runs: the number of seeds.
        difference: ours minus published.
        judgment: whether the difference is in the good direction.
        beside: for each further metric in the table, its text (mean and standard deviation over seeds) and its mean.
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
        verdict: the result.
        text: the claim as a sentence.
        published: whether the published means have this order.
        here: whether ours do.
        confidence: how certain that is, or why we cannot say.
        tone: good or bad if the confidence suffices.
    """

    verdict: Verdict
    text: str
    published: str
    here: str
    confidence: str
    tone: Literal["", "good", "bad", "quiet"]


_SPELLED = {"e_eq": "equivariance error", "capcorr": "CapCorr", "elbo": "ELBO", "gcnn": "GCNN", "repair": "REPAIR"}
"""Parts of metric names that are short in code, or that the papers write in capitals."""


def metric_name(metric: Metric | str) -> str:
    """The metric's name in words, as in a sentence.

    >>> metric_name("gcnn_barrier_without_repair"), metric_name("e_eq_prior")
    ('GCNN barrier without REPAIR', 'equivariance error prior')
    """
    name = metric if isinstance(metric, str) else metric.name
    for word, spelled in _SPELLED.items():
        name = re.sub(rf"(?<![a-z]){word}(?![a-z])", spelled, name)
    return name.replace("_", " ")


def metric_label(metric: Metric) -> str:
    """The name with its unit, for an axis or a heading."""
    return f"{metric_name(metric)} ({metric.unit})" if metric.unit else metric_name(metric)


def shown_metrics(experiment: Experiment, comparison: Comparison) -> list[tuple[Metric, list[Metric]]]:
    """The metrics with numbers that have their own table, each with the metrics that are columns of that table."""
    with_numbers = [metric for metric in experiment.metrics if has_numbers(experiment, comparison, metric)]
    with_table = [metric for metric in with_numbers if not metric.beside]
    return [(metric, [other for other in with_numbers if other.beside == metric.name]) for metric in with_table]


def beside_name(metric: Metric) -> str:
    """The name of a column: the metric's name without the name of the metric that it is shown beside."""
    return metric_name(metric.name.removeprefix(f"{metric.beside}_"))


def direction(metric: Metric) -> str:
    """The better direction, with an arrow."""
    return "↑ higher is better" if metric.better == "higher" else "↓ lower is better"


def cell_of(comparison: Comparison, row: ExperimentRow, metric: Metric) -> Cell:
    """The cell of a row and metric, empty if the comparison has none."""
    return comparison.cells.get((row.name, metric.name)) or Cell(row.published.get(metric.name), ())


def spread_of(cell: Cell) -> float | None:
    """The standard deviation over seeds; None if a seed diverged."""
    return cell.spread if all(map(math.isfinite, cell.values)) else None


def has_numbers(experiment: Experiment, comparison: Comparison, metric: Metric) -> bool:
    """Whether this metric has any numbers."""
    cells = [cell_of(comparison, row, metric) for row in experiment.rows]
    return any(cell.published is not None or cell.values for cell in cells)


def places_of(experiment: Experiment, comparison: Comparison, metric: Metric) -> int:
    """Decimals of our numbers in this metric."""
    cells = [cell_of(comparison, row, metric) for row in experiment.rows]
    published = sorted(_published_places(cell.published) for cell in cells if cell.published is not None)
    spreads = [spread for cell in cells if (spread := spread_of(cell)) is not None]
    values = [value for cell in cells for value in cell.values]
    return measured_places(values, spreads, published[len(published) // 2] if published else None)


def _published_places(published: Published) -> int:
    """The decimals of a published number, as the paper gives it."""
    return written_places([published.mean] if published.spread is None else [published.mean, published.spread])


def lines(experiment: Experiment, comparison: Comparison, metric: Metric, beside: Sequence[Metric] = ()) -> list[Line]:
    """Published numbers next to ours in one metric, one line per row, with the metrics shown beside it."""
    places = places_of(experiment, comparison, metric)
    ran = {name for (name, _), cell in comparison.cells.items() if cell.values}
    table = [
        _line(row, cell_of(comparison, row, metric), metric, places, NOT_REPORTED if row.name in ran else NOT_RUN)
        for row in experiment.rows
    ]
    for other in beside:
        digits = places_of(experiment, comparison, other)
        table = [
            replace(line, beside=(*line.beside, _beside(cell_of(comparison, line.row, other), digits)))
            for line in table
        ]
    return table


def _beside(cell: Cell, places: int) -> tuple[str, float | None]:
    return ("" if cell.mean is None else _plus_minus(cell.mean, spread_of(cell), places)), cell.mean


def _line(row: ExperimentRow, cell: Cell, metric: Metric, places: int, missing: str) -> Line:
    published = cell.published
    mean = cell.mean
    difference: str = ""
    judgment: Literal["", "better", "worse", "equal"] = ""
    if published is not None and mean is not None and math.isfinite(mean):
        apart = 0.0 if math.isclose(mean, published.mean, rel_tol=1e-12) else mean - published.mean
        difference = number(apart, places, signed=True)
        good = apart > 0 if metric.better == "higher" else apart < 0
        judgment = "equal" if apart == 0 else "better" if good else "worse"
    paper = NOT_PUBLISHED
    if published is not None:
        paper = _plus_minus(published.mean, published.spread, _published_places(published))
    return Line(
        row=row,
        cell=cell,
        published=paper,
        published_runs="" if published is None or published.runs is None else f"n = {published.runs}",
        ours=missing if mean is None else _plus_minus(mean, spread_of(cell), places),
        our_runs="" if mean is None else f"n = {len(cell.values)}",
        difference=difference,
        judgment=judgment,
    )


def _plus_minus(mean: float, spread: float | None, places: int) -> str:
    if spread is None or (spread == 0 and places == 0):  # a count, such as that of weights, which no seed changes
        return number(mean, places)
    return f"{number(mean, places)} ± {number(spread, places)}"


def left_out(experiment: Experiment, comparison: Comparison) -> str:
    """Which degenerate runs the tables leave out; empty if they have all."""
    texts = [
        f"{runs} {'run' if runs == 1 else 'runs'} of {experiment.row(name).title}"
        for name, runs in comparison.left_out.items()
    ]
    return f"Left out as degenerate: {'; '.join(texts)}." if texts else ""


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
    "Confidence: one-sided Welch t-test over seeds, for each claim separately. At 50% the runs say nothing, at 99% the "
    "ordering is unlikely to be chance, at 1% the runs show the opposite."
)
