"""How combining weights start, how they are normalized, and how they are shared: layer 3, rank 4.

The paper's text starts all combining weights at 1/√K, which keeps the variance of one filter bank; the published code
normalizes by softmax, and then they start at 1/K. Both run here. Figures 1 and 2 of its supplement compare this
structured start with a random one, and weights r(i) + c(j) with a free table; they give no numbers, but find the start
unimportant and the free table worse.
"""

from __future__ import annotations

from ..lab._experiment import Experiment, ExperimentRow, Ordering
from ._cifar10 import EXPERIMENT as PICTURES
from ._run import run
from ._table import METRICS, TEST

_ROWS = {
    "softmax": ("softmax, all weights start at 1/K (published code)", {}),
    "norm": ("length 1, all weights start at 1/√K (published text)", {"normalize": "norm"}),
    "none": ("not normalized, all weights start at 1/√K", {"normalize": "none"}),
    "softmax-random": ("softmax, random start", {"init": "random"}),
    "norm-random": ("length 1, random start", {"normalize": "norm", "init": "random"}),
    "softmax-full": ("softmax, a free table of weights", {"sharing": "full"}),
    "norm-full": ("length 1, a free table of weights", {"normalize": "norm", "sharing": "full"}),
}

EXPERIMENT = Experiment(
    name="lrlc-start",
    title="Between convolution and local connection: how combining weights start and are shared",
    reference="Elsayed, Ramachandran, Shlens & Kornblith 2020, supplement, figures 1 and 2",
    metrics=METRICS,
    rows=tuple(
        ExperimentRow(name, title, {"layer": "low-rank", "where": 3, "rank": 4, "shifted": False, **settings})
        for name, (title, settings) in _ROWS.items()
    ),
    scales=PICTURES.scales,
    seeds={"smoke": 1, "quick": 3, "small": 1, "paper": 10},
    orderings=(Ordering("softmax", "softmax-full", TEST.name), Ordering("norm", "norm-full", TEST.name)),
    run=run,
    data=PICTURES.data,
    watch="val_accuracy",
)
