"""Datasets whose randomness comes from a generator they are given, and batches fetched from any dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch.utils.data import TensorDataset, default_collate

from ..._checked import checked
from .._seeding import derive_seed, preserved_generators, seed_all


@runtime_checkable
class SeededDataset(Protocol):
    """A map-style dataset that takes the randomness of a sample from a generator it is given.

    This is the protocol for augmentation: ``getitem_seeded(index, generator)`` draws from ``generator`` and from
    nothing else. :class:`Augmented` makes one from a dataset and a transform.

    A dataset without this method may still be random: the global generators of torch, numpy and Python are then seeded
    for each sample (some 30 µs), and put back after the batch. A dataset with ``__getitems__(indices)`` and without
    ``getitem_seeded`` is asked for whole batches, with the global generators seeded once a batch.
    """

    def __len__(self) -> int:
        """Number of samples."""
        ...

    def getitem_seeded(self, index: int, generator: torch.Generator) -> Any:
        """Sample ``index``, its randomness drawn from ``generator``."""
        ...


class Augmented:
    """A dataset with a random transform, as a :class:`SeededDataset`.

    Args:
        dataset: a map-style dataset without randomness of its own, or a :class:`SeededDataset`.
        transform: ``transform(sample, generator)`` returns the changed sample.

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
    """Maps (epoch, position, indices) to a collated batch; this is what a loader's worker process holds."""

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
        if type(dataset) is TensorDataset and self.collate is default_collate:  # nothing random, and a common case
            return [tensor[indices] for tensor in dataset.tensors]
        cpu = torch.device("cpu")
        with preserved_generators():
            if hasattr(dataset, "__getitems__"):
                seed_all(derive_seed(self.seed, "batch", epoch, position), cpu)
                return self.collate(dataset.__getitems__(indices))
            samples = []
            for index in indices:
                seed_all(derive_seed(self.seed, "sample", epoch, index), cpu)
                samples.append(dataset[index])
            return self.collate(samples)
