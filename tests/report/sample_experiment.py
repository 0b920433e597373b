"""A made-up experiment with everything a report has to cope with: a row that was not run, one without a published
number, one with a single seed, and hostile names where asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from intertwine.experiments import (
    Comparison,
    Experiment,
    ExperimentRow,
    Figure,
    Metric,
    Ordering,
    Panel,
    Panels,
    Plot,
    Published,
    Series,
    Table,
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
    folder: Path = Path("unused")


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


def with_null() -> tuple[Experiment, Comparison, list[SampleRun]]:
    """The same with a further metric, which belongs beside the first."""
    null = Metric("test_error_untrained", "%", "lower", "null: before training", beside="test_error")
    experiment = replace(EXPERIMENT, metrics=(*EXPERIMENT.metrics, null))
    runs = [replace(run, metrics={**run.metrics, null.name: 90.0 + run.seed}) for run in RUNS]
    return experiment, compared(experiment, runs), runs


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


def sample_figures(runs: Sequence[object]) -> list[Figure]:
    """One of each kind: series with bands, published, without points; signed, quiet and colored images; a table."""
    signed = torch.linspace(-1, 0.5, 25).reshape(5, 5)
    color = torch.stack([torch.eye(8), 1 - torch.eye(8), torch.full((8, 8), 0.5)])
    return [
        Plot(
            "error against size",
            "number of weights of the whole network, counted once for each weight that is trained",
            "test error of the network (%), the mean over all of its seeds",
            [
                Series("ours", [(20_000, [3.0, 4.0, 3.6]), (50_000, [2.0, 2.4]), (90_000, [math.nan])]),
                Series("ours", [(20_000, [2.5]), (50_000, [1.5])], published=True),
                Series("alone", [(30_000, [2.9, 2.7])], joined=False),
                Series("a series with a rather long title that says more than fits in one line", []),
            ],
            "How to read it.",
            x_scale="log",
        ),
        Panels(
            "filters",
            [
                ("first row", [Panel(signed, f"{15 * k}°", quiet=k % 3 == 2) for k in range(14)]),
                ("second row", [Panel(signed.T)]),
            ],
            "diverging",
        ),
        Panels("pictures", [("", [Panel(color, "colors"), Panel(torch.rand(300, 200), "large")])], shared=False),
        Table(
            "counts of parts",
            ("part", "weights", "share (%)"),
            [["first", 1200, 12.5], ["second", None, 87.5]],
            "Read.",
        ),
    ]


def with_figures() -> tuple[Experiment, Comparison, list[SampleRun]]:
    """The sample with figures of its own."""
    return replace(EXPERIMENT, figures=sample_figures), COMPARISON, RUNS
