"""A digest of what a loader loads, to notice that a run is continued with other data."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from .._batch import named_tensors
from .._seeding import preserved_generators
from ._loader import DeterministicLoader, Loader

_WHOLE = 2**28
"""Bytes of tensors in memory up to which all of them are read. Of other data only the first batch is."""


def data_digest(loader: Loader) -> str:
    """16 hexadecimal digits that change with the data: all of it if it is a set of tensors, else its first batch.

    >>> from intertwine.train import deterministic_loader
    >>> first, second = (deterministic_loader(range(n, n + 8), 4, seed=0) for n in (0, 1))
    >>> data_digest(first) == data_digest(first), data_digest(first) == data_digest(second)
    (True, False)
    """
    dataset = getattr(loader, "dataset", None)
    tensors = dataset.tensors if type(dataset) is TensorDataset else ()
    whole = 0 < sum(tensor.nbytes for tensor in tensors) <= _WHOLE
    digest = hashlib.blake2b(str(len(loader)).encode(), digest_size=8)
    for name, tensor in named_tensors(tensors if whole else _first_batch(loader)):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _first_batch(loader: Loader) -> Any:
    """The first batch of the first epoch; the random numbers drawn for it are put back."""
    source = getattr(loader, "iterable", None)
    generators = [getattr(part, "generator", None) for part in (source, getattr(source, "sampler", None))]
    states = [(each, each.get_state()) for each in generators if isinstance(each, torch.Generator)]
    with preserved_generators():
        own = isinstance(loader, DeterministicLoader)  # it can do without starting worker processes
        batch = loader.first_batch() if own else next(iter(loader.batches(0)))  # type: ignore[attr-defined]
    for generator, state in states:
        generator.set_state(state)
    return batch
