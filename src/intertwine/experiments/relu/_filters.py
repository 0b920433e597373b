"""Filters next to their matched partners: arrays that a run saves, and figures of them.

Filters of the first layer are pictures of three colors. Those of the second layer have one channel per filter of the
first; the same random projection to three colors shows them and their partners.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ..._figures import Figure, Panel, Panels
from ...measure import Matching
from ...measure.surgery import filter_pairs
from ..lab._arrays import load_arrays, save_arrays
from ..lab._experiment import FinishedRun

_SHOWN = 64
_IN_A_ROW = 16
_LAYERS = ("first", "second")


def keep_filters(folder: Path, model: nn.Module, matching: Matching, **more: Tensor) -> None:
    """Save the filters of the first two layers, their partners, and further arrays in a run's folder."""
    names = [name for name, p in model.named_parameters() if p.dim() == 4 and min(p.shape[2:]) > 1][:2]
    arrays: dict[str, Tensor] = dict(more)
    for layer, name in zip(_LAYERS, names, strict=False):
        for key, filters in zip(("filters", "moved"), filter_pairs(model, matching, name), strict=True):
            arrays[f"{layer}/{key}"] = in_colors(filters)[:_SHOWN]
    save_arrays(folder, arrays)


def in_colors(filters: Tensor) -> Tensor:
    """Filters ``(n, 3, height, width)`` as they are, gray ones as gray, others by a random projection to three colors.

    The projection depends on the number of channels only, so filters and their partners get the same.
    """
    channels = filters.shape[1]
    if channels in (1, 3):
        return filters.expand(-1, 3, -1, -1)
    projection = torch.randn(3, channels, generator=torch.Generator().manual_seed(0)) / channels**0.5
    return torch.einsum("rc,nchw->nrhw", projection.to(filters), filters)


def filter_figures(runs: Sequence[FinishedRun], row: str, title: str) -> list[Figure]:
    """Filters and their partners in the first two layers, of the first seed of a row."""
    row_runs = sorted((run for run in runs if run.row == row), key=lambda run: run.seed)
    arrays = load_arrays(row_runs[0].folder) if row_runs else {}
    captions = {
        "first": "In a group-convolutional network each filter equals the mirrored and matched one below it.",
        "second": "Channels are projected to three colors at random, the same way for both.",
    }
    return [
        Panels(
            f"{title}: filters of the {layer} layer",
            _lines(arrays[f"{layer}/filters"], arrays[f"{layer}/moved"]),
            "gray",
            captions[layer],
        )
        for layer in _LAYERS
        if f"{layer}/filters" in arrays
    ]


def _lines(filters: Tensor, moved: Tensor) -> list[tuple[str, list[Panel]]]:
    top = float(torch.maximum(filters.abs().max(), moved.abs().max())) or 1.0
    lines = []
    for start in range(0, len(filters), _IN_A_ROW):
        for label, kernels in (("filters", filters), ("mirrored, matched", moved)):
            part = kernels[start : start + _IN_A_ROW]
            lines.append((label, [Panel((0.5 + 0.5 * kernel / top).clamp(0, 1)) for kernel in part]))
    return lines
