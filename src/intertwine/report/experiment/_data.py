"""The numbers of an experiment's page, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import __version__
from ...experiments import Comparison, Experiment, Scale
from ._run_summary import RunSummary
from ._text import cell_of, spread_of

SCHEMA = 1


def page_data(
    experiment: Experiment, comparison: Comparison, runs: Sequence[RunSummary], scale: Scale
) -> dict[str, Any]:
    """The numbers of the page as plain values."""
    rows = []
    for row in experiment.rows:
        results = {}
        for metric in experiment.metrics:
            cell = cell_of(comparison, row, metric)
            published = cell.published
            results[metric.name] = {
                "published": None
                if published is None
                else {"mean": published.mean, "spread": published.spread, "runs": published.runs},
                "values": cell.values,
                "mean": cell.mean,
                "std": spread_of(cell),
            }
        rows.append({"name": row.name, "title": row.title, "settings": row.settings_at(scale), "results": results})
    environments: list[dict[str, str]] = []  # runs share few of them
    for run in runs:
        if dict(run.environment) not in environments:
            environments.append(dict(run.environment))
    return {
        "schema": SCHEMA,
        "experiment": experiment.name,
        "title": experiment.title,
        "reference": experiment.reference,
        "scale": scale,
        "settings": experiment.scales[scale],
        "intertwine": __version__,
        "metrics": [
            {"name": m.name, "unit": m.unit, "better": m.better, "meaning": m.meaning, "beside": m.beside}
            for m in experiment.metrics
        ],
        "rows": rows,
        "claims": [
            {
                "first": verdict.ordering.first,
                "second": verdict.ordering.second,
                "metric": verdict.ordering.metric,
                "published": verdict.published,
                "holds": verdict.holds,
                "confidence": verdict.confidence,
            }
            for verdict in comparison.verdicts
        ],
        "left_out": dict(comparison.left_out),
        "runs": [
            {
                "row": run.row,
                "seed": run.seed,
                "metrics": run.metrics,
                "seconds": run.seconds,
                "environment": environments.index(dict(run.environment)),
            }
            for run in runs
        ],
        "environments": environments,
    }
