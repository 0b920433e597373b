"""Configurations of the two-dimensional Ising model, labeled by temperature."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from .._image_data import ImageData
from .._registry import register_dataset
from .._split import Split
from ..sources._source import TensorImages

CLASSES = ("below", "critical", "above")
_TEMPERATURES = (2.0, 2.2692, 2.6)
_SIZE, _SWEEPS = 16, 200
_TRAIN, _TEST = 300, 75  # per temperature


@register_dataset(
    "ising",
    about="Spins on a 16 x 16 torus below, at and above the critical temperature.",
    files="none; it is simulated",
)
def ising(folder: Path | None, *, download: bool, seed: int = 0) -> ImageData:
    """Symmetric under turns, mirrors and circular shifts, and under exchange of black and white."""
    generator = torch.Generator().manual_seed(seed)
    train, test = (_split(count, generator) for count in (_TRAIN, _TEST))
    return ImageData("ising", train, test, origin="simulated")


def _split(count: int, generator: torch.Generator) -> Split:
    labels = torch.arange(len(_TEMPERATURES)).repeat_interleave(count)
    beta = 1 / torch.tensor(_TEMPERATURES)[labels]
    spins = _equilibrated(beta, generator)
    order = torch.randperm(len(labels), generator=generator)
    return Split(TensorImages((1 + spins[order, None]) / 2, white=1.0), labels[order], CLASSES)


def _equilibrated(beta: Tensor, generator: torch.Generator) -> Tensor:
    """Heat bath on the two colors of a checkerboard in turn, from random spins; half of the runs start aligned."""
    shape = len(beta), _SIZE, _SIZE
    spins = 2.0 * torch.randint(2, shape, generator=generator) - 1
    aligned = torch.rand(len(beta), generator=generator) < 0.5
    sign = 2.0 * torch.randint(2, (len(beta), 1, 1), generator=generator) - 1
    spins = torch.where(aligned[:, None, None], sign.expand(shape), spins)
    rows, columns = torch.meshgrid(torch.arange(_SIZE), torch.arange(_SIZE), indexing="ij")
    black = (rows + columns) % 2 == 0
    for _ in range(_SWEEPS):
        for color in (black, ~black):
            field = sum(spins.roll(by, axis) for by in (1, -1) for axis in (1, 2))
            up = torch.rand(shape, generator=generator) < torch.sigmoid(2 * beta[:, None, None] * field)
            spins = torch.where(color, 2.0 * up - 1, spins)
    return spins
