"""Several accepted candidates as one: their group if it has layers, and augmentation for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ..measure import Transformation
from ._candidate import Candidate

_DRAWN = 16  # products of elements

Permutation = tuple[int, ...]


def joint_candidate(candidates: Sequence[Candidate], groups: Sequence[Candidate]) -> Candidate | None:
    """The smallest candidate that contains all of these; None if their group is not among the groups.

    Args:
        candidates: the candidates to combine.
        groups: candidates with exact layers, each before those that contain it.
    """
    exact = [each for each in candidates if each.grid is not None]
    others = [each for each in candidates if each.grid is None]
    group = _generated(exact, groups) if exact else None
    if exact and group is None:
        return None
    if not others:
        return group
    parts = [group, *others] if group is not None else others
    if len(parts) == 1:
        return parts[0]
    names, words = ([getattr(each, kind) for each in parts] for kind in ("name", "words"))
    return Candidate(
        " + ".join(names),
        " together with ".join(words),
        _products(parts),
        None if group is None else group.grid,
        all(each.is_group for each in parts),
        () if group is None else others[0].elements if len(others) == 1 else _products(others),
    )


def _generated(candidates: Sequence[Candidate], groups: Sequence[Candidate]) -> Candidate | None:
    generated = _closure(frozenset().union(*(_permutations(each) for each in candidates)))
    return next((each for each in groups if _closure(_permutations(each)) == generated), None)


def _products(parts: Sequence[Candidate]) -> tuple[Transformation, ...]:
    """Random products of one element of each part, or its identity."""
    generator = torch.Generator().manual_seed(0)
    drawn: list[Transformation] = []
    while len(drawn) < _DRAWN:
        numbers = [int(torch.randint(len(each.elements) + 1, (), generator=generator)) for each in parts]
        factors = [each.elements[n - 1] for each, n in zip(parts, numbers, strict=True) if n]
        drawn += [_product(factors)] if factors else []
    return tuple(drawn)


def _product(factors: Sequence[Transformation]) -> Transformation:
    inverses = [each.inverse for each in reversed(factors) if each.inverse is not None]
    return Transformation(
        ", then ".join(each.name for each in factors),
        partial(_in_turn, functions=[each.forward for each in factors]),
        partial(_in_turn, functions=inverses) if len(inverses) == len(factors) else None,
        exact=all(each.exact for each in factors),
    )


def _in_turn(x: Tensor, functions: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    for function in functions:
        x = function(x)
    return x


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
