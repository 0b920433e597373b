"""The list of metrics, with the formula, unit and direction of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..._checked import checked
from ..._registry import Registry


@checked
@dataclass(frozen=True)
class MetricInfo:
    """A metric.

    Attributes:
        name: the name of the function that measures it, and the key in files.
        formula: the value for one sample.
        unit: the unit; empty for a pure number.
        better: whether lower or higher means more symmetry.
        meaning: one sentence.
    """

    name: str
    formula: str
    unit: str
    better: Literal["lower", "higher"]
    meaning: str


METRICS = Registry[MetricInfo]("metric")
"""All metrics by name."""


def define(name: str, formula: str, unit: str, better: Literal["lower", "higher"], meaning: str) -> MetricInfo:
    """Add a metric to the list."""
    return METRICS.add(name, MetricInfo(name, formula, unit, better, meaning))
