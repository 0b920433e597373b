"""Which samples: a balanced subset, and the part of a set that is held out for testing. Both are repeatable."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InputError


def balanced(labels: Tensor, n: int, *, seed: int) -> Tensor:
    """Positions of ``n`` samples, ascending, with the classes as equally frequent as they allow.

    A smaller choice with the same seed is part of a larger one.

    >>> labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 2])
    >>> labels[balanced(labels, 6, seed=0)]
    tensor([0, 0, 0, 1, 1, 2])
    """
    if not 0 < n <= len(labels):
        raise InputError(
            "subset", expected=f"a number of samples from 1 to {len(labels)}", got=str(n), fix="Ask for fewer or more."
        )
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(labels), generator=generator)
    values, kind = labels[shuffled].unique(return_inverse=True)
    # Rounds: the first of every class, the second of every class, ...; within a round the classes in random order.
    by_class = kind.argsort(stable=True)
    counts = kind.bincount(minlength=len(values))
    first = counts.cumsum(0) - counts
    rank = torch.empty_like(kind)
    rank[by_class] = torch.arange(len(kind)) - first.repeat_interleave(counts)
    turn = torch.randperm(len(values), generator=generator)
    order = (rank * len(values) + turn[kind]).argsort()
    return shuffled[order[:n]].sort().values


def held_out(keys: Sequence[str], labels: Tensor, *, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions for training and for testing, ascending: this fraction of every class is held out.

    The digest of a sample's key decides, not its place, so that the order of a listing does not matter. A class of two
    or more samples has at least one in each part.

    >>> keys, labels = [f"{i}.png" for i in range(10)], torch.zeros(10, dtype=torch.int64)
    >>> train, test = held_out(keys, labels, fraction=0.2, seed=0)
    >>> len(train), len(test)
    (8, 2)
    """
    if not 0 <= fraction < 1:
        raise InputError(
            "load",
            expected="test_fraction from 0 up to, not including, 1",
            got=str(fraction),
            fix="0 holds nothing out.",
        )
    test: list[int] = []
    if fraction:
        members: dict[int, list[int]] = {}
        for position, label in enumerate(labels.tolist()):
            members.setdefault(label, []).append(position)
        for positions in members.values():
            positions.sort(key=lambda position: _digest(seed, keys[position]))
            wanted = min(max(round(fraction * len(positions)), 1), len(positions) - 1)
            test += positions[:wanted]
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    is_test[torch.tensor(test, dtype=torch.int64)] = True
    return (~is_test).nonzero().flatten(), is_test.nonzero().flatten()


def _digest(seed: int, key: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{key}".encode(errors="surrogateescape"), digest_size=8).digest()
