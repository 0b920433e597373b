"""The part of a finished run that a report reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...experiments import FinishedRun


class RunSummary(FinishedRun, Protocol):
    """The part of a finished run that a report reads."""

    @property
    def history(self) -> Sequence[Mapping[str, float]]:
        """Its log by ``step``: ``loss`` or ``train_loss``, metrics in their own units, ``val_...``."""

    @property
    def seconds(self) -> float:
        """Its duration."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Versions and machine."""
