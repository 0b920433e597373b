"""Soft equivariance on CIFAR-10: translations, and rotations with four samples.

The claim: networks that can break their symmetry a little beat strict ones, and learn by themselves how far to go. In
the paper, without augmentation, this holds for rotations and barely for translations (81.82 against 81.80 %), and a
weak penalty, λ ≤ 0.01, loses to the strict network. ``soft-samples`` has more samples, ``soft-augmented`` augmented
images.

Rows ``fourier-...`` have the kernel network of equations 7 and 8, the others one network of all coordinates. The
paper has one column of numbers for the two descriptions, so they stand beside both. Rows ``principal-...`` give angles
to the network as numbers, which has the published sizes but kernels that jump at ±π; the others are continuous on the
circle, as section 5 asks for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..lab._experiment import Experiment, Ordering, Scale
from ._figures import figures
from ._run import METRICS, PAPER, QUICK, REFERENCE, SMALL, SMALL_PLANE, SMOKE, run
from ._table import TEST, published_rows

_PLANE: dict[Scale, dict[str, Any]] = {"small": SMALL_PLANE}
ROWS = (
    *published_rows("cifar10", ("t2", "se2-4"), plane=_PLANE),
    *published_rows(
        "cifar10",
        ("t2", "se2-4"),
        prefix="fourier-",
        note="Eq. 7-8: ",
        net="fourier",
        kinds=("strict", "soft", "lambda-0.1"),
        plane=_PLANE,
    ),
    *published_rows(
        "cifar10",
        ("se2-4",),
        prefix="principal-",
        note="angles as numbers: ",
        angles="principal",
        kinds=("strict", "soft"),
    ),
)

EXPERIMENT = Experiment(
    name="soft",
    title="Between strict and free: images, four rotations",
    reference=f"{REFERENCE}, tables 2 and 4, CIFAR-10",
    metrics=METRICS,
    rows=ROWS,
    scales={"smoke": SMOKE, "quick": QUICK, "small": SMALL, "paper": PAPER},
    seeds={"smoke": 1, "quick": 3, "small": 1, "paper": 3},
    orderings=(
        Ordering("t2-soft", "t2-strict", TEST.name),
        Ordering("t2-lambda-0.1", "t2-strict", TEST.name),
        Ordering("se2-4-partial", "se2-4-strict", TEST.name),
        Ordering("se2-4-soft", "se2-4-strict", TEST.name),
        Ordering("se2-4-soft", "se2-4-partial", TEST.name),
        Ordering("se2-4-lambda-0.1", "se2-4-strict", TEST.name),
        Ordering("se2-4-lambda-5", "se2-4-strict", TEST.name),
        Ordering("se2-4-lambda-0.1", "se2-4-lambda-0.01", TEST.name),
        Ordering("se2-4-strict", "se2-4-lambda-0.01", TEST.name),
        Ordering("fourier-t2-soft", "fourier-t2-strict", TEST.name),
        Ordering("fourier-se2-4-soft", "fourier-se2-4-strict", TEST.name),
        Ordering("principal-se2-4-soft", "principal-se2-4-strict", TEST.name),
    ),
    run=run,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
    figures=partial(figures, ROWS),
    watch="val_accuracy",
)
