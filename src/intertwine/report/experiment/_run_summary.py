"""What a report reads of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...experiments import FinishedRun


class RunSummary(FinishedRun, Protocol):
    """A finished run, as far as a report reads it."""

    @property
    def history(self) -> Sequence[Mapping[str, float]]:
        """What it logged at which ``step``: ``loss`` or ``train_loss``, metrics in their own units, ``val_...``."""

    @property
    def seconds(self) -> float:
        """How long it took."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Versions and machine."""
