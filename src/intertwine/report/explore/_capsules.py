"""The capsules tab: a topographic autoencoder, loaded from a demo or trained on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from ...demo import TurningDigits, load_capsules, save_capsules, train_capsules
from ...errors import InputError
from ...models import TopographicVAE
from ..draw._pixels import gray_pixels
from ._training import UNWATCHED, Training, not_trained

QUICK_STEPS = 1200
_CALLER = "capsules"


class Capsules:
    """The network of the tab in the server.

    Args:
        folder: the folder of a demo, which may have saved its network.
        steps: the number of training steps if there is no network.
        unwatched: training stops if nobody asks about it for this many seconds.
    """

    def __init__(self, folder: Path | None = None, *, steps: int = QUICK_STEPS, unwatched: float = UNWATCHED) -> None:
        self.training = Training("train-capsules", steps=steps, total=steps, unwatched=unwatched)
        saved = load_capsules(folder) if folder is not None else None
        if folder is not None and saved is not None:
            self.training.use(folder, f"from the demo, trained for {saved[1]} steps")

    def state(self) -> dict[str, Any]:
        """Whether there is a network, and the progress of its training."""
        return self.training.state()

    def start(self) -> dict[str, Any]:
        """Start training, unless there is a network or it is being trained."""
        self.training.start()
        return self.state()

    def answer(
        self, digit: int, number: int, capsule: int | None, gone: Callable[[], bool] = lambda: False
    ) -> dict[str, Any]:
        """The result of :func:`rolled`, computed in a separate process."""
        return self.training.ask("roll", {"digit": digit, "number": number, "capsule": capsule}, gone)


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
        raise not_trained(_CALLER)
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
