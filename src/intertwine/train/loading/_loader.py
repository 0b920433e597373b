"""Batches whose order and randomness are pure functions of the seed.

===========================  ====================================================================
what                         is a function of
===========================  ====================================================================
order of the samples         seed, epoch
randomness inside a sample   seed, epoch, index of the sample in the dataset
batch k of an epoch          the order, the batch size and k; batches before it are never loaded
part of a batch on a rank    the batch, rank, number of ranks; together the parts are the batch
===========================  ====================================================================

The number of loader workers occurs nowhere. (One thing is outside: torch splits a reduction over more than some 30 000
numbers among threads, and a worker has one thread. A transform that sums that many numbers may differ in the last bit
between no workers and some.)
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from ..._checked import checked
from ...errors import InputError
from .._seeding import derive_seed
from ._datasets import Fetch, Key


class Loader(Protocol):
    """What :func:`fit` needs of a source of batches."""

    def __len__(self) -> int:
        """Batches in an epoch, the same on every rank."""
        ...

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch from number ``start`` on."""
        ...

    def share(self, position: int, batch: Any) -> tuple[int, int]:
        """How many samples of batch ``position`` are here, and how many it has on all ranks together."""
        ...

    def shard(self, rank: int, world: int) -> Loader:
        """The part of this loader that belongs to one of ``world`` processes."""
        ...


