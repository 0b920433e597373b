"""Accuracy by rank: low-rank layers of growing rank, each next to a convolution of matching size.

This is the paper's figure of accuracy against spatial rank, for layer 3 on CIFAR-10 unless ``--set where=1`` says
otherwise. Rank 1 is a convolution with a spatial bias, the wide convolution of rank 1 is the plain one, and the locally
connected layer is the limit of large ranks. The paper gives numbers for these extremes only.
"""

from __future__ import annotations

from ..lab._experiment import Experiment, ExperimentRow, Ordering
from ._cifar10 import EXPERIMENT as PICTURES
from ._figures import rank_figures
from ._run import SMOKE, run
from ._table import METRICS, TEST, published_of

RANKS = range(1, 9)

# The extremes, for which the paper has numbers: the title, and the row in its tables.
_EXTREMES = {
    "rank-1": ("LRLC, rank 1: + spatial bias", "bias-l3"),
    "wide-1": ("convolution", "conv"),
    "lc": ("locally connected", "lc-l3"),
}


def _row(name: str, layer: str, rank: int | None) -> ExperimentRow:
    kind = "LRLC, rank" if layer == "low-rank" else "wide convolution, as rank"
    title, published = _EXTREMES.get(name, (f"{kind} {rank}", None))
    settings = {"layer": layer, "rank": rank, "shifted": False}
    return ExperimentRow(name, title, settings, published_of(published, "cifar10") if published else {})


_KINDS = (("rank", "low-rank"), ("wide", "wide"))
_ROWS = tuple(_row(f"{prefix}-{rank}", layer, rank) for rank in RANKS for prefix, layer in _KINDS)

EXPERIMENT = Experiment(
    name="lrlc-rank",
    title="Between convolution and local connection: accuracy by rank",
    reference="Elsayed, Ramachandran, Shlens & Kornblith 2020, figure of accuracy against spatial rank",
    metrics=METRICS,
    rows=(*_ROWS, _row("lc", "local", None)),
    scales={
        # In layer 3 the embedded digits have only 4 positions, fewer than there are ranks.
        "smoke": {**SMOKE, "where": 1},
        **{scale: {**PICTURES.scales[scale], "where": 3} for scale in ("quick", "small", "paper")},
    },
    seeds={"smoke": 1, "quick": 3, "small": 1, "paper": 10},
    orderings=(
        Ordering("rank-4", "wide-1", TEST.name),
        Ordering("rank-4", "lc", TEST.name),
        Ordering("wide-1", "lc", TEST.name),
        Ordering("rank-4", "rank-1", TEST.name),
        Ordering("rank-4", "wide-4", TEST.name),
    ),
    run=run,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
    figures=rank_figures,
    watch="val_accuracy",
)
