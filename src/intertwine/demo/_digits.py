"""The embedded digits, in the poses that the demo needs, and how its classifiers train on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ..data import load
from ..train import TrainConfig, deterministic_loader, fit

SIZE = 16
SIX, NINE = 6, 9
BATCH = 64

Labeled = tuple[Tensor, Tensor]


def digits() -> tuple[Labeled, Labeled]:
    """Normalized images and labels for training and for testing, all upright."""
    data = load("digits", size=SIZE).normalized()
    return data.train.as_tensors(), data.test.as_tensors()


def turned(images: Tensor, turns: Tensor) -> Tensor:
    """Images turned by their own number of quarter turns."""
    return torch.stack([image.rot90(int(k), (1, 2)) for image, k in zip(images, turns, strict=True)])


def in_any_pose(images: Tensor, *, seed: int) -> Tensor:
    """Images turned at random by quarter turns."""
    return turned(images, torch.randint(4, (len(images),), generator=torch.Generator().manual_seed(seed)))


def with_six_and_nine(data: Labeled, *, seed: int) -> Tensor:
    """Digits in any pose, but the sixes stand upright and every nine is a six upside down.

    So quarter turns are a symmetry of eight classes, and a half turn exchanges the other two.
    """
    images, labels = data
    generator = torch.Generator().manual_seed(seed)
    sixes, nines = images[labels == SIX], labels == NINE
    images = images.clone()
    images[nines] = sixes[torch.randint(len(sixes), (int(nines.sum()),), generator=generator)].rot90(2, (2, 3))
    turns = torch.randint(4, (len(images),), generator=generator)
    turns[(labels == SIX) | nines] = 0
    return turned(images, turns)


def loss(model: nn.Module, batch: Labeled) -> Tensor:
    """The cross entropy of the labels."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def train(
    model: nn.Module, data: Dataset[Any], folder: Path, *, epochs: int, seed: int, progress: bool, lr: float = 1e-2
) -> nn.Module:
    """Train a classifier, or load it if its run is finished; every classifier of the demo trains in this way."""
    config = TrainConfig(
        epochs=epochs, batch_size=BATCH, optimizer="adam", lr=lr, schedule="cosine", log_every=10, checkpoint_every=100
    )
    fit(
        model,
        loss,
        deterministic_loader(data, BATCH, seed=seed, shuffle=True),
        config,
        folder=folder,
        progress=progress,
    )
    return model.eval()
