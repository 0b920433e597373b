"""Building, checking and reading Cayley tables, with plain functions on ``(n, n)`` integer arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import GroupLawError

Table = NDArray[np.int64]

MAX_ORDER = 10_080
"""A Cayley table of this order takes 800 MB. Enumeration stops here with an error."""


def validated_table(table: Any, *, caller: str) -> Table:
    """The table as an integer array, checked for closure, identity, inverses and associativity."""
    t = np.asarray(table)
    if t.ndim != 2 or t.shape[0] != t.shape[1] or t.shape[0] == 0:
        raise GroupLawError(
            caller,
            expected="a square table of shape (n, n)",
            got=f"shape {tuple(t.shape)}",
            fix="Entry [a, b] is the product a·b, as an integer from 0 to n-1.",
        )
    n = len(t)
    is_integer = t.dtype.kind in "iu" or (t.dtype.kind == "f" and np.array_equal(t, np.round(t)))
    if not is_integer:
        raise GroupLawError(
            caller, expected="integer entries", got=f"entries of type {t.dtype}", fix="Number the elements 0..n-1."
        )
    t = t.astype(np.int64)
    outside = np.argwhere((t < 0) | (t >= n))
    if len(outside):
        a, b = outside[0]
        raise GroupLawError(
            caller,
            expected=f"closure: every product is one of the elements 0..{n - 1}",
            got=f"{a}·{b} = {t[a, b]}",
            fix="Add the missing elements or renumber the table.",
        )
    _require_identity(t, caller)
    _require_inverses(t, caller)
    for c in range(n):
        wrong = np.argwhere(t[t[:, c], :] != t[:, t[c, :]])
        if len(wrong):
            a, b = wrong[0]
            raise GroupLawError(
                caller,
                expected="associativity: (a·b)·c = a·(b·c)",
                got=f"({a}·{c})·{b} = {t[t[a, c], b]} but {a}·({c}·{b}) = {t[a, t[c, b]]}",
                fix="Check these entries of the table.",
            )
    return t


def _require_identity(t: Table, caller: str) -> None:
    n = len(t)
    wrong = np.flatnonzero((t[0] != np.arange(n)) | (t[:, 0] != np.arange(n)))
    if not len(wrong):
        return
    neutral = [e for e in range(n) if np.array_equal(t[e], np.arange(n)) and np.array_equal(t[:, e], np.arange(n))]
    g = wrong[0]
    raise GroupLawError(
        caller,
        expected="identity: 0·g = g·0 = g for every g",
        got=f"0·{g} = {t[0, g]} and {g}·0 = {t[g, 0]}",
        fix=f"Element {neutral[0]} is the identity: exchange the numbers 0 and {neutral[0]}."
        if neutral
        else "The table has no identity.",
    )


def _require_inverses(t: Table, caller: str) -> None:
    for g in range(len(t)):
        right, left = np.flatnonzero(t[g] == 0), np.flatnonzero(t[:, g] == 0)
        if len(right) != 1 or len(left) != 1 or right[0] != left[0]:
            raise GroupLawError(
                caller,
                expected=f"inverses: exactly one h with {g}·h = h·{g} = 0",
                got=f"right inverses {right.tolist()}, left inverses {left.tolist()} of element {g}",
                fix="Every row and every column of a group's table holds each element once.",
            )


@dataclass(frozen=True)
class Enumeration:
    """A group listed from its generators: the members in order of discovery, identity first, and the table."""

    members: list[Any]
    table: Table


def enumerate_group(
    generators: Sequence[Any],
    identity: Any,
    compose: Callable[[Any, Any], Any],
    key: Callable[[Any], Hashable],
    *,
    caller: str,
) -> Enumeration:
    """Close a set of generators under products.

    The search is breadth first, by right multiplication. Only products with generators are computed. The remaining
    columns of the table follow from (a·g)·s = a·(g·s), with one gather per column.
    """
    members, index = [identity], {key(identity): 0}
    found_by: list[tuple[int, int]] = [(0, -1)]
    right: list[list[int]] = [[] for _ in generators]
    current = 0
    while current < len(members):
        for k, s in enumerate(generators):
            product = compose(members[current], s)
            j = index.setdefault(key(product), len(members))
            if j == len(members):
                members.append(product)
                found_by.append((current, k))
            right[k].append(j)
            if len(members) > MAX_ORDER:
                raise GroupLawError(
                    caller,
                    expected=f"a finite group of at most {MAX_ORDER} elements",
                    got=f"more than that from {len(generators)} generators",
                    fix="Check the generators; a rotation by an irrational angle, for example, never closes.",
                )
        current += 1
    n = len(members)
    table = np.empty((n, n), np.int64)
    table[:, 0] = np.arange(n)
    steps = [np.asarray(r, np.int64) for r in right]
    for j in range(1, n):
        parent, k = found_by[j]
        table[:, j] = steps[k][table[:, parent]]
    return Enumeration(members, table)


def inverse_table(table: Table) -> Table:
    """The inverse of each element."""
    return np.argmax(table == 0, axis=1)


def closure(table: Table, generators: Iterable[int], start: Table | None = None) -> Table:
    """The sorted elements of the subgroup generated by ``generators`` (and a subgroup ``start``)."""
    gens = [int(g) for g in generators]
    inside = np.zeros(len(table), bool)
    inside[0] = True
    if start is not None:
        inside[start] = True
        gens += [int(g) for g in start]
    frontier = np.flatnonzero(inside)
    while len(frontier):
        reached = np.unique(table[frontier][:, gens]) if gens else frontier[:0]
        frontier = reached[~inside[reached]]
        inside[frontier] = True
    return np.flatnonzero(inside)


def small_generating_set(table: Table) -> tuple[int, ...]:
    """Generators, each of which is the first element that the earlier ones don't generate."""
    gens: list[int] = []
    reached = closure(table, gens)
    while len(reached) < len(table):
        outside = np.setdiff1d(np.arange(len(table)), reached, assume_unique=True)
        gens.append(int(outside[0]))
        reached = closure(table, gens)
    return tuple(gens)


