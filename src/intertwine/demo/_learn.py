"""Learn: a topographic autoencoder of turning digits; training, saving, loading, and what rolled capsules predict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from .._checked import checked
from .._files import replace_file
from .._untrusted import read_json, read_tensors
from ..data import DigitMotion, load
from ..errors import InputError
from ..models import TopographicVAE
from ..train import TrainConfig, deterministic_loader, fit, seed_all
from ._digits import SIZE
from ._scores import Scores

FRAMES = 9
STEPS = 800
DIVERGENCE = 0.003  # weight of the divergence; below 1, short training gives sharper images
CAPSULES = 12
_WEIGHTS, _ABOUT = "capsules.safetensors", "capsules.json"
_CALLER = "capsules"


class _Steps:
    """A logger that passes on the number of steps done."""

    def __init__(self, on_step: Callable[[int], object]) -> None:
        self._on_step = on_step

    def rewind(self, step: int) -> None:
        self._on_step(step)

    def write(self, row: Mapping[str, Any]) -> None:
        self._on_step(int(row["step"]))

    def close(self) -> None:
        pass


class TurningDigits(Dataset[tuple[Tensor, Tensor]]):
    """Embedded digits that make a full turn in nine frames, from any starting angle; pixels in [0, 1].

    An item is ``(frames, 1, height, width)`` and the digit.

    Args:
        part: the training or the test digits.
    """

    @checked
    def __init__(self, part: Literal["train", "test"] = "train") -> None:
        # Classifiers take normalized images, but here pixels must be probabilities.
        split = replace(getattr(load("digits", size=SIZE), part), normalization=None)
        images, self.labels = split.as_tensors()
        motion = DigitMotion(frames=FRAMES, mode="dual", color=False)
        # Rotate once here, not at every training step, and all images at once, as if they were channels of one.
        frames, about = motion(images.flatten(0, 1), torch.Generator().manual_seed(0))
        self.upright = frames.roll(int(about[0, 1]), 0).transpose(0, 1).unsqueeze(2).contiguous()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.upright[index], self.labels[index]

    def getitem_seeded(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The sequence of this image, starting at a random angle."""
        start = int(torch.randint(FRAMES, (), generator=generator))
        return self.upright[index].roll(-start, 0), self.labels[index]

    def of_digit(self, digit: int, *, number: int = 0) -> Tensor:
        """The sequence of an image of this digit, starting upright; ``number`` chooses the image.

        >>> TurningDigits().of_digit(3).shape
        torch.Size([9, 1, 16, 16])
        """
        indices = (self.labels == digit).nonzero().flatten().tolist()
        if not 0 <= number < len(indices):
            raise InputError(
                _CALLER,
                expected=f"a digit from 0 to 9, and an image number below {len(indices)}"
                if indices
                else "a digit from 0 to 9",
                got=f"number {number} of digit {digit}",
            )
        return self.upright[indices[number]]


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    out = model(batch[0])
    return -(out.likelihood - DIVERGENCE * out.kl).mean()


@checked
def train_capsules(
    folder: Path,
    *,
    steps: int = STEPS,
    seed: int = 0,
    progress: bool | None = None,
    on_step: Callable[[int], object] | None = None,
) -> TopographicVAE:
    """Train on turning digits: maximize log p(x|t) − 0.003 KL, the bound with a lighter divergence.

    If the folder has a finished run, load it.

    Args:
        folder: the folder of the run.
        steps: the number of training steps, with 16 sequences each.
        seed: the seed of the weights and of the order of the sequences.
        progress: whether to draw a progress bar.
        on_step: called every few steps with the number of steps done.
    """
    seed_all(seed)
    sequences = TurningDigits()
    model = TopographicVAE((1, SIZE, SIZE), capsules=CAPSULES, length=FRAMES, window=FRAMES)
    fit(
        model,
        _loss,
        deterministic_loader(sequences, 16, seed=seed, shuffle=True),
        TrainConfig(max_steps=steps, batch_size=16, optimizer="adam", lr=3e-3, schedule="cosine", log_every=20),
        folder=folder,
        loggers=() if on_step is None else (_Steps(on_step),),
        progress=progress,
    )
    return model.eval()


def predictions(model: TopographicVAE) -> list[Scores]:
    """How well rolled capsules of the first frame predict the frames of test digits, beside nulls and a limit.

    Errors are mean squares, relative to the variance of the frames: 1 is the error of the mean image.
    """
    frames = TurningDigits("test").upright
    with torch.no_grad():
        t = model.latent(frames, generator=torch.Generator().manual_seed(0))
        rolled = model.traverse(t[:, 0])
        decoded = torch.stack([model.traverse(t[:, k])[:, 0] for k in range(FRAMES)], 1)
    backward = rolled.roll(-1, 1).flip(1)
    ways = {
        "rolled": ("the capsules of the first frame, rolled by one place per frame", rolled),
        "null: rolled backward": ("the same in the wrong direction", backward),
        "null: not rolled": ("the first frame stays as it is", rolled[:, :1].expand_as(frames)),
        "limit: sees each frame": ("each frame is encoded and decoded by itself", decoded),
    }
    variance = (frames - frames.mean((0, 1))).square().mean()
    return [
        Scores(name, about, 0, {"error": (float((guess - frames).square().mean() / variance),)})
        for name, (about, guess) in ways.items()
    ]


@checked
def save_capsules(folder: Path, model: TopographicVAE, *, steps: int) -> None:
    """Save the network as ``capsules.safetensors`` with ``capsules.json``, each with an atomic write."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    replace_file(folder / _WEIGHTS, save(weights))
    about = {
        "schema": 1,
        "image": list(model.image),
        "capsules": model.capsules,
        "length": model.length,
        "window": model.length,
        "steps": steps,
    }
    replace_file(folder / _ABOUT, (json.dumps(about, indent=2) + "\n").encode())


@checked
def load_capsules(folder: Path) -> tuple[TopographicVAE, int] | None:
    """The network that :func:`save_capsules` saved in a folder, and its steps; None if there is none.

    >>> load_capsules(Path("no-such-folder"))
    """
    if not (folder / _ABOUT).is_file():
        return None
    try:
        about = read_json(folder / _ABOUT)
        if about["schema"] != 1:
            raise ValueError(f"schema {about['schema']}")
        image = tuple(int(n) for n in about["image"])
        model = TopographicVAE(
            image,  # type: ignore[arg-type]
            capsules=int(about["capsules"]),
            length=int(about["length"]),
            window=int(about["window"]),
        )
        model.load_state_dict(read_tensors(folder / _WEIGHTS))
        return model.eval(), int(about["steps"])
    except (KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise InputError(
            str(folder / _ABOUT),
            expected="the network of a demo, with capsules.safetensors next to it",
            got=" ".join(str(error).split())[:200] or type(error).__name__,
            fix="Run 'intertwine demo' again.",
        ) from error
