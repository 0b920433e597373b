"""The group that permutations or matrices generate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._numerics import LAW_TOLERANCE
from ...errors import GroupLawError
from . import _tables


def generated_by_permutations(generators: Sequence[Sequence[int]], *, caller: str) -> _tables.Enumeration:
    """All products of permutations of 0..k-1, each given as the list of images."""
    points = len(generators[0]) if len(generators) else 1
    perms = []
    for p in generators:
        images = tuple(int(i) for i in p)
        if sorted(images) != list(range(points)):
            raise GroupLawError(
                caller,
                expected=f"permutations of 0..{points - 1}, each number once",
                got=str(list(images)),
                fix="Write a permutation as the list of images [p(0), p(1), ...].",
            )
        perms.append(images)
    identity = tuple(range(points))
    return _tables.enumerate_group(perms, identity, lambda a, b: tuple(a[i] for i in b), lambda p: p, caller=caller)


def generated_by_matrices(generators: Sequence[Any], *, caller: str) -> _tables.Enumeration:
    """All products of invertible matrices that generate a finite group."""
    mats = [np.asarray(m, np.float64) for m in generators]
    if not mats or any(m.shape != mats[0].shape or m.ndim != 2 or m.shape[0] != m.shape[1] for m in mats):
        raise GroupLawError(
            caller,
            expected="at least one generator, all square matrices of one size",
            got=f"shapes {[m.shape for m in mats]}",
            fix="Pass a list of (d, d) matrices.",
        )
    group = _tables.enumerate_group(
        mats,
        np.eye(len(mats[0])),
        lambda a, b: _tables.snapped(a @ b),
        lambda m: (m.round(6) + 0.0).tobytes(),
        caller=caller,
    )
    _require_invertible(group, caller)
    return group


def _require_invertible(group: _tables.Enumeration, caller: str) -> None:
    eye = np.eye(len(group.members[0]))
    for k, g in enumerate(_tables.inverse_table(group.table)):
        if np.abs(group.members[k] @ group.members[g] - eye).max() > LAW_TOLERANCE:
            raise GroupLawError(
                caller,
                expected="invertible matrices that generate a finite group",
                got=f"an element without inverse: {group.members[k].tolist()}",
                fix="Check the generators.",
            )


def cycle_notation(permutation: Sequence[int]) -> str:
    """A permutation as a product of cycles.

    >>> cycle_notation([1, 0, 2, 4, 3])
    '(0 1)(3 4)'
    """
    seen: set[int] = set()
    out = ""
    for start in range(len(permutation)):
        cycle, at = [], start
        while at not in seen:
            seen.add(at)
            cycle.append(str(at))
            at = permutation[at]
        if len(cycle) > 1:
            out += f"({' '.join(cycle)})"
    return out or "e"
