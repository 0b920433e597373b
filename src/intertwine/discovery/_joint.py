"""The group that several accepted candidates generate."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ._candidate import Candidate, parse_candidate

_NAMED = ("hflip", "vflip", "transpose", "c2", "c4", "flips", "d4")

Permutation = tuple[int, ...]


def joint_candidate(candidates: Sequence[Candidate], shape: tuple[int, ...]) -> Candidate | None:
    """The candidate of the smallest named group that contains all of these; None if it has no name.

    >>> mirror, turns = parse_candidate("hflip", (1, 8, 8)), parse_candidate("c4", (1, 8, 8))
    >>> joint_candidate([mirror, turns], (1, 8, 8)).name
    'd4'
    """
    if any(each.grid is None for each in candidates):
        return None
    generated = _closure(frozenset().union(*(_permutations(each) for each in candidates)))
    for name in _NAMED:
        if name in ("c4", "d4", "transpose") and shape[1] != shape[2]:
            continue
        candidate = parse_candidate(name, shape)
        if _closure(_permutations(candidate)) == generated:
            return candidate
    return None


def _permutations(candidate: Candidate) -> frozenset[Permutation]:
    """How the elements permute the pixels of a 3 x 3 image."""
    probe = torch.arange(9.0).view(1, 1, 3, 3)
    return frozenset(tuple(each.forward(probe).flatten().int().tolist()) for each in candidate.elements)


def _closure(generators: frozenset[Permutation]) -> frozenset[Permutation]:
    group = frozenset({tuple(range(9))})
    while True:
        larger = group | {tuple(a[k] for k in b) for a in generators for b in group}
        if larger == group:
            return group
        group = larger
