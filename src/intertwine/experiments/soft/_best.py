"""Early stopping, and the weights with the best validation accuracy, saved while a run trains."""

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
    """Raised to stop training that has not improved for too long."""


class BestWeights:
    """Saves the weights with the highest accuracy on validation images; the lower loss breaks ties.

    A logger for :func:`~intertwine.train.fit`, which reports every validation to it. The weights are in a file with
    atomic writes, so an interrupted run still has them when it resumes.

    Args:
        model: the model whose weights are saved.
        path: the file.
        metric: the name of the logged accuracy.
        patience: the number of epochs without improvement before :class:`EnoughError` is raised; None never stops.
    """

    def __init__(self, model: nn.Module, path: Path, *, metric: str, patience: int | None) -> None:
        self.model, self.path, self.metric, self.patience = model, path, metric, patience

    def rewind(self, step: int) -> None:
        """Nothing to undo: a resumed run repeats its steps exactly, so the saved weights stay valid."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Save the weights if this validation is the best one; otherwise check the epochs since the best."""
        if row["split"] != "val":
            return
        saved = self._read()
        score = float(row[self.metric]), -float(row["val_loss"])
        best = (-1.0, 0.0, 0.0) if saved is None else tuple(saved[_SCORE].tolist())
        if score > best[:2]:
            self._write(torch.tensor([*score, float(row["epoch"])], dtype=torch.float64))
        elif self.patience is not None and row["epoch"] - best[2] >= self.patience:
            raise EnoughError

    def close(self) -> None:
        """Nothing to flush."""

    def restore(self) -> float:
        """Load the saved weights into the model, and return their accuracy."""
        saved = self._read() or {}
        score = saved.pop(_SCORE)
        self.model.load_state_dict(saved)
        return float(score[0])

    def _read(self) -> dict[str, Tensor] | None:
        return read_tensors(self.path) if self.path.exists() else None

    def _write(self, score: Tensor) -> None:
        from safetensors.torch import save

        state = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, save({**state, _SCORE: score}))
