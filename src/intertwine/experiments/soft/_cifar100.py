"""Soft equivariance on CIFAR-100, with and without augmentation.

Rows ``augmented-...`` mirror and shift images in training. Rows with many samples take long at the small scale; choose
rows with ``--only``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..lab._experiment import Experiment, Ordering, Scale
from ._figures import figures
from ._run import METRICS, PAPER, QUICK, REFERENCE, SMALL, SMALL_PLANE, SMOKE, run
from ._table import GROUPS, TEST, published_rows

_PLANE: dict[Scale, dict[str, Any]] = {"small": SMALL_PLANE}
ROWS = (
    *published_rows("cifar100", tuple(GROUPS), plane=_PLANE),
    *published_rows("cifar100+", tuple(GROUPS), prefix="augmented-", note="augmented: ", plane=_PLANE),
)
_DATA: dict[str, Any] = {
    "data": "cifar100",
    "mean": [0.49137, 0.48235, 0.44667],
    "std": [0.24706, 0.24353, 0.26157],
}

EXPERIMENT = Experiment(
    name="soft-cifar100",
    title="Between strict and free: images of a hundred classes",
    reference=f"{REFERENCE}, tables 2 and 4, CIFAR-100",
    metrics=METRICS,
    rows=ROWS,
    scales={
        "smoke": SMOKE,
        "quick": {**QUICK, **_DATA, "images": 20_000},
        "small": {**SMALL, **_DATA},
        "paper": {**PAPER, **_DATA},
    },
    seeds={"smoke": 1, "quick": 1, "small": 1, "paper": 3},
    orderings=(
        Ordering("t2-soft", "t2-strict", TEST.name),
        Ordering("t2-strict", "se2-4-strict", TEST.name),
        Ordering("se2-4-partial", "se2-4-strict", TEST.name),
        Ordering("se2-4-soft", "se2-4-partial", TEST.name),
        Ordering("se2-4-lambda-5", "se2-4-soft", TEST.name),
        Ordering("se2-8-soft", "se2-8-partial", TEST.name),
        Ordering("se2-16-soft", "se2-16-partial", TEST.name),
        Ordering("augmented-t2-soft", "augmented-t2-strict", TEST.name),
        Ordering("augmented-se2-8-soft", "augmented-se2-8-partial", TEST.name),
    ),
    run=run,
    data={"smoke": "digits", "quick": "cifar100", "small": "cifar100", "paper": "cifar100"},
    figures=partial(figures, ROWS),
    watch="val_accuracy",
)
