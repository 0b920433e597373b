"""The type of channels that a group permutes: orbits, each a quotient of the group."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._devices import on_cpu
from ...errors import InputError
from ...groups import FiniteGroup, Representation, Subgroup, direct_sum
from ...spaces import Grid2d


@on_cpu
def orbit_type(group: FiniteGroup, table: Tensor) -> tuple[Tensor, Representation]:
    """An order of the channels and the representation that acts on them in this order.

    Each orbit is one field: trivial for a channel that stays, regular for |G| channels, else a quotient G/H. Fields of
    one kind stand side by side.

    Args:
        group: G.
        table: ``(|G|, channels)``, where element g sends channel j to ``table[g, j]``.

    >>> from intertwine.groups import Cyclic
    >>> orbit_type(Cyclic(2), torch.tensor([[0, 1, 2], [2, 1, 0]]))
    (tensor([1, 0, 2]), C2: trivial + regular)
    """
    subgroups = [each.representative for each in group.subgroup_classes()]
    classes = {tuple(sorted(subgroup.embedding.tolist())): subgroup for subgroup in subgroups}
    kinds: dict[tuple[int, ...], list[int]] = {}
    seen: set[int] = set()
    for channel in range(table.shape[1]):
        if channel not in seen:
            orbit = table[:, channel].unique().tolist()
            seen.update(orbit)
            # Stabilizers in one orbit are conjugate. Choosing the representative of the class makes equal orbits of
            # equal type, no matter which channel comes first.
            fixed_by = {tuple((table[:, c] == c).nonzero().flatten().tolist()): c for c in reversed(orbit)}
            stabilizer = next(members for members in classes if members in fixed_by)
            kinds.setdefault(stabilizer, []).append(fixed_by[stabilizer])
    order: list[int] = []
    fields: list[Representation] = []
    for stabilizer, bases in sorted(kinds.items(), key=lambda item: (-len(item[0]), item[0])):
        rho, representatives = _coset_field(group, classes[stabilizer])
        for base in bases:
            order += table[representatives, base].tolist()
            fields.append(rho)
    return torch.tensor(order), direct_sum(fields)


def _coset_field(group: FiniteGroup, subgroup: Subgroup) -> tuple[Representation, Tensor]:
    """The representation on the cosets of a subgroup, and one element of each coset, in the order of the channels."""
    if subgroup.order == group.order:
        return group.trivial, torch.zeros(1, dtype=torch.int64)
    if subgroup.order == 1:
        return group.regular, group.elements
    return group.quotient(subgroup), subgroup.coset_representatives


def finite(space: Grid2d) -> FiniteGroup:
    """The finite group that acts on a plane."""
    if not isinstance(space.stabilizer, FiniteGroup):
        raise InputError("typed", expected="a finite group", got=space.stabilizer.name)
    return space.stabilizer