def element_orders(table: Table) -> Table:
    """The order of each element."""
    n = len(table)
    orders, power = np.zeros(n, np.int64), np.arange(n)
    k = 1
    while (orders == 0).any():
        orders[(power == 0) & (orders == 0)] = k
        power = table[power, np.arange(n)]
        k += 1
    return orders


def conjugacy_classes(table: Table) -> Table:
    """The index of each element's conjugacy class. Classes are numbered in order of their first elements."""
    n, inv = len(table), inverse_table(table)
    label = np.full(n, -1, np.int64)
    count = 0
    for g in range(n):
        if label[g] < 0:
            label[table[table[np.arange(n), g], inv]] = count
            count += 1
    return label


def left_cosets(table: Table, subgroup: Table) -> tuple[Table, Table]:
    """The representatives (the smallest element of each coset gH) and the coset of each element."""
    projection = np.full(len(table), -1, np.int64)
    representatives: list[int] = []
    for g in range(len(table)):
        if projection[g] < 0:
            projection[table[g, subgroup]] = len(representatives)
            representatives.append(g)
    return np.asarray(representatives, np.int64), projection


def snapped(matrix: Any) -> Any:
    """Make entries exact that are within rounding error of -1, -1/2, 0, 1/2 or 1. Lattice motions then stay integer."""
    halves = np.round(2 * np.asarray(matrix)) / 2
    return np.where(np.abs(matrix - halves) < 1e-12, halves, matrix) + 0.0


def cycles(t: Table, g: int) -> Table:
    """The cycles x, g·x, g²·x, … of multiplication by g, one per row, by their smallest elements."""
    rows: list[list[int]] = []
    rest = dict.fromkeys(range(len(t)))
    while rest:
        row = [next(iter(rest))]
        while (following := int(t[g, row[-1]])) != row[0]:
            row.append(following)
        rows.append(row)
        for x in row:
            del rest[x]
    return np.array(rows, np.int64)


def double_cosets(t: Table, left: Table, right: Table) -> list[Table]:
    """The sets of products ``left``·g·``right`` of two subgroups, each sorted, by their smallest elements."""
    rest, cosets = np.ones(len(t), bool), []
    for g in range(len(t)):
        if rest[g]:
            coset = np.unique(t[t[left, g]][:, right])
            rest[coset] = False
            cosets.append(coset)
    return cosets


def open_pair(t: Table, elements: Sequence[int]) -> tuple[int, int, int]:
    """Two elements, or the identity twice, and their product, which is not among the elements.

    >>> open_pair(np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]]), [0, 1])
    (1, 1, 2)
    """
    inside = set(elements)
    pairs = ((a, b) for a in [0, *elements] for b in [0, *elements])
    return next((a, b, int(t[a, b])) for a, b in pairs if int(t[a, b]) not in inside)
