"""Direct and semidirect products of finite groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._checked import checked, describe
from ...errors import GroupLawError, InputError
from ._finite_group import FiniteGroup


@checked
def direct_product(*factors: FiniteGroup) -> FiniteGroup:
    """The direct product. The last factor's index varies fastest.

    >>> from intertwine.groups import Cyclic
    >>> direct_product(Cyclic(2), Cyclic(3)).is_abelian
    True
    """
    if not factors:
        raise InputError("direct_product", expected="at least one group", got="none")
    product = factors[0]
    for factor in factors[1:]:
        trivial_action = np.tile(np.arange(product.order), (factor.order, 1))
        product = _combine(product, factor, trivial_action, name=f"{product.name} x {factor.name}")
    return product


@checked
def semidirect_product(
    normal: FiniteGroup, acting: FiniteGroup, action: Any, *, name: str | None = None
) -> FiniteGroup:
    """The semidirect product N ⋊ H: (a, h)(b, k) = (a·h(b), hk). Element (a, h) has index ``a * H.order + h``.

    Args:
        normal: the group N.
        acting: the group H.
        action: ``(H.order, N.order)``; row h lists the images of the elements of N under h.
        name: the product's name.

    >>> from intertwine.groups import Cyclic
    >>> semidirect_product(Cyclic(3), Cyclic(2), [[0, 1, 2], [0, 2, 1]]).is_abelian
    False
    """
    try:
        rows = np.asarray(action, np.int64)
    except (TypeError, ValueError):
        rows = np.empty(0, np.int64)
    caller = name or f"semidirect product of {normal.name} and {acting.name}"
    if rows.shape != (acting.order, normal.order) or not (np.sort(rows, 1) == np.arange(normal.order)).all():
        raise GroupLawError(
            caller,
            expected=f"one permutation of 0..{normal.order - 1} per element of {acting.name}, {acting.order} in all",
            got=f"an array of shape {rows.shape}" if rows.size else describe(action),
            fix="Row h lists the images of the elements of N under h.",
        )
    for h in range(acting.order):
        wrong = np.argwhere(rows[h][normal._t] != normal._t[np.ix_(rows[h], rows[h])])
        if len(wrong):
            a, b = wrong[0]
            raise GroupLawError(
                caller,
                expected="automorphisms: h(a·b) = h(a)·h(b)",
                got=f"a difference for h = {h}, a = {a}, b = {b}",
                fix="Each row of the action must be an automorphism of the normal factor.",
            )
        for k in range(acting.order):
            if not np.array_equal(rows[h][rows[k]], rows[acting._t[h, k]]):
                raise GroupLawError(
                    caller,
                    expected="an action: (hk)(a) = h(k(a))",
                    got=f"a difference for h = {h}, k = {k}",
                    fix="The map from H to automorphisms must be a homomorphism.",
                )
    return _combine(normal, acting, rows, name=name or f"{normal.name} : {acting.name}")


def _combine(normal: FiniteGroup, acting: FiniteGroup, rows: Any, *, name: str) -> FiniteGroup:
    n, h = normal.order, acting.order
    a, g = np.divmod(np.arange(n * h), h)
    moved = rows[g[:, None], a[None, :]]
    table = normal._t[a[:, None], moved] * h + acting._t[g[:, None], g[None, :]]
    labels = [f"({normal.label(int(i))}, {acting.label(int(j))})" for i, j in zip(a, g, strict=True)]
    return FiniteGroup(table, name=name, labels=labels, validated=True)
