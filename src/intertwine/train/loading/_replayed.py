"""Any sized iterable of batches as a loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ...errors import InputError
from .._batch import batch_size as size_of
from .._seeding import derive_seed, seed_all
from ._loader import Loader


class ReplayedLoader:
    """Any sized iterable of batches, a torch ``DataLoader`` for example, as a :class:`Loader`.

    The global generators are seeded before an epoch and before each batch, so that what they decide is a function of
    (seed, epoch, position). To start in the middle, the batches before are loaded and thrown away.
    """

    def __init__(self, iterable: Iterable[Any], seed: int) -> None:
        self.iterable, self.seed = iterable, seed

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def batches(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch from number ``start`` on."""
        set_epoch = getattr(getattr(self.iterable, "sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        cpu = torch.device("cpu")
        seed_all(derive_seed(self.seed, "order", epoch), cpu)
        iterator = iter(self.iterable)
        for position in range(len(self)):
            seed_all(derive_seed(self.seed, "batch", epoch, position), cpu)
            batch = next(iterator)
            if position >= start:
                yield batch

    def share(self, position: int, batch: Any) -> tuple[int, int]:
        """The length of the batch, twice: it is whole."""
        return size_of(batch), size_of(batch)

    def shard(self, rank: int, world: int) -> ReplayedLoader:
        """Only for one process."""
        if world == 1:
            return self
        raise InputError(
            "fit",
            expected=f"a loader that can be shared among {world} processes",
            got=f"a {type(self.iterable).__name__}",
            fix="Make it with deterministic_loader(dataset, batch_size, seed=...).",
        )


def as_loader(source: Any, seed: int, caller: str) -> Loader:
    """The source itself if it knows the protocol, a :class:`ReplayedLoader` if it is any other sized iterable."""
    if all(hasattr(source, name) for name in ("batches", "share", "shard", "__len__")):
        loader: Loader = source
    elif hasattr(source, "__iter__") and hasattr(source, "__len__"):
        loader = ReplayedLoader(source, seed)
    else:
        raise InputError(
            "fit",
            expected=f"{caller} with a length, such as deterministic_loader(...), a DataLoader or a list of batches",
            got=f"a {type(source).__name__}",
            fix="A stream without a length has no epochs; wrap it in a dataset of known length.",
        )
    if len(loader) == 0:
        raise InputError("fit", expected=f"at least one batch in {caller}", got="none", fix="Check the dataset.")
    return loader
