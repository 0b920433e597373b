"""Position-dependent tables, and the weights that combine K filter banks at each position."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

Sharing = Literal["factorized", "full", "rows", "columns"]
SHARING: tuple[Sharing, ...] = ("factorized", "full", "rows", "columns")
Normalize = Literal["softmax", "norm", "none"]
_SMALLEST = 1e-12  # vectors with a smaller Σ a² are not normalized to length 1


def normalized(logits: Tensor, mode: Normalize, dim: int) -> Tensor:
    """Combining weights from logits a; the banks are along ``dim``.

    ``softmax``: exp(a_k) / Σ exp(a). ``norm``: a_k / √max(Σ a², 1e-12). ``none``: a_k.
    """
    if mode == "softmax":
        return logits.softmax(dim)
    if mode == "norm":
        return logits * logits.square().sum(dim, keepdim=True).clamp_min(_SMALLEST).rsqrt()
    return logits


def logits_of(weights: Tensor, mode: Normalize) -> Tensor:
    """Logits with these combining weights, as closely as the mode allows."""
    if mode == "softmax":
        return weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    return weights


class PlaceTable(nn.Module):
    """a[k, i, j], free or tied: r[k, i] + c[k, j] (``factorized``), or a function of the row or the column only.

    Args:
        channels: the number of values per position.
        size: the numbers of rows and columns.
        sharing: ``factorized``, ``full``, ``rows`` (depends on the row only) or ``columns``.

    >>> table = PlaceTable(4, (5, 6), "factorized")
    >>> table().shape, sum(p.numel() for p in table.parameters())
    (torch.Size([4, 5, 6]), 44)
    """

    def __init__(self, channels: int, size: tuple[int, int], sharing: Sharing) -> None:
        super().__init__()
        self.channels, self.size, self.sharing = channels, size, sharing
        height, width = size
        if sharing == "full":
            self.full = nn.Parameter(torch.zeros(channels, height, width))
        if sharing in ("factorized", "rows"):
            self.rows = nn.Parameter(torch.zeros(channels, height))
        if sharing in ("factorized", "columns"):
            self.columns = nn.Parameter(torch.zeros(channels, width))

    def reset_parameters(self) -> None:
        """Set all values to 0."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self) -> Tensor:
        """The table ``(channels, rows, columns)``."""
        if self.sharing == "full":
            return self.full
        if self.sharing == "factorized":
            return self.rows[:, :, None] + self.columns[:, None, :]
        free = self.rows[:, :, None] if self.sharing == "rows" else self.columns[:, None, :]
        return free.expand(self.channels, *self.size)

    @torch.no_grad()
    def fill_(self, values: Tensor) -> None:
        """Set the same ``values``, one per channel, at every position."""
        share = 0.5 if self.sharing == "factorized" else 1.0
        for parameter in self.parameters():
            parameter.copy_((share * values).reshape(-1, *[1] * (parameter.dim() - 1)).expand_as(parameter))

    @torch.no_grad()
    def randomize_(self) -> None:
        """Draw values uniformly from ±√(6 / n), where n is the number of values per channel."""
        for parameter in self.parameters():
            bound = math.sqrt(6 / parameter[0].numel())
            parameter.uniform_(-bound, bound)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.channels}, {self.size}, {self.sharing}"


def apart_from_mean(table: Tensor) -> Tensor:
    """The table ``(..., rows, columns)`` minus its mean over the places."""
    return table - table.mean((-2, -1), keepdim=True)
