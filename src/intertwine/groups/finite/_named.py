"""Finite groups with a name: cyclic, dihedral, symmetric, alternating, quaternion and polyhedral."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import permutations, product
from typing import Any

import numpy as np
import torch

from ..._checked import checked
from ...errors import InputError
from .._catalog import register_group
from .._representation import Representation
from . import _tables
from ._finite_group import FiniteGroup
from ._frequencies import cyclic_irreps, cyclic_table, dihedral_irreps, dihedral_table, irrep_of_frequency, rotations
from ._generate import cycle_notation
from ._tables import Table, snapped


@register_group("C", about="rotations of the plane by multiples of 360°/n", numbered=True)
class Cyclic(FiniteGroup):
    """C_n, the rotations of the plane by multiples of 2π/n. Element k rotates by 2πk/n, counterclockwise.

    >>> Cyclic(4).compose(3, 2)
    1
    """

    @checked
    def __init__(self, n: int) -> None:
        _require_count("Cyclic", n)
        super().__init__(
            cyclic_table(n),
            name=f"C{n}",
            labels=[_power("r", i) for i in range(n)],
            standard_matrices=rotations(n),
            validated=True,
        )

    @cached_property
    def irreps(self) -> tuple[Representation, ...]:
        """All real irreducible representations, sorted by frequency: ``irreps[k]`` is ``irrep(k)``."""
        return cyclic_irreps(self)

    @checked
    def irrep(self, frequency: int) -> Representation:
        """The irrep in which element 1 rotates by ``frequency`` · 2π/n, for frequencies 0 to n/2.

        The dimension is 2, except for frequency 0 and, if n is even, n/2, where it is 1. At n/2, element 1 changes the
        sign.

        >>> [Cyclic(8).irrep(k).dim for k in range(5)]
        [1, 2, 2, 2, 1]
        """
        return irrep_of_frequency(self, frequency, None, caller=f"{self.name}.irrep")


@register_group("D", about="rotations and reflections of the plane, of order 2n", numbered=True)
class Dihedral(FiniteGroup):
    """D_n, of order 2n. Element k < n rotates by 2πk/n; element n + k first reflects left-right, then rotates by 2πk/n.

    Element n is the reflection x ↦ -x, which flips a photo left to right. ``Grid2d("D1")`` is the plane with just that
    reflection.

    >>> Dihedral(4).label(5)
    'r s'
    """

    @checked
    def __init__(self, n: int) -> None:
        _require_count("Dihedral", n)
        turns = rotations(n)
        super().__init__(
            dihedral_table(n),
            name=f"D{n}",
            labels=[_power("r", i) for i in range(n)] + [f"{_power('r', i)} s" if i else "s" for i in range(n)],
            standard_matrices=torch.cat([turns, turns * turns.new_tensor([-1.0, 1.0])]) + 0.0,
            validated=True,
        )

    @cached_property
    def irreps(self) -> tuple[Representation, ...]:
        """All real irreducible representations, sorted by frequency, then by parity."""
        return dihedral_irreps(self)

    @checked
    def irrep(self, frequency: int, parity: int | None = None) -> Representation:
        """The irrep in which element 1 rotates by ``frequency`` · 2π/n, for frequencies 0 to n/2.

        Between 0 and n/2, the dimension is 2, and the irrep is the restriction of ``O2().irrep(frequency)``. Frequency
        1 is the standard representation. At 0 and, if n is even, at n/2, there are two irreps of dimension 1. With
        ``parity`` 1, the default, the reflection does nothing; with parity -1, it changes the sign.

        >>> [Dihedral(4).irrep(*k) for k in ((0,), (0, -1), (1,), (2,), (2, -1))]
        [D4: trivial, D4: irrep(0, -1), D4: irrep(1), D4: irrep(2, +1), D4: irrep(2, -1)]
        """
        return irrep_of_frequency(self, frequency, parity, caller=f"{self.name}.irrep")


@register_group("S", about="all permutations of n points, for n up to 7", numbered=True)
class Symmetric(FiniteGroup):
    """S_n, all permutations of n points in lexicographic order.

    >>> Symmetric(4).order
    24
    """

    @checked
    def __init__(self, n: int) -> None:
        _require_count("Symmetric", n, maximum=7)
        members = list(permutations(range(n)))
        super().__init__(_permutation_table(members), name=f"S{n}", validated=True, **_permuting(members))


@register_group("A", about="even permutations of n points, for n up to 7", numbered=True)
class Alternating(FiniteGroup):
    """A_n, the even permutations of n points in lexicographic order.

    >>> Alternating(4).order
    12
    """

    @checked
    def __init__(self, n: int) -> None:
        _require_count("Alternating", n, maximum=7)
        members = [p for p in permutations(range(n)) if _is_even(p)]
        super().__init__(_permutation_table(members), name=f"A{n}", validated=True, **_permuting(members))


@register_group("Q8", about="the quaternion units")
class Quaternion(FiniteGroup):
    """Q_8 = {1, -1, i, -i, j, -j, k, -k}, in this order.

    >>> Q = Quaternion()
    >>> Q.label(Q.compose(2, 4))
    'k'
    """

    def __init__(self) -> None:
        one, i = np.eye(2), np.array([[1j, 0], [0, -1j]])
        j = np.array([[0, 1], [-1, 0]])
        members = [sign * u for u in (one, i, j, i @ j) for sign in (1, -1)]
        table = [[_nearest(a @ b, members) for b in members] for a in members]
        super().__init__(table, name="Q8", labels=["1", "-1", "i", "-i", "j", "-j", "k", "-k"], validated=True)


@register_group("T", about="rotations of the tetrahedron")
class Tetrahedral(FiniteGroup):
    """T, the 12 rotations of the tetrahedron inside the cube.

    >>> Tetrahedral().order
    12
    """

    def __init__(self) -> None:
        table, motions = _matrix_group([_axis_cycle(), np.diag([1.0, -1.0, -1.0])])
        super().__init__(table, name="T", standard_matrices=motions, validated=True)


@register_group("O", about="rotations of the cube")
class Octahedral(FiniteGroup):
    """O, the 24 rotations of the cube; with reflections, O_h, all 48 signed permutation matrices.

    >>> Octahedral().order, Octahedral(reflections=True).order
    (24, 48)
    """

    @checked
    def __init__(self, *, reflections: bool = False) -> None:
        gens = [_axis_cycle(), np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])]
        gens += [-np.eye(3)] if reflections else []
        table, motions = _matrix_group(gens)
        super().__init__(table, name="Oh" if reflections else "O", standard_matrices=motions, validated=True)


@register_group("I", about="rotations of the icosahedron")
class Icosahedral(FiniteGroup):
    """I, the 60 rotations of the icosahedron with vertices at cyclic permutations of (0, ±1, ±φ); I_h has 120 elements.

    >>> Icosahedral().order
    60
    """

    @checked
    def __init__(self, *, reflections: bool = False) -> None:
        golden = (1 + 5**0.5) / 2
        fifth = 0.5 * np.array([[golden - 1, -golden, 1], [golden, 1, golden - 1], [-1, golden - 1, golden]])
        gens = [_axis_cycle(), np.diag([-1.0, -1.0, 1.0]), fifth]
        gens += [-np.eye(3)] if reflections else []
        table, motions = _matrix_group(gens)
        super().__init__(table, name="Ih" if reflections else "I", standard_matrices=motions, validated=True)


@register_group("Oh", about="rotations and reflections of the cube")
def _full_octahedral() -> FiniteGroup:
    return Octahedral(reflections=True)


@register_group("Ih", about="rotations and reflections of the icosahedron")
def _full_icosahedral() -> FiniteGroup:
    return Icosahedral(reflections=True)


def _axis_cycle() -> np.ndarray:
    return np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])


def _matrix_group(generators: Sequence[np.ndarray]) -> tuple[Table, torch.Tensor]:
    group = _tables.enumerate_group(
        list(generators),
        np.eye(3),
        lambda a, b: snapped(a @ b),
        lambda m: (m.round(6) + 0.0).tobytes(),
        caller="motions",
    )
    return group.table, torch.from_numpy(np.stack(group.members))


def _permuting(members: list[tuple[int, ...]]) -> dict[str, Any]:
    return {"labels": [cycle_notation(p) for p in members], "permutations": torch.tensor(members, dtype=torch.int64)}


def _permutation_table(members: list[tuple[int, ...]]) -> Table:
    perms = np.asarray(members, np.int64).reshape(len(members), -1)
    weights = perms.shape[1] ** np.arange(perms.shape[1])[::-1]
    codes = perms @ weights  # increasing, because the members are in lexicographic order
    return np.stack([np.searchsorted(codes, p[perms] @ weights) for p in perms])


def _is_even(p: Sequence[int]) -> bool:
    return sum(p[i] > p[j] for i, j in product(range(len(p)), repeat=2) if i < j) % 2 == 0


def _nearest(matrix: np.ndarray, members: list[np.ndarray]) -> int:
    return int(np.argmin([np.abs(matrix - m).max() for m in members]))


def _power(letter: str, k: int) -> str:
    return "e" if k == 0 else letter if k == 1 else f"{letter}^{k}"


def _require_count(caller: str, n: int, *, maximum: int = 5040) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= maximum:
        raise InputError(
            caller, expected=f"a whole number from 1 to {maximum}", got=repr(n), fix=f"For example {caller}(4)."
        )
