"""Low-rank local connectivity on faces.

Position-dependent filters should help most on aligned faces: in the paper, LRLC in layer 3 beats everything else.
The rows ``shifted-...`` shift each face once, by up to eight pixels, for training and for testing.
"""

from __future__ import annotations

from functools import partial

from ..lab._experiment import Experiment, Ordering
from ._figures import figures
from ._run import PAPER, QUICK, SMALL, SMOKE, run
from ._table import METRICS, MOVED, TEST, published_rows, shifted_rows

EXPERIMENT = Experiment(
    name="lrlc-celeba",
    title="Between convolution and local connection: faces, in place and shifted",
    reference="Elsayed, Ramachandran, Shlens & Kornblith 2020, CelebA",
    metrics=(*METRICS, MOVED),
    rows=(*published_rows("celeba"), *shifted_rows()),
    scales={
        "smoke": SMOKE,
        "quick": {
            **QUICK,
            "data": "celeba",
            "images": 5000,
            "shift": 8,
            "epochs": 15,
            "batch_size": 128,
            "validate_every": 15,
        },
        "small": {**SMALL, "data": "celeba", "validation": "official", "images": 45_000, "shift": 8},
        "paper": {**PAPER, "data": "celeba", "validation": "official", "shift": 8},
    },
    seeds={"smoke": 1, "quick": 3, "small": 1, "paper": 10},
    orderings=(
        Ordering("lrlc-l3", "conv", TEST.name),
        Ordering("lrlc-l3", "lc-l3", TEST.name),
        Ordering("lrlc-l3", "wide-l3", TEST.name),
        Ordering("lrlc-l3", "input-l3", TEST.name),
        Ordering("shifted-input-l3", "shifted-lrlc-l3", TEST.name),
    ),
    run=partial(run, moved=True),
    data={"smoke": "digits", "quick": "celeba", "small": "celeba", "paper": "celeba"},
    figures=figures,
    watch="val_accuracy",
)
