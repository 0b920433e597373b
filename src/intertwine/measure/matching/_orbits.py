"""Arrange channels into orbits of any finite group: which channels belong together, and in which order?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...groups import FiniteGroup

_SWEEPS = 30
_FEW, _STARTS = 64, 16  # up to this many channels, the search is repeated from this many perturbed starts
_GAIN = 1e-9


@dataclass(frozen=True)
class _Kind:
    """Orbits isomorphic to G/K: ``moved[g, a]`` is where g sends place a, ``between[a][b]`` the g ≠ 1 with a → b."""

    moved: np.ndarray
    between: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def size(self) -> int:
        return len(self.between)


@dataclass
class _Orbits:
    """Orbits of one kind: ``points[o, a]`` is the channel at place a of orbit o."""

    kind: _Kind
    points: np.ndarray


def best_orbits(group: FiniteGroup, moves: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """An action of the group on n points that (nearly) maximizes Σ_{g ≠ 1} Σ_j moves_g[j, g j]; row g: images.

    Every action is a disjoint union of orbits G/K. Orbits are grown place by place from every channel, and those that
    gain most over fixed points are taken first. Then, one place at a time, that place is emptied in every orbit and
    filled again, which is a linear assignment and solved exactly. Orbits that do not pay are dissolved, and fixed
    points may form new orbits, until nothing improves. For few channels this is repeated from perturbed starts. It is a
    heuristic: each step is optimal given the others, but the result may not be. It is always an action of the group.
    """
    n = len(next(iter(moves.values())))
    if n < 2:
        return {g: np.arange(n) for g in range(group.order)}
    fixed_worth = sum((np.diag(m) for m in moves.values()), start=np.zeros(n))
    kinds = _kinds(group)
    best: list[_Orbits] = []
    worth = -np.inf
    starts = [(allowed, moves) for allowed in (kinds, *([k] for k in kinds if len(kinds) > 1))]
    if n <= _FEW:
        starts += [(allowed, _perturbed(moves, seed)) for allowed, _ in starts for seed in range(_STARTS)]
    for allowed, seen in starts:
        candidate = _search(allowed, moves, fixed_worth, seen)
        value = _total(candidate, moves, fixed_worth)
        if value > worth + _GAIN:
            best, worth = candidate, value
    action = {g: np.arange(n) for g in range(group.order)}
    for orbits in best:
        for g in range(group.order):
            action[g][orbits.points] = orbits.points[:, orbits.kind.moved[g]]
    return action


def _kinds(group: FiniteGroup) -> list[_Kind]:
    """The transitive actions on more than one point, one per conjugacy class of subgroups."""
    kinds = []
    for each in group.subgroup_classes():
        moved = each.representative.coset_action.numpy()
        places = range(moved.shape[1])
        if len(places) > 1:
            between = (
                tuple(tuple(g for g in range(1, group.order) if moved[g, a] == b) for b in places) for a in places
            )
            kinds.append(_Kind(moved, tuple(between)))
    return kinds


def _perturbed(moves: Mapping[int, np.ndarray], seed: int) -> dict[int, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {g: m + m.std() * generator.normal(size=m.shape) for g, m in moves.items()}


def _search(
    kinds: Sequence[_Kind],
    moves: Mapping[int, np.ndarray],
    fixed_worth: np.ndarray,
    seen: Mapping[int, np.ndarray],
) -> list[_Orbits]:
    """Grow orbits by the scores ``seen``, then improve them by the true scores."""
    orbits = [_Orbits(kind, np.zeros((0, kind.size), int)) for kind in kinds]
    _grow(orbits, seen, sum((np.diag(m) for m in seen.values()), start=np.zeros(len(fixed_worth))))
    value = _total(orbits, moves, fixed_worth)
    for _ in range(_SWEEPS):
        for place in range(max(kind.size for kind in kinds)):
            _refill(orbits, place, moves, fixed_worth)
        for family in orbits:
            family.points = family.points[_worth(family, moves) > fixed_worth[family.points].sum(1)]
        _grow(orbits, moves, fixed_worth)
        now = _total(orbits, moves, fixed_worth)
        if now <= value + _GAIN:
            break
        value = now
    return orbits


def _free(orbits: Sequence[_Orbits], n: int) -> np.ndarray:
    free = np.ones(n, bool)
    for family in orbits:
        free[family.points] = False
    return np.flatnonzero(free)


def _worth(orbits: _Orbits, moves: Mapping[int, np.ndarray]) -> np.ndarray:
    """The score of each orbit."""
    out = np.zeros(len(orbits.points))
    for a, row in enumerate(orbits.kind.between):
        for b, elements in enumerate(row):
            for g in elements:
                out += moves[g][orbits.points[:, a], orbits.points[:, b]]
    return out


def _total(orbits: Sequence[_Orbits], moves: Mapping[int, np.ndarray], fixed_worth: np.ndarray) -> float:
    free = _free(orbits, len(fixed_worth))
    return float(fixed_worth[free].sum() + sum(_worth(family, moves).sum() for family in orbits))


def _at_place(
    kind: _Kind, points: np.ndarray, place: int, filled: Sequence[int], moves: Mapping[int, np.ndarray]
) -> np.ndarray:
    """The gain in score of each channel at a place of each orbit, given the filled places."""
    n = len(next(iter(moves.values())))
    out = np.zeros((len(points), n))
    for g in kind.between[place][place]:
        out += np.diag(moves[g])
    for other in filled:
        for g in kind.between[other][place]:
            out += moves[g][points[:, other]]
        for g in kind.between[place][other]:
            out += moves[g][:, points[:, other]].T
    return out


def _grow(orbits: Sequence[_Orbits], moves: Mapping[int, np.ndarray], fixed_worth: np.ndarray) -> None:
    """Form new orbits of fixed points: grow one from each point, and take the best that are disjoint."""
    while True:
        free = _free(orbits, len(fixed_worth))
        candidates = [
            (float(gain) / family.kind.size, number, points)
            for number, family in enumerate(orbits)
            for gain, points in _grown(family.kind, free, moves, fixed_worth)
        ]
        taken: set[int] = set()
        for gain, number, points in sorted(candidates, key=lambda c: -c[0]):
            if gain > _GAIN and taken.isdisjoint(points.tolist()):
                taken |= set(points.tolist())
                orbits[number].points = np.concatenate([orbits[number].points, points[None]])
        if not taken:
            return


def _grown(
    kind: _Kind, free: np.ndarray, moves: Mapping[int, np.ndarray], fixed_worth: np.ndarray
) -> Iterator[tuple[float, np.ndarray]]:
    if len(free) < kind.size:
        return
    points = np.zeros((len(free), kind.size), int)
    points[:, 0] = free
    every = np.arange(len(free))
    for place in range(1, kind.size):
        gain = _at_place(kind, points, place, range(place), moves) - fixed_worth
        allowed = np.full(gain.shape, -np.inf)
        allowed[:, free] = gain[:, free]
        for before in range(place):
            allowed[every, points[:, before]] = -np.inf
        points[:, place] = allowed.argmax(1)
    gains = _worth(_Orbits(kind, points), moves) - fixed_worth[points].sum(1)
    yield from zip(gains.tolist(), points, strict=True)


def _refill(orbits: Sequence[_Orbits], place: int, moves: Mapping[int, np.ndarray], fixed_worth: np.ndarray) -> None:
    """Reassign which channels fill one place of all orbits and which stay fixed: an assignment, solved exactly."""
    from scipy.optimize import linear_sum_assignment

    chosen = [family for family in orbits if family.kind.size > place and len(family.points)]
    if not chosen:
        return
    free = _free(orbits, len(fixed_worth))
    pool = np.concatenate([*(family.points[:, place] for family in chosen), free])
    rows = []
    for family in chosen:
        others = [a for a in range(family.kind.size) if a != place]
        rows.append(_at_place(family.kind, family.points, place, others, moves)[:, pool])
    table = np.concatenate([*rows, np.broadcast_to(fixed_worth[pool], (len(free), len(pool)))])
    assigned = pool[linear_sum_assignment(table, maximize=True)[1]]
    start = 0
    for family in chosen:
        family.points[:, place] = assigned[start : start + len(family.points)]
        start += len(family.points)
