"""Choosing samples: a balanced subset, and the part held out for testing. Both are reproducible."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InputError


def balanced(labels: Tensor, n: int, *, seed: int) -> Tensor:
    """The positions of ``n`` samples, in ascending order, with classes as balanced as possible.

    With the same seed, a smaller subset is part of a larger one.

    >>> labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 2])
    >>> labels[balanced(labels, 6, seed=0)]
    tensor([0, 0, 0, 1, 1, 2])
    """
    if not 0 < n <= len(labels):
        raise InputError("subset", expected=f"a number of samples from 1 to {len(labels)}", got=str(n))
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(labels), generator=generator)
    values, kind = labels[shuffled].unique(return_inverse=True)
    # Take the first sample of every class, then the second of every class, and so on, with classes in random order.
    by_class = kind.argsort(stable=True)
    counts = kind.bincount(minlength=len(values))
    first = counts.cumsum(0) - counts
    rank = torch.empty_like(kind)
    rank[by_class] = torch.arange(len(kind)) - first.repeat_interleave(counts)
    turn = torch.randperm(len(values), generator=generator)
    order = (rank * len(values) + turn[kind]).argsort()
    return shuffled[order[:n]].sort().values


def held_out(keys: Sequence[str], labels: Tensor, *, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """The positions for training and for testing, in ascending order. This fraction of every class is held out.

    The digest of a sample's key decides, so the order of a file listing does not matter. A class of two or more samples
    has at least one in each part.

    >>> keys, labels = [f"{i}.png" for i in range(10)], torch.zeros(10, dtype=torch.int64)
    >>> train, test = held_out(keys, labels, fraction=0.2, seed=0)
    >>> len(train), len(test)
    (8, 2)
    """
    if not 0 <= fraction < 1:
        raise InputError(
            "load",
            expected="0 ≤ test_fraction < 1",
            got=str(fraction),
        )
    test: list[int] = []
    if fraction:
        members: dict[int, list[int]] = {}
        for position, label in enumerate(labels.tolist()):
            members.setdefault(label, []).append(position)
        for positions in members.values():
            positions.sort(key=lambda position: _digest(seed, keys[position]))
            count = min(max(round(fraction * len(positions)), 1), len(positions) - 1)
            test += positions[:count]
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    is_test[torch.tensor(test, dtype=torch.int64)] = True
    return (~is_test).nonzero().flatten(), is_test.nonzero().flatten()


def _digest(seed: int, key: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{key}".encode(errors="surrogateescape"), digest_size=8).digest()
