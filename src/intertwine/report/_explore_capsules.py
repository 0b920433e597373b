"""The room of capsules: a topographic autoencoder, read from a demonstration or trained when first asked for."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any, Literal

import torch

from ..errors import InputError, IntertwineError
from ..experiments import TurningDigits, load_capsules, train_capsules
from ..models import TopographicVAE
from ._pixels import gray_pixels

QUICK_STEPS = 1200
_WHO = "capsules"
State = Literal["none", "training", "ready", "failed"]


class Capsules:
    """A network whose capsules can be rolled.

    Args:
        folder: of a demonstration that may have kept its network.
        steps: of training, if it has not.
    """

    def __init__(self, folder: Path | None = None, *, steps: int = QUICK_STEPS) -> None:
        self.steps = steps
        self._lock = threading.Lock()
        self._state: State = "none"
        self._done, self._note = 0, ""
        self._model: TopographicVAE | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._sequences: TurningDigits | None = None
        kept = load_capsules(folder) if folder is not None else None
        if kept is not None:
            self._model, trained = kept
            self._state, self._note = "ready", f"that of {folder}, trained for {trained} steps"

    def state(self) -> dict[str, Any]:
        """Whether there is a network, and how far its training is."""
        with self._lock:
            about: dict[str, Any] = {"state": self._state, "done": self._done, "total": self.steps, "note": self._note}
            if self._model is not None:
                about |= {"capsules": self._model.capsules, "length": self._model.length}
            return about

    def start(self) -> dict[str, Any]:
        """Begin to train in the background, unless there is a network or one is being trained."""
        with self._lock:
            begin = self._state in ("none", "failed")
            if begin:
                self._state, self._done, self._note = "training", 0, ""
        if begin:
            self._thread = threading.Thread(target=self._train, name="training", daemon=True)
            self._thread.start()
        return self.state()

    def stop(self) -> None:
        """End a training, and wait for that: a process that ends while torch computes in a thread is aborted."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _train(self) -> None:
        def told(step: int) -> None:
            if self._stopped.is_set():
                raise InterruptedError("stopped")
            with self._lock:
                self._done = step

        try:
            with tempfile.TemporaryDirectory(prefix="intertwine-") as folder:
                model = train_capsules(Path(folder), steps=self.steps, progress=False, told=told)
        except BaseException as error:  # whatever it is, the page must say so instead of waiting for ever
            with self._lock:
                known = isinstance(error, IntertwineError)
                self._state, self._note = "failed", str(error) if known else f"{type(error).__name__}: {error}"
            return
        with self._lock:
            self._model, self._state = model, "ready"
            self._note = f"trained here for {self.steps} steps"

    @torch.no_grad()
    def answer(self, digit: int, number: int, capsule: int | None) -> dict[str, Any]:
        """A digit that turns, its reconstruction, and the first frame with its capsules rolled by 0, 1, …, length.

        Args:
            digit: 0 to 9.
            number: which of its images.
            capsule: the one to roll; all of them together if None.
        """
        with self._lock:
            model = self._model
        if model is None:
            raise InputError(_WHO, expected="a trained network", got="none yet", fix="Train it first.")
        if capsule is not None and not 0 <= capsule < model.capsules:
            raise InputError(
                _WHO, expected=f"a capsule from 0 to {model.capsules - 1}", got=str(capsule), fix="Choose one."
            )
        if self._sequences is None:
            self._sequences = TurningDigits()
        frames = self._sequences.of_digit(digit, number=number)
        t = model.latent(frames[None], generator=torch.Generator().manual_seed(0))
        first = t[:, 0]
        rolled = []
        for k in range(model.length + 1):
            here = first.roll(k, -1)
            if capsule is not None:
                here = first.clone()
                here[:, capsule] = first[:, capsule].roll(k, -1)
            rolled.append(model.pictures(here)[0])
        largest = float(first.abs().max())
        return {
            "digit": digit,
            "size": list(model.image[1:]),
            "capsules": model.capsules,
            "length": model.length,
            "frames": [gray_pixels(each[0]) for each in frames],
            "reconstructed": [gray_pixels(each[0]) for each in model.pictures(t)[0]],
            "rolled": [gray_pixels(each[0]) for each in rolled],
            "latent": [[round(float(v) / (largest or 1.0), 4) for v in row] for row in first[0]],
            "note": self._note,
        }
