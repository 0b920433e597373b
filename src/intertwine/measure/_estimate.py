"""Estimates: one value per sample, their mean, a confidence interval, and what resampling alone contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .._checked import checked

RESAMPLES = 1000
LEVEL = 0.95


@checked
@dataclass(frozen=True, eq=False)
class Estimate:
    """The mean of per-sample values with a bootstrap interval.

    Attributes:
        metric: the name of a metric in ``METRICS``.
        values: one number per sample, float64.
        floor: what a network with the exact symmetry would get from the same transformation of the same images. This
            is the contribution of interpolation and rounding. None if nothing is resampled.
        of: the name of the transformation, for tables.

    >>> Estimate("invariance_error", torch.tensor([0.1, 0.3]))
    0.2 [0.1, 0.3] (invariance_error, n = 2)
    """

    metric: str
    values: Tensor
    floor: Estimate | None = None
    of: str = ""

    @property
    def mean(self) -> float:
        """The mean over samples."""
        return float(self.values.double().mean())

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.values)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the mean; for a single sample, the mean itself.

        Samples are drawn with replacement 1000 times, always with the same seed.
        """
        values = self.values.double().cpu()
        generator = torch.Generator().manual_seed(0)
        size = max(1, (1 << 22) // self.n)  # a few megabytes at a time
        means = []
        for start in range(0, RESAMPLES, size):
            count = min(size, RESAMPLES - start)
            means.append(values[torch.randint(self.n, (count, self.n), generator=generator)].mean(1))
        tail = (1 - LEVEL) / 2
        low, high = torch.cat(means).quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        low, high = self.interval
        fields: dict[str, Any] = {
            "metric": self.metric,
            "of": self.of,
            "mean": self.mean,
            "low": low,
            "high": high,
            "n": self.n,
        }
        return fields if self.floor is None else {**fields, "floor": self.floor.mean}

    def __float__(self) -> float:
        return self.mean

    def __repr__(self) -> str:
        low, high = self.interval
        floor = "" if self.floor is None else f", floor {self.floor.mean:.3g}"
        return f"{self.mean:.3g} [{low:.3g}, {high:.3g}] ({self.metric}, n = {self.n}{floor})"


def estimate(metric: str, pieces: Sequence[Tensor], *, floor: Sequence[Tensor] | None = None, of: str = "") -> Estimate:
    """Make an estimate from the values of several batches."""
    below = None if floor is None else Estimate(metric, torch.cat(list(floor)).double().cpu(), of=f"floor of {of}")
    return Estimate(metric, torch.cat(list(pieces)).double().cpu(), below, of)
