"""The summands of a representation as written, their copies, and the order of the channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from ..._devices import on_cpu
from ...groups import Representation


@dataclass(frozen=True)
class Summands:
    """The distinct summands of ρ with their multiplicities.

    Attributes:
        kinds: the different summands, in order of appearance.
        counts: how often each occurs.
        order: the position of each channel of ρ after sorting channels by kind; None if they are already sorted.
    """

    kinds: tuple[Representation, ...]
    counts: tuple[int, ...]
    order: Tensor | None


@on_cpu
def summands(rho: Representation) -> Summands:
    """Sort the summands of ``rho`` by kind.

    >>> from intertwine.groups import Cyclic
    >>> C2 = Cyclic(2)
    >>> summands(C2.trivial + C2.regular + C2.trivial).order
    tensor([0, 2, 3, 1])
    """
    kinds = {term.rho.digest: term.rho for term in rho.terms}
    channels: dict[str, list[int]] = {digest: [] for digest in kinds}
    for term in rho.terms:
        channels[term.rho.digest] += range(term.channels.start, term.channels.stop)
    counts = tuple(len(channels[digest]) // kind.dim for digest, kind in kinds.items())
    sorted_already = len(rho.terms) == len(kinds)
    order = None if sorted_already else torch.argsort(torch.tensor([c for part in channels.values() for c in part]))
    return Summands(tuple(kinds.values()), counts, order)


Per = Literal["field", "coset"]
"""What has a norm or a gate of its own: a field, or each block of a field that the group exchanges with others."""


@dataclass(frozen=True)
class Run:
    """Neighboring fields, or blocks of fields: channels ``start`` to ``stop`` are ``count`` of them, of size ``dim``.

    Each field has ``blocks`` of them.
    """

    start: int
    stop: int
    count: int
    dim: int
    blocks: int = 1


def runs(rho: Representation, per: Per = "field") -> tuple[Run, ...]:
    """The fields of ρ in order, or their blocks. Neighbors alike form one run, which takes one reshape instead of many.

    >>> from intertwine.groups import Cyclic
    >>> C2 = Cyclic(2)
    >>> runs(2 * C2.regular, "coset")
    (Run(start=0, stop=4, count=4, dim=1, blocks=2),)
    """
    result, offset = [], 0
    for (dim, blocks), group in groupby(rho.atoms, key=lambda atom: (atom.dim, _blocks(atom, per))):
        count = len(list(group))
        result.append(Run(offset, offset + count * dim, count * blocks, dim // blocks, blocks))
        offset += count * dim
    return tuple(result)


def _blocks(atom: Representation, per: Per) -> int:
    return 1 if per == "field" else atom.blocks.dim


def split(x: Tensor, pieces: Sequence[Run]) -> list[Tensor]:
    """``(batch, channels, ...)`` as one ``(batch, count, dim, ...)`` per run."""
    return [x[:, run.start : run.stop].unflatten(1, (run.count, run.dim)) for run in pieces]


def join(parts: Sequence[Tensor]) -> Tensor:
    """The inverse of :func:`split`; also joins parts with one value per field."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)


def is_trivial(rho: Representation) -> bool:
    """Whether every element acts as the identity on a line."""
    return rho.dim == 1 and rho == rho.group.trivial


def permutes(rho: Representation) -> bool:
    """Whether the group permutes the channels, so elementwise functions commute with it."""
    return all(atom.is_permutation or is_trivial(atom) for atom in {a.digest: a for a in rho.atoms}.values())
