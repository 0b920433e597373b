"""Low-rank local connectivity on digits, in place and shifted.

Centered digits reward every position-dependent layer: even a locally connected layer 3 beats a convolution.
The rows ``shifted-...`` shift each image once, by up to four pixels, for training and for testing. They stand in for
the paper's figure of shifted faces, which gives no numbers.
"""

from __future__ import annotations

from functools import partial

from ..lab._experiment import Experiment, Ordering
from ._figures import figures
from ._run import PAPER, QUICK, SMALL, SMOKE, run
from ._table import METRICS, MOVED, TEST, published_rows, shifted_rows

EXPERIMENT = Experiment(
    name="lrlc-mnist",
    title="Between convolution and local connection: digits, in place and shifted",
    reference="Elsayed, Ramachandran, Shlens & Kornblith 2020, MNIST",
    metrics=(*METRICS, MOVED),
    rows=(*published_rows("mnist"), *shifted_rows()),
    scales={
        "smoke": {**SMOKE, "scaling": "symmetric"},
        "quick": {
            **QUICK,
            "data": "mnist",
            "scaling": "symmetric",
            "images": 2000,
            "shift": 4,
            "epochs": 25,
            "batch_size": 64,
            "validate_every": 25,
        },
        "small": {**SMALL, "data": "mnist", "scaling": "symmetric", "shift": 4},
        "paper": {**PAPER, "data": "mnist", "scaling": "symmetric", "shift": 4},
    },
    seeds={"smoke": 1, "quick": 3, "small": 2, "paper": 10},
    orderings=(
        Ordering("shifted-input-l3", "shifted-lrlc-l3", TEST.name),
        Ordering("shifted-lrlc-l3", "shifted-conv", TEST.name),
        Ordering("shifted-conv", "shifted-lc-l3", TEST.name),
        Ordering("lrlc-l3", "conv", TEST.name),
        Ordering("lrlc-l3", "wide-l3", TEST.name),
        Ordering("lrlc-l1", "lc-l1", TEST.name),
        Ordering("lc-l3", "conv", TEST.name),
    ),
    run=partial(run, moved=True),
    data={"smoke": "digits", "quick": "mnist", "small": "mnist", "paper": "mnist"},
    figures=figures,
    watch="val_accuracy",
)