@checked
@dataclass(eq=False, kw_only=True)
class DeterministicLoader:
    """See :func:`deterministic_loader`, which makes one."""

    dataset: Any
    batch_size: int
    seed: int
    shuffle: bool
    workers: int
    drop_last: bool
    rank: int
    world: int
    collate: Callable[[list[Any]], Any]
    pin_memory: bool

    def __post_init__(self) -> None:
        if not hasattr(self.dataset, "__len__"):
            raise self._wrong("a dataset with a length", f"a {type(self.dataset).__name__}")
        try:
            self._samples = len(self.dataset)
        except TypeError as error:  # a tensor of rank 0 has the method, but no length
            raise self._wrong("a dataset with a length", str(error)) from None
        if self.batch_size < 1 or self.workers < 0 or not 0 <= self.rank < self.world:
            got = f"batch_size={self.batch_size}, workers={self.workers}, rank={self.rank}, world={self.world}"
            raise self._wrong("batch_size >= 1, workers >= 0 and 0 <= rank < world", got)
        if len(self) == 0:
            got = f"{self._samples} samples, batch_size={self.batch_size}, drop_last={self.drop_last}"
            raise self._wrong("at least one batch in an epoch", got)
        self._fetch = Fetch(self.dataset, self.seed, self.collate)
        self._pool: DataLoader[Any] | None = None
        self._keys: list[Key] = []

    @staticmethod
    def _wrong(expected: str, got: str) -> InputError:
        return InputError("deterministic_loader", expected=expected, got=got, fix="Change that argument.")

    def __len__(self) -> int:
        whole, rest = divmod(self._samples, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[Any]:
        """The batches of epoch 0, each time the same."""
        return self.batches(0)

    def __repr__(self) -> str:
        part = f", rank {self.rank} of {self.world}" if self.world > 1 else ""
        return f"DeterministicLoader({self._samples} samples in {len(self)} batches of {self.batch_size}{part})"

    def order(self, epoch: int) -> Tensor:
        """Indices of the samples in the order of an epoch, before they are cut into batches: int64, (samples,)."""
        if not self.shuffle:
            return torch.arange(self._samples)
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
        return torch.randperm(self._samples, generator=generator)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch from number ``start`` on; those before it are not loaded."""
        keys = self._keys_of(epoch, start)
        return self._load_ahead(keys) if self.workers else (self._fetch[key] for key in keys)

    def _load_ahead(self, keys: list[Key]) -> Iterator[Any]:
        if self._pool is None:
            self._pool = DataLoader(
                self._fetch,  # type: ignore[arg-type]
                batch_size=None,
                sampler=_Live(self),
                num_workers=self.workers,
                collate_fn=_unchanged,
                worker_init_fn=_leave_signals_to_the_parent,
                generator=torch.Generator().manual_seed(0),  # else each epoch would draw from the global one
                persistent_workers=True,
                pin_memory=self.pin_memory,
            )
        self._keys = keys
        batches = iter(self._pool)
        for _ in keys:
            if self._keys is not keys:
                got = "another one begun before this one had ended"
                raise self._wrong("one iteration at a time, since workers > 0", got)
            yield next(batches)

    def share(self, position: int, batch: Any = None) -> tuple[int, int]:
        """Samples of batch ``position`` on this rank, and on all of them.

        A rank that gets nothing of a short last batch is given one sample to compute on, and a share of 0.
        """
        total = min(self.batch_size, self._samples - position * self.batch_size)
        return len(range(self.rank, total, self.world)), total

    def shard(self, rank: int, world: int) -> DeterministicLoader:
        """The same batches, of which this process takes every ``world``-th sample from ``rank`` on."""
        if (rank, world) == (self.rank, self.world):
            return self
        if self.world != 1:
            raise InputError(
                "deterministic_loader",
                expected="a loader of whole batches, or of this rank",
                got=f"rank {self.rank} of {self.world} in a process that is rank {rank} of {world}",
                fix="Leave out rank= and world=: fit shares the batches among its processes.",
            )
        return replace(self, rank=rank, world=world)

    def first_batch(self) -> Any:
        """The first batch of epoch 0, loaded in this process."""
        return self._fetch[self._keys_of(0, 0)[0]]

    def close(self) -> None:
        """End the worker processes; they start again when needed."""
        # Left to the garbage collector, they would be ended while the interpreter shuts down, with a trace.
        iterator = getattr(self._pool, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()
        self._pool = None

    def _keys_of(self, epoch: int, start: int) -> list[Key]:
        order = self.order(epoch).tolist()
        keys: list[Key] = []
        for position in range(start, len(self)):
            batch = order[position * self.batch_size : (position + 1) * self.batch_size]
            keys.append((epoch, position, batch[self.rank :: self.world] or batch[:1]))
        return keys


class _Live:
    """The keys the loader holds at the moment an iteration begins, so that worker processes outlive an epoch."""

    def __init__(self, loader: DeterministicLoader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Key]:
        return iter(self.loader._keys)

    def __len__(self) -> int:
        return len(self.loader._keys)


def _unchanged(batch: Any) -> Any:
    return batch


def _leave_signals_to_the_parent(_: int) -> None:
    # Ctrl-C reaches every process of the terminal. The parent still wants the batches of the step it is finishing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@checked
def deterministic_loader(
    dataset: Any,
    batch_size: int,
    *,
    seed: int,
    shuffle: bool = True,
    workers: int = 0,
    drop_last: bool = False,
    rank: int = 0,
    world: int = 1,
    collate: Callable[[list[Any]], Any] = default_collate,
    pin_memory: bool = False,
) -> DeterministicLoader:
    """A loader whose every batch is a pure function of (seed, epoch, position).

    Args:
        dataset: any map-style dataset. For random augmentation see :class:`SeededDataset` and :class:`Augmented`.
        batch_size: samples in a batch, all ranks together.
        seed: determines the order and the randomness of samples.
        shuffle: a new order each epoch; otherwise the order of the dataset.
        workers: processes that load ahead; the batches are the same for any number.
        drop_last: leave out a shorter last batch.
        rank: which part of each batch to load; :func:`fit` sets this itself.
        world: number of parts.
        collate: makes a batch from a list of samples.
        pin_memory: put batches into page-locked memory, for faster copies to a GPU.

    >>> loader = deterministic_loader(range(10), 4, seed=0)
    >>> [batch.tolist() for batch in loader.batches(epoch=0)]
    [[...], [...], [...]]
    >>> list(loader.batches(0))[2].tolist() == next(loader.batches(0, start=2)).tolist()
    True
    >>> [next(loader.shard(rank, 2).batches(0)).tolist() for rank in (0, 1)]
    [[..., ...], [..., ...]]
    """
    return DeterministicLoader(
        dataset=dataset,
        batch_size=batch_size,
        seed=seed,
        shuffle=shuffle,
        workers=workers,
        drop_last=drop_last,
        rank=rank,
        world=world,
        collate=collate,
        pin_memory=pin_memory,
    )
