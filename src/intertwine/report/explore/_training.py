"""Networks that a tab trains on request: in a separate process, with progress, into a folder of the server's own."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ...errors import InputError, IntertwineError
from ._child import Child, Refused, WorkerFailedError
from ._paths import without_paths

LONGEST_TRAINING = 1800.0
"""Seconds."""

UNWATCHED = 120.0
"""Training stops if no tab asks about it for this many seconds. Browsers let background tabs ask once per minute."""

State = Literal["none", "training", "ready", "failed"]


class Training:
    """The state of a tab's networks in the server: their folder and the progress of their training.

    Args:
        task: the worker's task that trains the networks and saves them in a folder.
        steps: the number of training steps that the task is asked for.
        total: the number of steps that it reports when it is done.
        unwatched: training stops if nobody asks about it for this many seconds.
    """

    def __init__(self, task: str, *, steps: int, total: int, unwatched: float = UNWATCHED) -> None:
        self.task, self.steps, self.total, self.unwatched = task, steps, total, unwatched
        self.trainer, self.answerer = Child(), Child()
        self.place: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._state: State = "none"
        self._done, self._note, self._asked = 0, "", time.monotonic()

    def use(self, folder: Path, note: str) -> None:
        """Use the networks in a folder; ``note`` says where they come from."""
        with self._lock:
            self._folder, self._state, self._note = folder, "ready", note

    def state(self) -> dict[str, Any]:
        """Whether there are networks, and the progress of their training."""
        with self._lock:
            self._asked = time.monotonic()
            return {"state": self._state, "done": self._done, "total": self.total, "note": self._note}

    def start(self) -> None:
        """Start training in a separate process, unless there are networks or they are being trained."""
        with self._lock:
            must_train = self._state in ("none", "failed")
            if must_train:
                self._state, self._done, self._note, self._asked = "training", 0, "", time.monotonic()
        if must_train:
            threading.Thread(target=self._train, name="training", daemon=True).start()

    def stop(self) -> None:
        """Stop all computations and delete the networks trained here."""
        self.trainer.stop()
        self.answerer.stop()
        if self.place is not None:
            self.place.cleanup()

    def ask(self, do: str, arguments: dict[str, Any], gone: Callable[[], bool]) -> dict[str, Any]:
        """The answer of a task that uses the networks, and the note about them."""
        with self._lock:
            folder, note = self._folder, self._note
        if folder is None:
            raise not_trained(self.task)
        return {**self.answerer.ask(do, {"folder": str(folder), **arguments}, gone=gone), "note": note}

    def _train(self) -> None:
        if self.place is None:
            self.place = tempfile.TemporaryDirectory(prefix="intertwine-", ignore_cleanup_errors=True)
        folder = Path(self.place.name)

        def tell(step: int) -> None:
            with self._lock:
                self._done = step

        def gone() -> bool:
            with self._lock:
                return time.monotonic() - self._asked > self.unwatched

        try:
            arguments = {"folder": str(folder), "steps": self.steps}
            self.trainer.ask(self.task, arguments, gone=gone, tell=tell, seconds=LONGEST_TRAINING)
        except ConnectionAbortedError:
            self._failed("stopped, because no tab was asking for it")
        except (Refused, WorkerFailedError, IntertwineError) as error:
            self._failed(without_paths(str(error)))
        else:
            self.use(folder, f"trained here for {self.steps} steps")

    def _failed(self, note: str) -> None:
        with self._lock:
            self._state, self._note = "failed", note


def not_trained(caller: str) -> InputError:
    """The error of a request that comes before the training."""
    return InputError(caller, expected="a trained network", got="none yet", fix="Train it first.")
