"""One part of a dataset, such as its training images. It can be indexed, so a ``DataLoader`` can read it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.data import Dataset

from .._checked import checked
from .._numerics import require_memory
from ..errors import InputError
from ._choose import balanced
from ._normalization import Normalization
from ._transforms import Transform, sample_generator
from .sources._source import ImageSource, TensorImages

_CHUNK = 1024


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Split(Dataset[tuple[Tensor, Tensor]]):
    """Images with labels.

    ``split[i]`` is an image ``(channels, height, width)``, float32 in [0, 1] or normalized, and its label, an int64
    tensor: a scalar class or a row of factors. Indexing does not augment; see :meth:`with_transform`.

    Args:
        source: where the images come from.
        labels: int64, ``(n,)`` or ``(n, factors)``.
        classes: the names of the classes; if labels are factors, of the first factor's values.
        positions: the positions of the samples in the source, int64 ``(n,)``; by default all, in order.
        normalization: applied last, if given.

    >>> from intertwine.data import load
    >>> train = load("digits").train
    >>> image, label = train[0]
    >>> image.shape, image.dtype, label
    (torch.Size([1, 8, 8]), torch.float32, tensor(0))
    >>> images, labels = next(iter(torch.utils.data.DataLoader(train, batch_size=32)))
    >>> images.shape, labels.shape
    (torch.Size([32, 1, 8, 8]), torch.Size([32]))
    """

    source: ImageSource
    labels: Tensor
    classes: tuple[str, ...] = ()
    positions: Tensor | None = None
    normalization: Normalization | None = None

    def __post_init__(self) -> None:
        n = len(self.source) if self.positions is None else len(self.positions)
        if self.labels.dtype != torch.int64 or self.labels.dim() not in (1, 2) or len(self.labels) != n:
            raise InputError(
                "Split",
                expected=f"int64 labels ({n},) or ({n}, factors), one per image",
                got=f"{self.labels.dtype} {tuple(self.labels.shape)}",
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""
        return self.source.shape

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        channels, height, width = self.shape
        return f"Split({len(self)} images {channels} x {height} x {width}, {len(self.classes)} classes)"

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        images, labels = self.batch(torch.tensor([self._checked(index)]))
        return images[0], labels[0]

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, Tensor]]:
        # DataLoader calls this method for whole batches: one call to the source instead of many.
        return list(zip(*self.batch(torch.tensor(indices, dtype=torch.int64)), strict=True))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (self[index] for index in range(len(self)))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Images ``(n, channels, height, width)`` and labels at these int64 indices, the same as from indexing."""
        images = self._floats(indices)
        return (self.normalization(images) if self.normalization else images), self.labels[indices]

    def augmented(self, index: int, transform: Transform, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Image and label like ``split[index]``, with the transform applied before normalization."""
        indices = torch.tensor([self._checked(index)])
        image = transform(self._floats(indices)[0], generator)
        return (self.normalization(image) if self.normalization else image), self.labels[indices][0]

    def with_transform(self, transform: Transform) -> AugmentedSplit:
        """The same samples, augmented by ``transform(image, generator)`` when read for training."""
        return AugmentedSplit(self, transform)

    def transformed_once(self, transform: Transform, *, seed: int) -> Split:
        """The same samples, each transformed once. The images are computed now and stored as 8-bit numbers.

        >>> from intertwine.data import load, random_rotation
        >>> load("digits").test.transformed_once(random_rotation, seed=0)
        Split(360 images 1 x 8 x 8, 10 classes)
        """
        require_memory(
            len(self) * math.prod(self.shape),
            caller="transformed_once",
            what=f"{len(self)} images",
            fix="Take a subset.",
        )
        generator, parts = sample_generator(seed), []
        for indices in torch.arange(len(self)).split(_CHUNK):
            parts.append((transform(self._floats(indices), generator) * 255).round().clamp(0, 255).byte())
        source = TensorImages(torch.cat(parts), white=255.0)
        return replace(self, source=source, positions=None)

    def normalized(self, normalization: Normalization) -> Split:
        """The same samples, normalized when read. Normalize test images like the training images."""
        if len(normalization.mean) != self.shape[0]:
            raise InputError(
                "normalized",
                expected=f"a normalization of {self.shape[0]} channels",
                got=f"{len(normalization.mean)}",
            )
        return replace(self, normalization=normalization)

    def resized(self, size: int | tuple[int, int]) -> Split:
        """The same samples, resized to this height and width.

        >>> from intertwine.data import load
        >>> load("digits").test.resized(12).shape
        (1, 12, 12)
        """
        return replace(self, source=self.source.resized(image_size(size)))

    def select(self, indices: Tensor | Sequence[int]) -> Split:
        """The samples at these indices, in this order."""
        indices = torch.as_tensor(indices, dtype=torch.int64)
        if indices.numel() and not (-len(self) <= int(indices.min()) and int(indices.max()) < len(self)):
            raise InputError(
                "select", expected=f"indices below {len(self)}", got=f"{int(indices.min())} to {int(indices.max())}"
            )
        positions = indices % max(len(self), 1) if self.positions is None else self.positions[indices]
        return replace(self, positions=positions, labels=self.labels[indices])

    def subset(self, n: int, *, seed: int = 0) -> Split:
        """``n`` samples, with classes as balanced as possible. With several factors, the first one is the class.

        >>> from intertwine.data import load
        >>> load("digits").train.subset(100, seed=1).labels.bincount()
        tensor([10, 10, 10, 10, 10, 10, 10, 10, 10, 10])
        """
        kind = self.labels if self.labels.dim() == 1 else self.labels[:, 0]
        return self.select(balanced(kind, n, seed=seed))

    def as_tensors(self) -> tuple[Tensor, Tensor]:
        """All images ``(n, channels, height, width)`` and all labels, the same as from indexing."""
        self._require_memory(itemsize=4)
        images = torch.empty((len(self), *self.shape))
        for part, indices in zip(images.split(_CHUNK), torch.arange(len(self)).split(_CHUNK), strict=True):
            part.copy_(self.batch(indices)[0])
        return images, self.labels.clone()

    def raw(self) -> Tensor:
        """All images as stored, uint8 or float32, before scaling and normalization."""
        self._require_memory(itemsize=4)
        dtype = self.source.read(self._positions(torch.arange(min(len(self), 1)))).dtype
        images = torch.empty((len(self), *self.shape), dtype=dtype)
        for part, indices in zip(images.split(_CHUNK), torch.arange(len(self)).split(_CHUNK), strict=True):
            part.copy_(self.source.read(self._positions(indices)))
        return images

    def in_memory(self) -> Split:
        """The same samples, with all images decoded, rendered or interpolated now instead of at every read."""
        if self.source.in_memory:
            return self
        return replace(self, source=TensorImages(self.raw(), white=self.source.white), positions=None)

    def _positions(self, indices: Tensor) -> Tensor:
        return indices if self.positions is None else self.positions[indices]

    def _floats(self, indices: Tensor) -> Tensor:
        return self.source.read(self._positions(indices)).float() / self.source.white

    def _checked(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a split of {len(self)} samples")
        return index % len(self)

    def _require_memory(self, itemsize: int) -> None:
        channels, height, width = self.shape
        require_memory(
            len(self) * channels * height * width,
            itemsize=itemsize,
            caller="Split",
            what=f"{len(self)} images of {channels} x {height} x {width}",
            fix="Take a subset, or read batches instead.",
        )


def image_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width, from one number or from both."""
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise InputError("size", expected="a positive height and width", got=f"{size}")
    return height, width


@checked
@dataclass(frozen=True, eq=False)
class AugmentedSplit(Dataset[tuple[Tensor, Tensor]]):
    """A split with a random transform.

    :meth:`getitem_seeded` augments, with a generator that the caller derives from the sample. So neither the order of
    the data nor the number of workers changes the result; ``deterministic_loader`` uses it. Indexing does not augment.

    Args:
        split: the images.
        transform: ``transform(image, generator)``, applied before normalization.

    >>> from intertwine.data import load, random_flip, sample_generator
    >>> train = load("digits").train.with_transform(random_flip)
    >>> seed, epoch, index = 0, 3, 17
    >>> image, label = train.getitem_seeded(index, sample_generator(seed, epoch, index))
    >>> torch.equal(image, train[17][0]) or torch.equal(image, train[17][0].flip(-1))
    True
    """

    split: Split
    transform: Transform

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.split[index]

    def getitem_seeded(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The augmented image and its label."""
        return self.split.augmented(index, self.transform, generator)
