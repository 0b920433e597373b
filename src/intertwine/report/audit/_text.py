"""The contents of an audit in words and numbers, shared by the table and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...measure import METRICS, Reading
from .._numbers import significant

LAYER_METRICS = ("layer_equivariance_error", "layer_invariance_error")


def interval(reading: Reading) -> str:
    """The 95 % interval; empty if there is none."""
    return "" if reading.low is None else f"{significant(reading.low)} – {significant(reading.high)}"


def metric_title(metric: str) -> str:
    """The metric in words."""
    return metric.removeprefix("layer_").replace("_", " ")


@dataclass(frozen=True)
class LayerLine:
    """One layer under one symmetry, with all its metrics."""

    layer: str
    kind: str
    shape: str
    symmetry: str
    values: dict[str, Reading]


def layer_lines(readings: Sequence[Reading]) -> list[LayerLine]:
    """Layers in execution order, symmetry by symmetry."""
    lines: dict[tuple[str, str], LayerLine] = {}
    for reading in readings:
        if reading.layer:
            key = reading.symmetry, reading.layer
            line = lines.setdefault(key, LayerLine(reading.layer, reading.kind, reading.shape, reading.symmetry, {}))
            line.values[reading.metric] = reading
    order = list(dict.fromkeys(reading.symmetry for reading in readings if reading.layer))
    return sorted(lines.values(), key=lambda line: order.index(line.symmetry))


def layer_metrics(lines: Sequence[LayerLine]) -> list[str]:
    """The metrics that these layers have, in the order of ``METRICS``."""
    measured = {metric for line in lines for metric in line.values}
    return [metric for metric in METRICS if metric in measured]


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The readings that two audits share, side by side: of the whole network and of each layer."""

    def by_key(audit: Mapping[str, Any]) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        return {(r["metric"], r.get("symmetry", ""), r.get("layer", "")): r for r in audit["readings"]}

    a, b = by_key(first), by_key(second)
    rows = []
    for key in a:
        if key in b:
            x, y = a[key], b[key]
            apart = None
            if "low" in x and "low" in y:
                apart = x["high"] < y["low"] or y["high"] < x["low"]
            rows.append(
                {
                    "metric": key[0],
                    "symmetry": key[1],
                    "layer": key[2],
                    "first": x["value"],
                    "second": y["value"],
                    "change": y["value"] - x["value"],
                    "apart": apart,
                }
            )
    return rows
