"""The irreps of cyclic and dihedral groups in closed form, by frequency.

At frequency k, a rotation by 2πj/n acts as the rotation by 2πkj/n, which is one of the same n rotations. So all irreps
of a group look up their matrices in one table of n rotations, and each one stores only its frequency.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..._digest import content_digest
from ...errors import InputError
from .._group import Element
from .._representation import Representation
from ._matrix_representation import MatrixRepresentation
from ._tables import Table, snapped

if TYPE_CHECKING:
    from ._finite_group import FiniteGroup


class TurningRepresentation(Representation):
    """The two-dimensional irrep in which element j rotates by 2πkj/n, and element n + j reflects first.

    It is the restriction of the irrep of O(2) with the same frequency. For k = 1, it is the motions themselves.

    Args:
        group: a group with the table of Cyclic(n) or Dihedral(n).
        rotations: ``(n, 2, 2)``, the rotations by multiples of 2π/n.
        frequency: k.
    """

    dim = 2

    def __init__(self, group: FiniteGroup, rotations: Tensor, frequency: int) -> None:
        self.group, self.name, self.frequency = group, f"irrep({frequency})", frequency
        self._finite, self._rotations = group, rotations

    def _turn(self, g: Element) -> tuple[Tensor, Tensor]:
        """The rotations, and whether a reflection comes before each."""
        index, n = torch.as_tensor(self._finite.require_element(g)), len(self._rotations)
        return self._rotations[self.frequency * (index % n) % n], index >= n

    def __call__(self, g: Element) -> Tensor:
        turns, mirrored = self._turn(g)
        if len(self._rotations) == self._finite.order:
            return turns
        signs = turns.new_tensor([-1.0, 1.0] if self.frequency % 2 else [1.0, -1.0])
        return torch.where(mirrored[..., None, None], turns * signs, turns) + 0.0  # + 0.0 turns -0.0 into 0.0

    def character(self, g: Element) -> Tensor:
        turns, mirrored = self._turn(g)
        return torch.where(mirrored, 0.0, 2 * turns[..., 0, 0])

    @cached_property
    def digest(self) -> str:
        return content_digest("matrices", self.group.digest, self(self.group.elements))

    @property
    def permutation_table(self) -> Tensor | None:
        return None

    @property
    def is_orthogonal(self) -> bool:
        return True

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)


def irreps_by_frequency(group: FiniteGroup) -> tuple[Representation, ...] | None:
    """The irreps by ascending frequency, for a group with the table of Cyclic(n) or Dihedral(n); else None.

    The rows of the generators determine a group's table, so it is enough to compare these.
    """
    t, half = group._t, group.order // 2
    k, j = np.arange(group.order), np.arange(half)
    if group.order == 1 or np.array_equal(t[1], (1 + k) % group.order):
        return cyclic_irreps(group)
    turned, back = (1 + j) % max(half, 1), -j % max(half, 1)
    of_turn, of_mirror = np.r_[turned, half + turned], np.r_[half + back, back]
    if np.array_equal(t[1], of_turn) and np.array_equal(t[half], of_mirror):
        return dihedral_irreps(group)
    return None


def irrep_of_frequency(group: FiniteGroup, frequency: int, parity: int | None, *, caller: str) -> Representation:
    """The irrep of this frequency. If there are two, the one in which the reflection acts by ``parity``."""
    by_name = {psi.name: psi for psi in group.irreps}
    exact = {None: f"irrep({frequency})", 1: f"irrep({frequency}, +1)", -1: f"irrep({frequency}, -1)"}
    candidates = [exact[parity]] if parity in exact and not isinstance(parity, bool) else []
    candidates += [exact[1]] if parity is None else []
    candidates += ["trivial"] if frequency == 0 and parity in (None, 1) else []
    is_whole = isinstance(frequency, int) and not isinstance(frequency, bool)
    irrep = next((by_name[name] for name in candidates if name in by_name), None) if is_whole else None
    if irrep is None:
        raise InputError(
            caller,
            expected=f"one of {_listed(list(by_name))}",
            got=f"frequency {frequency!r}" + (f" with parity {parity!r}" if parity is not None else ""),
            fix="A parity, +1 or -1, distinguishes the one-dimensional irreps of the same frequency.",
        )
    return irrep


def cyclic_table(n: int) -> Table:
    """The table of Cyclic(n): element j is the j-th power of element 1."""
    k = np.arange(n)
    return np.asarray((k[:, None] + k) % n)


def dihedral_table(n: int) -> Table:
    """The table of Dihedral(n): element j < n is a rotation; element n + j first reflects, then rotates."""
    k, flip = np.tile(np.arange(n), 2), np.repeat([0, 1], n)
    turned = np.where(flip[:, None] == 0, k[:, None] + k, k[:, None] - k) % n
    return np.asarray(turned + n * (flip[:, None] ^ flip))


def rotations(n: int) -> Tensor:
    """The rotations by multiples of 2π/n, ``(n, 2, 2)``. Those that map the square lattice to itself are exact."""
    angle = 2 * np.pi * np.arange(n) / n
    c, s = np.cos(angle), np.sin(angle)
    return torch.from_numpy(snapped(np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)))


def cyclic_irreps(group: FiniteGroup) -> tuple[Representation, ...]:
    """The irreps of a group with the table of Cyclic(n)."""
    n = group.order
    turns = rotations(n)
    pairs = [TurningRepresentation(group, turns, k) for k in range(1, (n + 1) // 2)]
    last = [_signs(group, (-1.0) ** np.arange(n), f"irrep({n // 2})")] if n % 2 == 0 else []
    return (group.trivial, *pairs, *last)


def dihedral_irreps(group: FiniteGroup) -> tuple[Representation, ...]:
    """The irreps of a group with the table of Dihedral(n)."""
    n = group.order // 2
    turns, mirrored = rotations(n), np.repeat([1.0, -1.0], n)
    pairs = [TurningRepresentation(group, turns, k) for k in range(1, (n + 1) // 2)]
    last = []
    if n % 2 == 0:
        alternating = np.tile((-1.0) ** np.arange(n), 2)
        last.append(_signs(group, alternating, f"irrep({n // 2}, +1)"))
        last.append(_signs(group, alternating * mirrored, f"irrep({n // 2}, -1)"))
    return (group.trivial, _signs(group, mirrored, "irrep(0, -1)"), *pairs, *last)


def _signs(group: FiniteGroup, values: np.ndarray, name: str) -> MatrixRepresentation:
    return MatrixRepresentation(group, torch.from_numpy(values)[:, None, None], name=name, validated=True)


def _listed(names: list[str]) -> str:
    return ", ".join(names if len(names) < 8 else [*names[:4], "...", names[-1]])
