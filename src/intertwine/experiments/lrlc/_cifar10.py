"""Low-rank local connectivity on CIFAR-10.

The claim: a layer between a convolution and a locally connected layer beats both. The wide convolution next to it has
as many weights, and shows how much of the gain is due to size alone; in the paper, most of it is on this data set.
"""

from __future__ import annotations

from ..lab._experiment import Experiment, Ordering
from ._figures import figures
from ._run import PAPER, QUICK, SMALL, SMOKE, run
from ._table import METRICS, TEST, published_rows

EXPERIMENT = Experiment(
    name="lrlc",
    title="Between convolution and local connection: pictures",
    reference="Elsayed, Ramachandran, Shlens & Kornblith 2020, CIFAR-10",
    metrics=METRICS,
    rows=published_rows("cifar10"),
    scales={
        "smoke": SMOKE,
        "quick": {
            **QUICK,
            "data": "cifar10",
            "images": 10_000,
            "epochs": 15,
            "batch_size": 128,
            "validate_every": 15,
        },
        "small": {**SMALL, "data": "cifar10"},
        "paper": {**PAPER, "data": "cifar10"},
    },
    seeds={"smoke": 1, "quick": 3, "small": 2, "paper": 10},
    orderings=(
        Ordering("lrlc-l3", "conv", TEST.name),
        Ordering("conv", "lc-l3", TEST.name),
        Ordering("lrlc-l3", "wide-l3", TEST.name),
        Ordering("lrlc-l1", "lc-l1", TEST.name),
        Ordering("lrlc-l2", "lc-l2", TEST.name),
        Ordering("input-l3", "lrlc-l3", TEST.name),
        Ordering("lrlc-l3", "lrlc-all", TEST.name),
    ),
    run=run,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
    figures=figures,
    watch="val_accuracy",
)
