"""What is measured: one list with the formula, the unit and the direction of each metric."""

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
        name: the function that measures it, and the key in files.
        formula: of one sample's value.
        unit: empty for a pure number.
        better: the direction of more symmetry.
        meaning: in one sentence.
    """

    name: str
    formula: str
    unit: str
    better: Literal["lower", "higher"]
    meaning: str


METRICS = Registry[MetricInfo]("metric")
"""All metrics by name."""


def define(name: str, formula: str, unit: str, better: Literal["lower", "higher"], meaning: str) -> MetricInfo:
    """Enter a metric in the list."""
    return METRICS.add(name, MetricInfo(name, formula, unit, better, meaning))
