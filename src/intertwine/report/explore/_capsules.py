"""The capsules tab: a topographic autoencoder, loaded from a demo or trained on request."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch

from ...demo import TurningDigits, load_capsules, save_capsules, train_capsules
from ...errors import InputError, IntertwineError
from ...models import TopographicVAE
from ..draw._pixels import gray_pixels
from ._child import Child, Refused, WorkerFailedError

QUICK_STEPS = 1200
LONGEST_TRAINING = 1800.0
"""Seconds."""

UNWATCHED = 120.0
"""Training stops if no tab asks about it for this many seconds. Browsers let background tabs ask once per minute."""

_CALLER = "capsules"
State = Literal["none", "training", "ready", "failed"]


class Capsules:
    """The state of the network in the server: its folder and the progress of its training.

    Args:
        folder: the folder of a demo, which may have saved its network.
        steps: the number of training steps if there is no network.
        unwatched: training stops if nobody asks about it for this many seconds.
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
        saved = load_capsules(folder) if folder is not None else None
        if saved is not None:
            self._ready(folder, f"from {folder}, trained for {saved[1]} steps", saved[0])

    def _ready(self, folder: Path | None, note: str, model: TopographicVAE) -> None:
        self.folder, self._state, self._note = folder, "ready", note
        self._shape = {"capsules": model.capsules, "length": model.length}

    def state(self) -> dict[str, Any]:
        """Whether there is a network, and the progress of its training."""
        with self._lock:
            self._asked = time.monotonic()
            about = {"state": self._state, "done": self._done, "total": self.steps, "note": self._note}
            return about | self._shape

    def start(self) -> dict[str, Any]:
        """Start training in a separate process, unless there is a network or it is being trained."""
        with self._lock:
            must_train = self._state in ("none", "failed")
            if must_train:
                self._state, self._done, self._note, self._asked = "training", 0, "", time.monotonic()
        if must_train:
            threading.Thread(target=self._train, name="training", daemon=True).start()
        return self.state()

    def stop(self) -> None:
        """Stop all computations."""
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
            saved = load_capsules(folder)
        except ConnectionAbortedError:
            self._failed("stopped, because no tab was asking for it")
        except (Refused, WorkerFailedError, IntertwineError) as error:
            self._failed(str(error))
        else:
            with self._lock:
                if saved is not None:
                    self._ready(folder, f"trained here for {self.steps} steps", saved[0])

    def _failed(self, note: str) -> None:
        with self._lock:
            self._state, self._note = "failed", note

    def answer(
        self, digit: int, number: int, capsule: int | None, gone: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """The result of :func:`rolled`, computed in a separate process."""
        with self._lock:
            folder, note = self.folder, self._note
        if folder is None:
            raise InputError(_CALLER, expected="a trained network", got="none yet", fix="Train it first.")
        query = {"folder": str(folder), "digit": digit, "number": number, "capsule": capsule}
        return {**self._roller.ask("roll", query, gone=gone), "note": note}


def train(folder: Path, steps: int, tell: Callable[[int], None]) -> None:
    """Train a network and save it in the folder."""
    save_capsules(folder, train_capsules(folder / "run", steps=steps, progress=False, on_step=tell), steps=steps)


@lru_cache(maxsize=1)
def _sequences() -> TurningDigits:
    return TurningDigits()


@lru_cache(maxsize=1)
def _model(folder: Path) -> TopographicVAE:
    saved = load_capsules(folder)
    if saved is None:
        raise InputError(_CALLER, expected="a trained network", got="none yet", fix="Train it first.")
    return saved[0]


@torch.no_grad()
def rolled(folder: Path, digit: int, number: int, capsule: int | None) -> dict[str, Any]:
    """A turning digit, its reconstruction, and the first frame with capsules rolled by 0, 1, …, length.

    Args:
        folder: the folder of the network.
        digit: 0 to 9.
        number: the number of the image.
        capsule: the capsule to roll; None for all of them.
    """
    model = _model(folder)
    if capsule is not None and not 0 <= capsule < model.capsules:
        raise InputError(_CALLER, expected=f"a capsule from 0 to {model.capsules - 1}", got=str(capsule))
    frames = _sequences().of_digit(digit, number=number)
    t = model.latent(frames[None], generator=torch.Generator().manual_seed(0))
    first = t[:, 0]
    moved = []
    for k in range(model.length + 1):
        latent = model.moved(first, k % model.length)
        if capsule is not None:
            only = first.clone()
            only[:, capsule] = latent[:, capsule]
            latent = only
        moved.append(model.pictures(latent)[0])
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
