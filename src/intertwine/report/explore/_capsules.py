"""The room of capsules: a topographic autoencoder, read from a demonstration or trained when first asked for."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch

from ...errors import InputError, IntertwineError
from ...experiments import TurningDigits, load_capsules, save_capsules, train_capsules
from ...models import TopographicVAE
from ..draw._pixels import gray_pixels
from ._child import Child, Refused, WorkerFailedError

QUICK_STEPS = 1200
LONGEST_TRAINING = 1800.0
"""Seconds."""

UNWATCHED = 120.0
"""Seconds after which a training ends that no tab asks about. Browsers let tabs in the background ask once a minute."""

_WHO = "capsules"
State = Literal["none", "training", "ready", "failed"]


class Capsules:
    """A network whose capsules can be rolled, as the server knows it: where it lies and how far its training is.

    Args:
        folder: of a demonstration that may have kept its network.
        steps: of training, if it has not.
        unwatched: seconds after which a training ends that nobody asks about.
    """

    def __init__(self, folder: Path | None = None, *, steps: int = QUICK_STEPS, unwatched: float = UNWATCHED) -> None:
        self.steps, self.unwatched = steps, unwatched
        self.folder: Path | None = None
        self._lock = threading.Lock()
        self._state: State = "none"
        self._done, self._note, self._asked = 0, "", time.monotonic()
        self._shape: dict[str, int] = {}
        self._trainer, self._roller = Child(), Child()
        self._place: tempfile.TemporaryDirectory[str] | None = None
        kept = load_capsules(folder) if folder is not None else None
        if kept is not None:
            self._ready(folder, f"that of {folder}, trained for {kept[1]} steps", kept[0])

    def _ready(self, folder: Path | None, note: str, model: TopographicVAE) -> None:
        self.folder, self._state, self._note = folder, "ready", note
        self._shape = {"capsules": model.capsules, "length": model.length}

    def state(self) -> dict[str, Any]:
        """Whether there is a network, and how far its training is."""
        with self._lock:
            self._asked = time.monotonic()
            about = {"state": self._state, "done": self._done, "total": self.steps, "note": self._note}
            return about | self._shape

    def start(self) -> dict[str, Any]:
        """Begin to train in a process of its own, unless there is a network or one is being trained."""
        with self._lock:
            begin = self._state in ("none", "failed")
            if begin:
                self._state, self._done, self._note, self._asked = "training", 0, "", time.monotonic()
        if begin:
            threading.Thread(target=self._train, name="training", daemon=True).start()
        return self.state()

    def stop(self) -> None:
        """End everything that is computed."""
        self._trainer.stop()
        self._roller.stop()
        if self._place is not None:
            self._place.cleanup()

    def _train(self) -> None:
        if self._place is None:
            self._place = tempfile.TemporaryDirectory(prefix="intertwine-", ignore_cleanup_errors=True)
        folder = Path(self._place.name)

        def tell(step: int) -> None:
            with self._lock:
                self._done = step

        def gone() -> bool:
            with self._lock:
                return time.monotonic() - self._asked > self.unwatched

        try:
            self._trainer.ask(
                "train", {"folder": str(folder), "steps": self.steps}, gone=gone, tell=tell, seconds=LONGEST_TRAINING
            )
            kept = load_capsules(folder)
        except ConnectionAbortedError:
            self._failed("ended: no tab was open that asked for it")
        except (Refused, WorkerFailedError, IntertwineError) as error:
            self._failed(str(error))
        else:
            with self._lock:
                if kept is not None:
                    self._ready(folder, f"trained here for {self.steps} steps", kept[0])

    def _failed(self, note: str) -> None:
        with self._lock:
            self._state, self._note = "failed", note

    def answer(
        self, digit: int, number: int, capsule: int | None, gone: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """What :func:`rolled` says, computed in a process of its own."""
        with self._lock:
            folder, note = self.folder, self._note
        if folder is None:
            raise InputError(_WHO, expected="a trained network", got="none yet", fix="Train it first.")
        query = {"folder": str(folder), "digit": digit, "number": number, "capsule": capsule}
        return {**self._roller.ask("roll", query, gone=gone), "note": note}


def train(folder: Path, steps: int, tell: Callable[[int], None]) -> None:
    """Train a network and keep it in the folder."""
    save_capsules(folder, train_capsules(folder / "run", steps=steps, progress=False, told=tell), steps=steps)


@lru_cache(maxsize=1)
def _sequences() -> TurningDigits:
    return TurningDigits()


@lru_cache(maxsize=1)
def _model(folder: Path) -> TopographicVAE:
    kept = load_capsules(folder)
    if kept is None:
        raise InputError(_WHO, expected="a trained network", got="none yet", fix="Train it first.")
    return kept[0]


@torch.no_grad()
def rolled(folder: Path, digit: int, number: int, capsule: int | None) -> dict[str, Any]:
    """A digit that turns, its reconstruction, and the first frame with its capsules rolled by 0, 1, …, length.

    Args:
        folder: where the network lies.
        digit: 0 to 9.
        number: which of its images.
        capsule: the one to roll; all of them together if None.
    """
    model = _model(folder)
    if capsule is not None and not 0 <= capsule < model.capsules:
        raise InputError(_WHO, expected=f"a capsule from 0 to {model.capsules - 1}", got=str(capsule))
    frames = _sequences().of_digit(digit, number=number)
    t = model.latent(frames[None], generator=torch.Generator().manual_seed(0))
    first = t[:, 0]
    moved = []
    for k in range(model.length + 1):
        here = model.moved(first, k % model.length)
        if capsule is not None:
            alone = first.clone()
            alone[:, capsule] = here[:, capsule]
            here = alone
        moved.append(model.pictures(here)[0])
    largest = float(first.abs().max())
    return {
        "digit": digit,
        "size": list(model.image[1:]),
        "capsules": model.capsules,
        "length": model.length,
        "frames": [gray_pixels(each[0]) for each in frames],
        "reconstructed": [gray_pixels(each[0]) for each in model.pictures(t)[0]],
        "rolled": [gray_pixels(each[0]) for each in moved],
        "latent": [[round(float(v) / (largest or 1.0), 4) for v in row] for row in first[0]],
    }
