"""Isomorphisms of finite groups, and their names up to isomorphism."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import product

import numpy as np

from ..._checked import checked
from . import _tables
from ._finite_group import FiniteGroup
from ._named import Alternating, Cyclic, Dihedral, Quaternion, Symmetric
from ._products import direct_product


@checked
def isomorphism(source: FiniteGroup, target: FiniteGroup) -> tuple[int, ...] | None:
    """An isomorphism, as the list of images of all elements; None if there is none.

    >>> isomorphism(Dihedral(3), Symmetric(3)) is not None, isomorphism(Dihedral(4), Quaternion())
    (True, None)
    """
    colors, others = _colors(source), _colors(target)
    if Counter(colors) != Counter(others):
        return None
    gens = source.generators
    choices = [[h for h in range(target.order) if others[h] == colors[g]] for g in gens]
    for images in product(*choices):
        extended = _extend(source, target, dict(zip(gens, images, strict=True)))
        if extended is not None:
            return extended
    return None


def _colors(group: FiniteGroup) -> list[tuple[int, ...]]:
    """Properties that an isomorphism preserves, for each element: its order, the size of its conjugacy class, the
    number of its square roots, and the size of the class of its square."""
    t = group._t
    orders = _tables.element_orders(t)
    sizes = np.bincount(group.class_of.numpy())[group.class_of.numpy()]
    squares = t[np.arange(len(t)), np.arange(len(t))]
    roots = np.bincount(squares, minlength=len(t))
    return list(zip(orders.tolist(), sizes.tolist(), roots.tolist(), sizes[squares].tolist(), strict=True))


def _extend(source: FiniteGroup, target: FiniteGroup, images: dict[int, int]) -> tuple[int, ...] | None:
    """The homomorphism with these images of generators, if it exists and is injective."""
    extended, frontier = {0: 0}, [0]
    while frontier:
        a = frontier.pop()
        for g, h in images.items():
            b, image = int(source._t[a, g]), int(target._t[extended[a], h])
            if b not in extended:
                extended[b] = image
                frontier.append(b)
            elif extended[b] != image:
                return None
    values = np.array([extended[g] for g in range(source.order)])
    if len(np.unique(values)) < source.order:
        return None
    return tuple(values.tolist())


@checked
def structure_name(group: FiniteGroup) -> str:
    """The name of a group up to isomorphism if it has a common one, else ``order`` and its order.

    >>> structure_name(Dihedral(4).subgroup([2, 4]))
    'C2 x C2'
    """
    if group.is_abelian:
        return _abelian_name(group)
    for candidate in _nonabelian(group.order):
        if isomorphism(group, candidate) is not None:
            return candidate.name
    return f"order{group.order}"


def _abelian_name(group: FiniteGroup) -> str:
    """The invariant factors, each dividing the one before, from the number of elements of each prime power order."""
    orders = group.element_orders
    factors: list[int] = []
    for p in _primes(group.order):
        exponents: list[int] = []
        q, below = p, 1
        while (count := int((q % orders == 0).sum())) > below:
            # count/below = p^(number of cyclic factors of order at least q)
            exponents.append(round(np.log(count / below) / np.log(p)))
            q, below = q * p, count
        for copies in exponents:
            factors += [1] * (copies - len(factors))
            for i in range(copies):
                factors[i] *= p
    return " x ".join(f"C{m}" for m in factors) or "C1"


def _primes(n: int) -> list[int]:
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]


@lru_cache(maxsize=256)
def _nonabelian(order: int) -> tuple[FiniteGroup, ...]:
    """Nonabelian groups of this order with a common name: the families first, then products with them."""
    simple: list[FiniteGroup] = []
    if order == 6:
        simple.append(Symmetric(3))
    if order in (24, 120):
        simple.append(Symmetric({24: 4, 120: 5}[order]))
    if order in (12, 60):
        simple.append(Alternating({12: 4, 60: 5}[order]))
    if order == 8:
        simple.append(Quaternion())
    if order % 2 == 0 and order >= 8:
        simple.append(Dihedral(order // 2))
    products = [
        direct_product(factor, rest)
        for k in range(6, order // 2 + 1)
        if order % k == 0
        for factor in _nonabelian(k)
        if " x " not in factor.name
        for rest in (*_nonabelian(order // k), *_abelian(order // k))
    ]
    return (*simple, *products)


def _abelian(order: int) -> list[FiniteGroup]:
    groups: list[FiniteGroup] = [Cyclic(order)]
    for k in range(2, order):
        if order % k == 0 and (order // k) % k == 0:
            groups.append(direct_product(Cyclic(order // k), Cyclic(k)))
    return groups
