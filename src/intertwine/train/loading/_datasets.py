"""Datasets that draw their randomness from a given generator, and reproducible batches from any dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch.utils.data import TensorDataset, default_collate

from ..._checked import checked
from .._seeding import derive_seed, preserved_generators, seed_all


@runtime_checkable
class SeededDataset(Protocol):
    """A map-style dataset that draws the randomness of a sample from a given generator.

    This is the protocol for augmentation: ``getitem_seeded(index, generator)`` must draw from ``generator`` only.
    :class:`Augmented` makes such a dataset from a dataset and a transform.

    A dataset without this method may also be random: the global generators of torch, numpy and Python are then seeded
    for each sample (about 30 µs) and restored after the batch. A dataset with ``__getitems__(indices)`` but without
    ``getitem_seeded`` loads complete batches, and the global generators are seeded once per batch.
    """

    def __len__(self) -> int:
        """The number of samples."""
        ...

    def getitem_seeded(self, index: int, generator: torch.Generator) -> Any:
        """Sample ``index``, with randomness drawn from ``generator``."""
        ...


class Augmented:
    """A dataset with a random transform, as a :class:`SeededDataset`.

    Args:
        dataset: a deterministic map-style dataset, or a :class:`SeededDataset`.
        transform: ``transform(sample, generator)`` returns the transformed sample.

    >>> from intertwine.train import deterministic_loader
    >>> def jitter(x, generator):
    ...     return x + torch.rand((), generator=generator)
    >>> noisy = Augmented([torch.zeros(()), torch.ones(())], jitter)
    >>> loader = deterministic_loader(noisy, 2, seed=0)
    >>> first, again, later = (next(loader.batches(epoch)) for epoch in (0, 0, 1))
    >>> torch.equal(first, again), torch.equal(first, later)
    (True, False)
    """

    @checked
    def __init__(self, dataset: Any, transform: Callable[[Any, torch.Generator], Any]) -> None:
        self.dataset, self.transform = dataset, transform

    def __len__(self) -> int:
        return len(self.dataset)

    def getitem_seeded(self, index: int, generator: torch.Generator) -> Any:
        """Sample ``index`` of the dataset, transformed."""
        if isinstance(self.dataset, SeededDataset):
            return self.transform(self.dataset.getitem_seeded(index, generator), generator)
        return self.transform(self.dataset[index], generator)


Key = tuple[int, int, list[int]]


class Fetch:
    """Maps (epoch, position, indices) to a collated batch; this is what the worker processes of a loader hold."""

    def __init__(self, dataset: Any, seed: int, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.seed, self.collate = dataset, seed, collate

    def __getitem__(self, key: Key) -> Any:
        epoch, position, indices = key
        dataset = self.dataset
        if isinstance(dataset, SeededDataset):
            generator = torch.Generator()
            samples = []
            for index in indices:
                generator.manual_seed(derive_seed(self.seed, "sample", epoch, index))
                samples.append(dataset.getitem_seeded(index, generator))
            return self.collate(samples)
        # A fast path: indexing tensors by a list loads the batch at once, and there is no randomness to seed.
        if type(dataset) is TensorDataset and self.collate is default_collate:
            return [tensor[indices] for tensor in dataset.tensors]
        cpu = torch.device("cpu")
        with preserved_generators():
            if hasattr(dataset, "__getitems__"):
                seed_all(derive_seed(self.seed, "batch", epoch, position), device=cpu)
                return self.collate(dataset.__getitems__(indices))
            samples = []
            for index in indices:
                seed_all(derive_seed(self.seed, "sample", epoch, index), device=cpu)
                samples.append(dataset[index])
            return self.collate(samples)
