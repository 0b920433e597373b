"""Averages of the numbers of the steps since the last row of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ._runtime import Runtime


class Window:
    """Sums of values, weighted by samples, of this process; :meth:`settle` brings those of all together in process 0.

    >>> window = Window()
    >>> window.add({"loss": 1.0}, 2)
    >>> window.add({"loss": 4.0}, 1)
    >>> window.means()
    {'loss': 2.0}
    """

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.weight = 0

    def add(self, values: Mapping[str, float], weight: int) -> None:
        """Take in the values of one batch."""
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * weight
        self.weight += weight

    def settle(self, runtime: Runtime) -> None:
        """Move everything to process 0. All processes must call this at the same step."""
        if runtime.world == 1:
            return
        mine = torch.tensor([*self.sums.values(), self.weight], dtype=torch.float64)
        *sums, weight = runtime.total(mine).tolist()
        here = runtime.rank == 0
        self.sums = {name: value if here else 0.0 for name, value in zip(self.sums, sums, strict=True)}
        self.weight = round(weight) if here else 0

    def means(self) -> dict[str, float]:
        """The averages."""
        return {name: value / max(1, self.weight) for name, value in self.sums.items()}

    def clear(self) -> None:
        """Start over; the names stay, so that all processes keep the same ones."""
        self.sums = dict.fromkeys(self.sums, 0.0)
        self.weight = 0

    def state(self) -> dict[str, Any]:
        """JSON values from which :meth:`restore` continues."""
        return {"sums": self.sums, "weight": self.weight}

    def restore(self, state: Mapping[str, Any], rank: int) -> None:
        """Continue from a saved window; what was saved belongs to process 0."""
        self.sums = {name: value if rank == 0 else 0.0 for name, value in state["sums"].items()}
        self.weight = state["weight"] if rank == 0 else 0
