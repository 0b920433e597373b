"""The weights with the best validation accuracy, kept beside a run while it trains, and early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._files import replace_file
from ..._untrusted import read_tensors

_SCORE = "validation score"


class EnoughError(Exception):
    """Raised to end a training that has not improved for too long."""


class BestWeights:
    """Keeps the weights with the highest accuracy on validation images; of equals, those with the lower loss.

    A logger of :func:`~intertwine.train.fit`, which reports every validation to it. It keeps the weights in a file,
    with atomic writes, so that an interrupted run still has them when it resumes.

    Args:
        model: whose weights are kept.
        path: the file.
        metric: the name under which the accuracy is logged.
        patience: epochs without improvement after which :class:`EnoughError` is raised; None never stops.
    """

    def __init__(self, model: nn.Module, path: Path, *, metric: str, patience: int | None) -> None:
        self.model, self.path, self.metric, self.patience = model, path, metric, patience

    def rewind(self, step: int) -> None:
        """A continued run repeats its steps exactly, so what was kept of later ones stays right."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Keep the weights if this validation is the best one, or count the epochs since that one."""
        if row["split"] != "val":
            return
        kept = self._read()
        score = float(row[self.metric]), -float(row["val_loss"])
        best = (-1.0, 0.0, 0.0) if kept is None else tuple(kept[_SCORE].tolist())
        if score > best[:2]:
            self._write(torch.tensor([*score, float(row["epoch"])], dtype=torch.float64))
        elif self.patience is not None and row["epoch"] - best[2] >= self.patience:
            raise EnoughError

    def close(self) -> None:
        """Nothing is held back."""

    def restore(self) -> float:
        """Put the kept weights back into the model, and return their accuracy."""
        kept = self._read() or {}
        score = kept.pop(_SCORE)
        self.model.load_state_dict(kept)
        return float(score[0])

    def _read(self) -> dict[str, Tensor] | None:
        return read_tensors(self.path) if self.path.exists() else None

    def _write(self, score: Tensor) -> None:
        from safetensors.torch import save

        state = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, save({**state, _SCORE: score}))
