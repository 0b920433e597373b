"""Sequences of images: a factor that moves through its values, or an image that is transformed step by step.

All randomness comes from a generator that the caller derives from the sample. So neither the order nor the number of
workers changes a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from .._checked import checked
from ..errors import InputError
from ._split import Split
from ._transforms import sample_generator
from .sources._factors import FactorGrid

Frames = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""Takes an image ``(channels, height, width)`` to frames ``(time, channels', height, width)`` and their labels
``(time, ...)``."""


@checked
@dataclass(frozen=True, eq=False)
class FactorSequences(Dataset[tuple[Tensor, Tensor]]):
    """Sequences in which one factor of a grid of images moves through its values and wraps around.

    Item i starts at image i; the factor is drawn from ``moving``. Labels are the classes of all factors in each frame,
    ``(time, factors)``.

    Args:
        images: ``(n, channels, height, width)``, all combinations in the order of the grid; floats in [0, 1] or
        integers. grid: the factors of the images. frames: the number of frames in a sequence. A factor with fewer
        values wraps around several times. moving: names of the factors that may move. white: the value of white, for
        integers.

    >>> grid = FactorGrid(("shape", "x"), ((0.0, 1.0), (0.0, 1.0, 2.0)))
    >>> data = FactorSequences(torch.rand(6, 1, 4, 4), grid, frames=3, moving=("x",))
    >>> data[1][1]
    tensor([[0, 1],
            [0, 2],
            [0, 0]])
    """

    images: Tensor
    grid: FactorGrid
    frames: int
    moving: tuple[str, ...]
    white: float = 255.0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.moving) - set(self.grid.names))
        if unknown or not self.moving:
            raise InputError(
                "FactorSequences",
                expected=f"moving factors among {', '.join(self.grid.names)}",
                got=", ".join(unknown) or "none",
            )
        if len(self.images) != len(self.grid):
            raise InputError(
                "FactorSequences",
                expected=f"{len(self.grid)} images, one per combination",
                got=str(len(self.images)),
            )
        if self.frames < 1:
            raise InputError("FactorSequences", expected="at least one frame", got=str(self.frames))

    def __len__(self) -> int:
        return len(self.grid)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.getitem_seeded(index, sample_generator(0, index))

    def getitem_seeded(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The sequence that starts at this image, with its factor drawn from the generator."""
        choice = int(torch.randint(len(self.moving), (), generator=generator))
        return self.sequence(index, self.moving[choice])

    def sequence(self, index: int, factor: str) -> tuple[Tensor, Tensor]:
        """The sequence that starts at this image, in which this factor moves."""
        column = self.grid.names.index(factor)
        classes = self.grid.classes(torch.tensor([index])).repeat(self.frames, 1)
        classes[:, column] = (classes[:, column] + torch.arange(self.frames)) % self.grid.sizes[column]
        frames = self.images[self.grid.index(classes)]
        return (frames if frames.is_floating_point() else frames.float() / self.white), classes


@checked
def part_of_grid(
    split: Split, grid: FactorGrid, *, frames: int, moving: Sequence[str], **chosen: Sequence[int]
) -> FactorSequences:
    """Sequences on the part of a grid of images with the chosen classes. Factors not named keep all their classes.

    >>> from intertwine.data import load
    >>> sprites = load("dsprites")
    >>> part_of_grid(sprites.train, sprites.factors, frames=5, moving=("x",), shape=[0], scale=[2],
    ...              orientation=[0], x=range(0, 20, 4), y=[8, 16])[0][0].shape
    torch.Size([5, 1, 64, 64])
    """
    indices = grid.indices(**chosen)
    kept = tuple(
        tuple(values[k] for k in chosen.get(name, range(len(values))))
        for name, values in zip(grid.names, grid.values, strict=True)
    )
    images = split.select(indices).raw()
    return FactorSequences(images, FactorGrid(grid.names, kept), frames, tuple(moving), split.source.white)


@checked
@dataclass(frozen=True, eq=False)
class TransformedSequences(Dataset[tuple[Tensor, Tensor]]):
    """Sequences made from single images of any dataset by any transformation.

    Args:
        split: the images.
        transform: takes an image and a generator to frames and their labels, such as :class:`DigitMotion`.

    >>> from intertwine.data import load
    >>> def rolled(image, generator):
    ...     return torch.stack([image.roll(k, -1) for k in range(3)]), torch.arange(3)
    >>> frames, which = TransformedSequences(load("digits").test, rolled)[0]
    >>> frames.shape, which.tolist()
    (torch.Size([3, 1, 8, 8]), [0, 1, 2])
    """

    split: Split
    transform: Frames

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.getitem_seeded(index, sample_generator(0, index))

    def getitem_seeded(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The sequence of this image. All randomness comes from the generator."""
        frames, labels = self.transform(self.split[index][0], generator)
        return frames, labels
