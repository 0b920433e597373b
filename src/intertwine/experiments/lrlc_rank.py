"""Accuracy by rank: low-rank layers from a convolution on, and the convolution of matching size beside each.

The paper is named in ``_lrlc.py``; this is its figure of accuracy against spatial rank, for layer 3 on CIFAR-10 unless
``--set where=1`` says otherwise. Rank 1 is a convolution with a spatial bias; the wide convolution of rank 1 is the
plain one; the locally connected layer is where growing ranks lead. The paper gives numbers for these ends only.
"""

from __future__ import annotations

from typing import Any

from ._experiment import Experiment, ExperimentRow, Ordering
from ._lrlc import METRICS, SMOKE, TEST, published_of, run
from ._lrlc_figures import rank_figures
from .lrlc import EXPERIMENT as PICTURES

RANKS = range(1, 9)


def _settings(layer: str, rank: int | None) -> dict[str, Any]:
    return {"layer": layer, "rank": rank, "shifted": False}


def _rows() -> tuple[ExperimentRow, ...]:
    rows = []
    for rank in RANKS:
        first = rank == 1
        low, wide = (
            ("LRLC, rank 1: + spatial bias", "convolution")
            if first
            else (f"LRLC, rank {rank}", f"wide convolution, as rank {rank}")
        )
        rows.append(
            ExperimentRow(
                f"rank-{rank}", low, _settings("low-rank", rank), published_of("bias-l3", "cifar10") if first else {}
            )
        )
        rows.append(
            ExperimentRow(
                f"wide-{rank}", wide, _settings("wide", rank), published_of("conv", "cifar10") if first else {}
            )
        )
    rows.append(ExperimentRow("lc", "locally connected", _settings("local", None), published_of("lc-l3", "cifar10")))
    return tuple(rows)


EXPERIMENT = Experiment(
    name="lrlc-rank",
    title="Between convolution and local connection: accuracy by rank",
    reference="Elsayed, Ramachandran, Shlens & Kornblith 2020, figure of accuracy against spatial rank",
    metrics=METRICS,
    rows=_rows(),
    scales={
        # In layer 3 the embedded digits have 4 places only, fewer than ranks.
        "smoke": {**SMOKE, "where": 1},
        "small": {**PICTURES.scales["small"], "where": 3},
        "paper": {**PICTURES.scales["paper"], "where": 3},
    },
    seeds={"smoke": 1, "small": 3, "paper": 10},
    orderings=(
        Ordering("rank-4", "wide-1", TEST.name),
        Ordering("rank-4", "lc", TEST.name),
        Ordering("wide-1", "lc", TEST.name),
        Ordering("rank-4", "rank-1", TEST.name),
        Ordering("rank-4", "wide-4", TEST.name),
    ),
    run=run,
    data={"smoke": "digits", "small": "cifar10", "paper": "cifar10"},
    figures=rank_figures,
    watch="val_accuracy",
)
