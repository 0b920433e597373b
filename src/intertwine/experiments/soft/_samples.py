"""Soft equivariance on CIFAR-10 with eight and sixteen rotations.

Sixteen samples cost sixteen times as much as four. At the small scale that takes hours; choose rows with ``--only``.
"""

from __future__ import annotations

from functools import partial

from ..lab._experiment import Experiment, Ordering
from ._figures import figures
from ._run import METRICS, PAPER, QUICK, REFERENCE, SMALL, SMOKE, run
from ._table import TEST, published_rows

ROWS = published_rows("cifar10", ("se2-8", "se2-16"))

EXPERIMENT = Experiment(
    name="soft-samples",
    title="Between strict and free: images, eight and sixteen rotations",
    reference=f"{REFERENCE}, tables 2 and 4, CIFAR-10",
    metrics=METRICS,
    rows=ROWS,
    scales={"smoke": SMOKE, "quick": QUICK, "small": SMALL, "paper": PAPER},
    seeds={"smoke": 1, "quick": 1, "small": 1, "paper": 3},
    orderings=(
        Ordering("se2-8-partial", "se2-8-strict", TEST.name),
        Ordering("se2-8-soft", "se2-8-partial", TEST.name),
        Ordering("se2-8-lambda-0.1", "se2-8-partial", TEST.name),
        Ordering("se2-8-partial", "se2-8-lambda-0.01", TEST.name),
        Ordering("se2-16-partial", "se2-16-strict", TEST.name),
        Ordering("se2-16-soft", "se2-16-partial", TEST.name),
        Ordering("se2-16-strict", "se2-8-strict", TEST.name),
    ),
    run=run,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
    figures=partial(figures, ROWS),
    watch="val_accuracy",
)
