"""Digits at any angle, where breaking the symmetry gains nothing.

The paper has no table for these; the settings are from Romero & Lohit (2022). The questions: do learned frequencies go
to 0 on symmetric data, and does the strict network stay ahead? The images are MNIST, rotated by other random angles
than those of the benchmark.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..lab._experiment import Experiment, ExperimentRow, Ordering
from ._figures import figures
from ._run import METRICS, PAPER, QUICK, REFERENCE, SMALL, SMOKE, run
from ._table import TEST, relaxation


def _row(group: str, kind: str, title: str) -> ExperimentRow:
    settings = relaxation(kind, 1 if group == "t2" else 8)
    return ExperimentRow(f"{group}-{kind}", title, {**settings, "augment": False})


ROWS = (
    _row("t2", "strict", "T(2) strict"),
    _row("se2-8", "strict", "SE(2)/8 strict"),
    _row("se2-8", "partial", "SE(2)/8 partial"),
    _row("se2-8", "soft", "SE(2)/8 soft, ω' chosen on validation images"),
    _row("se2-8", "lambda-0.1", "SE(2)/8 soft, learned ω', λ = 0.1"),
    _row("se2-8", "lambda-5", "SE(2)/8 soft, learned ω', λ = 5"),
)
_DATA: dict[str, Any] = {
    "data": "rotated-mnist",
    "mean": [0.13],
    "std": [0.297],
    "decay": 0.0,
    "extent_penalty": 1e-3,
    "pooled": [0, 1],
}

EXPERIMENT = Experiment(
    name="soft-rotmnist",
    title="Between strict and free: digits at any angle",
    reference=f"{REFERENCE}, the data of Romero & Lohit 2022; no table",
    metrics=METRICS,
    rows=ROWS,
    scales={
        "smoke": SMOKE,
        "quick": {**QUICK, **_DATA, "size": 20, "images": 4000, "epochs": 8},
        "small": {**SMALL, **_DATA, "validation": 2000, "epochs": 20},
        "paper": {**PAPER, **_DATA, "validation": 2000},
    },
    seeds={"smoke": 1, "quick": 1, "small": 1, "paper": 3},
    orderings=(
        Ordering("se2-8-strict", "t2-strict", TEST.name),
        Ordering("se2-8-strict", "se2-8-soft", TEST.name),
        Ordering("se2-8-lambda-5", "se2-8-soft", TEST.name),
    ),
    run=run,
    data={"smoke": "digits", "quick": "rotated-mnist", "small": "rotated-mnist", "paper": "rotated-mnist"},
    figures=partial(figures, ROWS),
    watch="val_accuracy",
)
