"""Kept results as Markdown tables and as plots, and the pages that hold them.

A page marks the place of a table, and :func:`with_tables` fills it:

    <!-- results: lrlc small test_accuracy -->
    <!-- end -->

``results: EXPERIMENT SCALE METRIC ...`` has a line per row that was run. With one metric, it also has the metrics that
belong beside it; with several, only those. ``claims: EXPERIMENT`` has a line per claim of the paper, with our numbers
at scale ``small`` if they decide it, and at ``quick`` otherwise; ``claims: EXPERIMENT SCALE`` is about one scale.
``summary: EXPERIMENT ...`` counts the claims of each experiment: seen, not seen, open.

:func:`with_plots` draws what belongs in the site only, one line in the page:

    <!-- plot: lrlc small test_accuracy -->
    <!-- curves: lrlc small val_accuracy -->

``plot`` has published numbers and ours in one metric, ``curves`` a logged quantity during training. Both have the rows
that were run; names of rows after the metric choose among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from typing import NamedTuple

from ..._checked import checked
from ...experiments import Comparison, Experiment, Metric, Run, Scale, Verdict, compare, experiment_named, kept_runs
from .._numbers import number, percent
from ._page import curve_pictures, result_picture
from ._text import (
    NOT_PUBLISHED,
    NOT_RUN,
    SURE,
    Line,
    beside_name,
    cell_of,
    lines,
    metric_label,
    metric_name,
    places_of,
    shown_metrics,
)

_NO_RESULTS = "*No results yet.*"
_BLOCK = re.compile(r"<!-- (results|claims|summary): ([^>]*?) -->\n.*?<!-- end -->", re.DOTALL)


@checked
def with_tables(page: str) -> str:
    """The page with its tables made again from the results that come with the package.

    >>> print(with_tables("No tables."))
    No tables.
    """
    return _BLOCK.sub(_filled, page)


_PLOT = re.compile(r"^<!-- (plot|curves): ([^>]*?) -->$", re.MULTILINE)
_PLOTS = re.compile(rf"(?:{_PLOT.pattern}\n)+", re.MULTILINE)


@checked
def with_plots(page: str) -> str:
    """The page with its plots drawn from the results that come with the package, as HTML for the site.

    >>> print(with_plots("No plots."))
    No plots.
    """
    return _PLOTS.sub(_drawn, page)


def _drawn(lines: re.Match[str]) -> str:
    """Plots of adjacent lines stand side by side."""
    figures = [figure for kind, words in _PLOT.findall(lines[0]) for figure in _figures(kind, words)]
    if not figures:
        return f"{_NO_RESULTS}\n"
    return "\n".join(["```{raw} html", '<div class="plots">', *figures, "</div>", "```", ""])


def _figures(kind: str, words: str) -> list[str]:
    name, scale, quantity, *rows = words.split()
    _, experiment, runs, comparison = _kept(name, scale)
    chosen = [run for run in runs if not rows or run.row in rows]
    if not chosen:
        return []
    shown = {run.row for run in chosen}
    experiment = replace(experiment, rows=tuple(row for row in experiment.rows if row.name in shown), orderings=())
    word = re.sub(r"[^a-z0-9]+", "-", words)
    if kind == "plot":
        pictures = [result_picture(experiment, comparison, experiment.metric(quantity), name=word)]
    else:
        pictures = curve_pictures(experiment, chosen, quantity, name=word)
    source = escape(f" ({name}, scale {scale}).")
    return [
        f"<figure>{picture.svg}<figcaption>{escape(picture.caption.rstrip('.'))}{source}</figcaption></figure>"
        for picture in pictures
    ]


def _filled(block: re.Match[str]) -> str:
    kind, (name, *words) = block[1], block[2].split()
    if kind == "summary":
        table = _summary([name, *words])
    elif kind == "claims":
        table = _claims(name, words)
    else:
        table = _results(_kept(name, words[0]), words[1:])
    return f"<!-- {kind}: {block[2]} -->\n{table}\n<!-- end -->"


class _Kept(NamedTuple):
    """What is kept of an experiment at one scale."""

    scale: Scale
    experiment: Experiment
    runs: list[Run]
    comparison: Comparison


@cache
def _kept(name: str, scale: Scale) -> _Kept:
    experiment = experiment_named(name)
    experiment.require_scale(scale)
    runs = kept_runs(experiment, scale)
    by_row: dict[str, list[Mapping[str, float]]] = {row.name: [] for row in experiment.rows}
    for run in runs:
        by_row[run.row].append(run.metrics)
    return _Kept(scale, experiment, runs, compare(experiment, by_row, scale=scale))


def _results(kept: _Kept, names: Sequence[str]) -> str:
    experiment, comparison = kept.experiment, kept.comparison
    metric, *others = (experiment.metric(name) for name in names)
    if others:
        return _several(experiment, comparison, [metric, *others])
    beside = next((others for shown, others in shown_metrics(experiment, comparison) if shown == metric), [])
    rows = [
        [line.row.title, line.published, line.ours, _seeds(line), *(text for text, _ in line.beside)]
        for line in lines(experiment, comparison, metric, beside)
        if line.ours != NOT_RUN
    ]
    return _table([metric_label(metric), "published", "ours", "seeds", *map(beside_name, beside)], rows)


def _several(experiment: Experiment, comparison: Comparison, metrics: Sequence[Metric]) -> str:
    """A column per metric, followed by the published numbers where there are any."""
    tables = [lines(experiment, comparison, metric) for metric in metrics]
    columns: list[str] = []
    texts: list[list[str]] = []
    for metric, table in zip(metrics, tables, strict=True):
        columns.append(metric_label(metric))
        texts.append([line.ours for line in table])
        if any(line.published != NOT_PUBLISHED for line in table):
            columns.append("published")
            texts.append([line.published for line in table])
    rows = [
        [line.row.title, *row, _seeds(line)]
        for line, *row in zip(tables[0], *texts, strict=True)
        if line.ours != NOT_RUN
    ]
    return _table(["network", *columns, "seeds"], rows)


def _seeds(line: Line) -> str:
    return line.our_runs.removeprefix("n = ")


def _claims(name: str, scales: Sequence[str]) -> str:
    """A line per claim: the paper's numbers, and ours at the scale that decides it."""
    decided = _decided(name, scales)
    rows = [_claim(*line) for line in decided] if any(kept.runs for kept, _ in decided) else []
    return _table(["claim", "published", "ours", "seen?", "confidence", "scale", "seeds", "CPU hours"], rows)


