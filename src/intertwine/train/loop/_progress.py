"""A bar with the time left, on a terminal."""

from __future__ import annotations

import time
from typing import Any

_REFRESH_SECONDS = 0.5


class Progress:
    """Draws the bar at most twice a second, without a thread; silent unless on a terminal.

    Args:
        total: number of steps.
        done: steps already done when the run begins.
        wanted: False never draws; None and True draw if standard error is a terminal.
    """

    def __init__(self, total: int, done: int, wanted: bool | None) -> None:
        self._bar: Any = None
        self._next = 0.0
        self._total, self._done, self._wanted = total, done, wanted

    def __enter__(self) -> Progress:
        if self._wanted is not False:
            from rich.console import Console

            console = Console(stderr=True)
            if console.is_terminal:
                self._start(console)
        return self

    def _start(self, console: Any) -> None:
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("{task.fields[text]}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=self._total, completed=self._done, text="")
        self._bar.start()

    def update(self, step: int, epoch: int, loss: float) -> None:
        """Say how far the run is."""
        if self._bar is None or ((now := time.monotonic()) < self._next and step < self._total):
            return
        self._next = now + _REFRESH_SECONDS
        self._bar.update(self._task, completed=step, text=f"epoch {epoch}  loss {loss:.4g}", refresh=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
