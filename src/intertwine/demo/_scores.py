"""What the demo measures: one network, or one way to predict, over several seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from .._checked import checked


@checked
@dataclass(frozen=True)
class Scores:
    """The numbers of one row of the demo, one value per seed.

    Attributes:
        name: its name on the page.
        about: one sentence about it.
        weights: the number of weights of the network; 0 if there is none.
        values: metric → one value per seed.

    >>> row = Scores("plain", "no symmetry", 100, {"upright": (0.9, 0.94)})
    >>> row.mean("upright"), row.range("upright")
    (0.92, (0.9, 0.94))
    """

    name: str
    about: str
    weights: int
    values: Mapping[str, tuple[float, ...]]

    @checked
    def mean(self, metric: str) -> float:
        """The mean over the seeds."""
        return round(fmean(self.values[metric]), 12)

    @checked
    def range(self, metric: str) -> tuple[float, float]:
        """The lowest and the highest value."""
        return min(self.values[metric]), max(self.values[metric])

    @checked
    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        metrics = {name: {"mean": self.mean(name), "values": list(values)} for name, values in self.values.items()}
        return {"about": self.about, "weights": self.weights, **metrics}


def over_seeds(rows: Iterable[Scores]) -> list[Scores]:
    """Rows of the same name as one row; they stay in the order of the first seed."""
    merged: dict[str, Scores] = {}
    for row in rows:
        before = merged.get(row.name)
        values = {name: (*before.values[name], *new) for name, new in row.values.items()} if before else row.values
        merged[row.name] = Scores(row.name, row.about, row.weights, values)
    return list(merged.values())
