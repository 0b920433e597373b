"""Estimates: one value per sample, their mean, a confidence interval, and what resampling alone contributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .._checked import checked

RESAMPLES = 1000
LEVEL = 0.95
TAILS = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)


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
        return _intervals(self.values[None])[0]

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


def resample_together(estimates: Iterable[Estimate]) -> None:
    """Compute the intervals of several estimates: those that each would have alone, with draws that are made once."""
    by_size: dict[int, list[Estimate]] = {}
    for each in estimates:
        by_size.setdefault(each.n, []).append(each)
    for same in by_size.values():
        for each, interval in zip(same, _intervals(torch.stack([each.values for each in same])), strict=True):
            vars(each)["interval"] = interval  # where a cached property keeps its value


def _intervals(values: Tensor) -> list[tuple[float, float]]:
    """The bootstrap interval of the mean of each row."""
    low, high = resampled_means(values).quantile(TAILS, dim=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def resampled_means(values: Tensor) -> Tensor:
    """The mean of each row over samples drawn with replacement, the same samples for all rows: one column per row.

    Samples are drawn 1000 times, always with the same seed.

    >>> resampled_means(torch.ones(2, 5)).shape
    torch.Size([1000, 2])
    """
    values = values.double().cpu()
    n = values.shape[1]
    generator = torch.Generator().manual_seed(0)
    size = max(1, (1 << 20) // n)  # a few megabytes at a time
    means = []
    for start in range(0, RESAMPLES, size):
        rows = torch.randint(n, (min(size, RESAMPLES - start), n), generator=generator)
        # How often each sample was drawn; then all means are one product of matrices.
        drawn = torch.zeros(rows.shape, dtype=torch.float64).scatter_add_(1, rows, values.new_ones(()).expand_as(rows))
        means.append(drawn @ values.T / n)
    return torch.cat(means)
