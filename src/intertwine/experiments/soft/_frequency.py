"""How free should a network be? Accuracy against the domain frequency ω'.

Rows ``so2-...`` relax the rotations of a network with four of them, rows ``t2-...`` the translations of a network
without rotations. In the paper's figure 4, which gives no numbers, accuracy rises from ω' = 0 to a maximum and then
falls. The position of the maximum depends on the kernel network, so compare the shapes only. With ω' = 0, ``t2-0`` can
represent the same functions as the strict network of the table, but starts with smoother kernels, because initial
weights are smaller the more coordinates there are. ``so2-0`` also draws new samples in each layer, unlike the strict
network of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._figures import Figure, Plot, Series
from ..lab._experiment import Experiment, ExperimentRow, FinishedRun, Ordering, Published, Scale
from ._figures import banks
from ._run import METRICS, PAPER, QUICK, REFERENCE, SMALL, SMALL_PLANE, SMOKE
from ._run import run as train_and_measure
from ._table import RUNS, TEST, relaxation

FREQUENCIES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_TITLES = {"so2": "SE(2)/4, ω' of rotations", "t2": "T(2), ω' of translations"}


def _row(group: str, frequency: float) -> ExperimentRow:
    relaxed = "rotation" if group == "so2" else "translation"
    settings = {**relaxation("soft", 4 if group == "so2" else 1), relaxed: frequency, "augment": False}
    published = {TEST.name: Published(81.80, 0.48, RUNS)} if (group, frequency) == ("t2", 0) else {}
    scales: dict[Scale, dict[str, Any]] = {"small": SMALL_PLANE} if group == "t2" else {}
    return ExperimentRow(f"{group}-{frequency:g}", f"{_TITLES[group]} = {frequency:g}", settings, published, scales)


ROWS = tuple(_row(group, frequency) for group in _TITLES for frequency in FREQUENCIES)


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Accuracy against ω' for both groups, and a bank of filters."""
    series = []
    for group, title in _TITLES.items():
        points: list[tuple[float, list[float]]] = []
        for frequency in FREQUENCIES:
            values = [run.metrics[TEST.name] for run in runs if run.row == f"{group}-{frequency:g}"]
            if values:
                points.append((frequency, values))
        if points:
            series.append(Series(title, points))
    caption = "At ω' = 0 the network is strict. The published curves rise to a maximum and fall."
    plots: list[Figure] = [Plot("Accuracy against ω'", "ω'", "test accuracy, %", series, caption)] if series else []
    free = [run for run in runs if run.row == "so2-1"] or list(runs)
    return plots + banks(ROWS, free)


EXPERIMENT = Experiment(
    name="soft-frequency",
    title="Between strict and free: how far",
    reference=f"{REFERENCE}, figure 4, CIFAR-10",
    metrics=METRICS,
    rows=ROWS,
    scales={"smoke": SMOKE, "quick": QUICK, "small": SMALL, "paper": PAPER},
    seeds={"smoke": 1, "quick": 3, "small": 1, "paper": 3},
    orderings=(
        Ordering("so2-1", "so2-0", TEST.name),
        Ordering("so2-1", "so2-4", TEST.name),
        Ordering("t2-0.5", "t2-0", TEST.name),
        Ordering("t2-0.5", "t2-4", TEST.name),
    ),
    run=train_and_measure,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
    figures=figures,
    watch="val_accuracy",
)