def _claim(kept: _Kept, verdict: Verdict) -> list[str]:
    claim, experiment = verdict.ordering, kept.experiment
    metric = experiment.metric(claim.metric)
    first, second = (experiment.row(name) for name in (claim.first, claim.second))
    cells = [cell_of(kept.comparison, row, metric) for row in (first, second)]
    places = places_of(experiment, kept.comparison, metric)
    published = [
        NOT_PUBLISHED if cell.published is None else f"{cell.published.mean:g}".replace("-", "−") for cell in cells
    ]
    ours = [NOT_PUBLISHED if cell.mean is None else number(cell.mean, places) for cell in cells]
    hours = sum(run.cpu_seconds or 0.0 for run in kept.runs if run.row in (claim.first, claim.second)) / 3600
    return [
        f"{first.title}: {metric.better} {metric_name(metric)} than {second.title}",
        _pair(published),
        _pair(ours),
        seen(verdict),
        "" if verdict.confidence is None else percent(verdict.confidence),
        kept.scale,
        ", ".join(str(len(cell.values)) for cell in cells),
        f"{hours:.2g}" if hours else "",
    ]


def _summary(names: Sequence[str]) -> str:
    """How many claims of each experiment were seen."""
    rows, totals = [], [0] * (1 + len(_VERDICTS))
    for name in names:
        decided = _decided(name)
        hours = sum(run.cpu_seconds or 0.0 for kept in _kept_at(name) for run in kept.runs) / 3600
        verdicts = [seen(verdict) for _, verdict in decided]
        counts = [len(verdicts), *(verdicts.count(each) for each in _VERDICTS)]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        reference = experiment_named(name).reference
        rows.append([f"`{name}`", reference, *map(_or_nothing, counts), f"{hours:.2g}" if hours else ""])
    return _table(
        ["experiment", "paper", "claims", *_VERDICTS, "CPU hours"], [*rows, ["all", "", *map(_or_nothing, totals), ""]]
    )


def _decided(name: str, scales: Sequence[str] = ()) -> list[tuple[_Kept, Verdict]]:
    """Each claim of an experiment, at the first of these scales that decides it."""
    kept = _kept_at(name, scales)
    lines = zip(*([(one, verdict) for verdict in one.comparison.verdicts] for one in kept), strict=True)
    return [min(line, key=lambda one: _WEIGHT[seen(one[1])]) for line in lines]


def _kept_at(name: str, scales: Sequence[str] = ()) -> list[_Kept]:
    """What is kept of an experiment at these scales, or at those that we run, the larger one first."""
    offered = [scale for scale in ("small", "quick") if scale in experiment_named(name).scales]
    return [_kept(name, scale) for scale in scales or offered]


_VERDICTS = ("seen", "not seen", "can't tell", NOT_RUN)
_WEIGHT = {"seen": 0, "not seen": 0, "can't tell": 1, NOT_RUN: 2}
"""Smaller if it says more."""


def _or_nothing(count: int) -> str:
    return str(count) if count else ""


def seen(verdict: Verdict) -> str:
    """Whether our runs show a claim: yes or no only if the spread over seeds allows it."""
    if verdict.holds is None:
        return NOT_RUN
    if verdict.confidence is None or 1 - SURE < verdict.confidence < SURE:
        return "can't tell"
    return "seen" if verdict.holds else "not seen"


def _pair(values: Sequence[str]) -> str:
    return NOT_PUBLISHED if set(values) == {NOT_PUBLISHED} else ", ".join(values)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return _NO_RESULTS
    cells = [list(columns), ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)
