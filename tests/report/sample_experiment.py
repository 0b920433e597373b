"""A made-up experiment with everything a report has to cope with: a row that was not run, one without a published
number, one with a single seed, and hostile names where asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from intertwine.experiments import (
    Comparison,
    Experiment,
    ExperimentRow,
    Metric,
    Ordering,
    Published,
    compare,
)

ENVIRONMENT = {"python": "3.11.9", "torch": "2.13.0", "machine": "x86_64"}
HOSTILE = "<script>window.hacked = 1</script>\" onclick='x' & $x_1$ [red] \x00 </script><!--"


@dataclass(frozen=True)
class SampleRun:
    row: str
    seed: int
    metrics: Mapping[str, float]
    history: Sequence[Mapping[str, float]] = ()
    seconds: float = 65.0
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)


EXPERIMENT = Experiment(
    name="sample",
    title="Handwritten digits: what convolution gains",
    reference="LeCun & others 1998, figure 9",
    metrics=(
        Metric("test_error", "%", "lower", "share of test images that are classified wrongly"),
        Metric("likelihood", "nats", "higher", "mean log-likelihood of the labels"),
    ),
    rows=(
        ExperimentRow("linear", "linear classifier", {"network": "linear"}, {"test_error": Published(12.0)}),
        ExperimentRow("mlp", "300 hidden units", {"network": "mlp"}, {"test_error": Published(4.7, 0.2, 5)}),
        ExperimentRow("lenet", "LeNet-5", {"network": "lenet"}, {"test_error": Published(0.95, 0.08)}),
        ExperimentRow("boosted", "boosted LeNet-4", {"network": "boosted"}, {"test_error": Published(0.7)}),
        ExperimentRow("d4", "D4 network", {"network": "d4", "group": "D4"}),
    ),
    scales={
        "smoke": {"images": 200, "batch_size": 50},
        "small": {"images": 10_000, "batch_size": 100},
        "paper": {"images": None, "batch_size": 100},
    },
    seeds={"smoke": 1, "small": 3, "paper": 5},
    orderings=(
        Ordering("mlp", "linear", "test_error"),
        Ordering("lenet", "mlp", "test_error"),
        Ordering("boosted", "lenet", "test_error"),
        Ordering("d4", "lenet", "test_error"),
        Ordering("linear", "mlp", "likelihood"),
    ),
    run=lambda job: {},
    data={"small": "mnist"},
)
ERRORS = {"linear": (9.5, 9.7, 9.6), "mlp": (4.9, 4.1, 4.5), "lenet": (1.5, 1.7, 1.6), "d4": (1.2,)}


def history(last: float) -> list[dict[str, float]]:
    """Loss every step and error every fifth, falling to ``last``."""
    out = []
    for step in range(1, 51):
        entry = {"step": float(step), "train_loss": last / 5 + 2 * math.exp(-step / 10)}
        out.append(entry | ({"test_error": last * (1 + math.exp(-step / 10))} if step % 5 == 0 else {}))
    return out


RUNS = [
    SampleRun(row, seed, {"test_error": error, "likelihood": -error / 10}, history(error))
    for row, errors in ERRORS.items()
    for seed, error in enumerate(errors)
]


def compared(experiment: Experiment, runs: Sequence[SampleRun]) -> Comparison:
    by_row: dict[str, list[Mapping[str, float]]] = {}
    for run in runs:
        by_row.setdefault(run.row, []).append(run.metrics)
    return compare(experiment, by_row)


COMPARISON = compared(EXPERIMENT, RUNS)


def hostile() -> tuple[Experiment, Comparison, list[SampleRun]]:
    """The same with markup in every text."""
    rows = tuple(replace(row, title=f"{row.title} {HOSTILE}", settings={HOSTILE: HOSTILE}) for row in EXPERIMENT.rows)
    metrics = tuple(replace(metric, unit=HOSTILE, meaning=HOSTILE) for metric in EXPERIMENT.metrics)
    experiment = replace(EXPERIMENT, title=HOSTILE, reference=HOSTILE, rows=rows, metrics=metrics)
    runs = [replace(run, environment={HOSTILE: HOSTILE}) for run in RUNS]
    return experiment, compared(experiment, runs), runs


def large() -> tuple[Experiment, Comparison, list[SampleRun]]:
    """More rows, seeds and logged steps than a paper's table has."""
    rows = tuple(
        ExperimentRow(f"row-{k}", f"locally connected, rank {k}", {"rank": k}, {"test_error": Published(9.0, 0.3, 10)})
        for k in range(16)
    )
    orderings = tuple(Ordering(f"row-{k}", f"row-{k + 1}", "test_error") for k in range(15))
    experiment = replace(EXPERIMENT, rows=rows, orderings=orderings)
    runs = [
        SampleRun(
            row.name,
            seed,
            {"test_error": 9 + math.sin(k + seed), "likelihood": math.cos(k * seed) - 2},
            [
                {"step": step, "train_loss": 1 + math.cos(step * k * seed) / 9, "test_error": 9 + math.sin(step + seed)}
                for step in range(0, 10_000, 20)
            ],
        )
        for k, row in enumerate(rows)
        for seed in range(5)
    ]
    return experiment, compared(experiment, runs), runs
