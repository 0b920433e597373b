"""A digest of the data of a loader, to detect that a run is continued with other data."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from .._batch import named_tensors
from .._seeding import preserved_generators
from ._loader import DeterministicLoader, Loader

_MAX_BYTES = 2**28
"""The maximum size of tensors in memory that are digested completely. Of other data only the first batch is."""


def data_digest(loader: Loader) -> str:
    """16 hexadecimal digits that change with the data: all of it if it is a tensor dataset, else its first batch.

    >>> from intertwine.train import deterministic_loader
    >>> first, second = (deterministic_loader(range(n, n + 8), 4, seed=0) for n in (0, 1))
    >>> data_digest(first) == data_digest(first), data_digest(first) == data_digest(second)
    (True, False)
    """
    dataset = getattr(loader, "dataset", None)
    tensors = dataset.tensors if type(dataset) is TensorDataset else ()
    complete = 0 < sum(tensor.nbytes for tensor in tensors) <= _MAX_BYTES
    digest = hashlib.blake2b(str(len(loader)).encode(), digest_size=8)
    for name, tensor in named_tensors(tensors if complete else _first_batch(loader)):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _first_batch(loader: Loader) -> Any:
    """The first batch of the first epoch; the state of all generators is restored."""
    source = getattr(loader, "iterable", None)
    generators = [getattr(part, "generator", None) for part in (source, getattr(source, "sampler", None))]
    states = [(each, each.get_state()) for each in generators if isinstance(each, torch.Generator)]
    with preserved_generators():
        # A deterministic loader can load its first batch here, without starting worker processes.
        here = isinstance(loader, DeterministicLoader)
        batch = loader.first_batch() if here else next(iter(loader.batches(0)))  # type: ignore[attr-defined]
    for generator, state in states:
        generator.set_state(state)
    return batch
