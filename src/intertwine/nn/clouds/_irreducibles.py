"""Fields on a cloud, sorted by degree: the layout in which edges turn them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..._devices import on_cpu
from ...errors import InputError
from ...groups import O2, O3, SO2, SO3, Representation
from ...spaces import Cloud, FieldType


@dataclass(frozen=True)
class Kind:
    """``count`` copies of one irreducible.

    Attributes:
        degree: l in space, the frequency in the plane.
        natural: whether reflections act on it as on harmonics of this degree; False for pseudoscalars and the like.
        count: the number of copies.
        first: where its copies start among all copies of this degree.
    """

    degree: int
    natural: bool
    count: int
    first: int


@dataclass(frozen=True)
class SortedFields:
    """The channels of a field type sorted by degree, then by row of the irreducible, then by copy.

    Rotating all copies of a degree is then one product of matrices, and the copies of one row lie next to each other.

    Attributes:
        kinds: the irreducibles, sorted by degree.
        order: the channel of the field type that comes at each place.
    """

    kinds: tuple[Kind, ...]
    order: Tensor
    dims: dict[int, int]

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degrees that occur, in order."""
        return tuple(dict.fromkeys(kind.degree for kind in self.kinds))

    def count(self, degree: int) -> int:
        """The number of copies of a degree."""
        return sum(kind.count for kind in self.kinds if kind.degree == degree)

    @property
    def inverse(self) -> Tensor:
        """Where each channel of the field type is in the sorted layout."""
        return torch.argsort(self.order)


@on_cpu
def sorted_fields(field: FieldType, *, caller: str) -> SortedFields:
    """Sort the channels of a field type whose summands are irreducibles."""
    space = field.space
    if not isinstance(space, Cloud) or not isinstance(space.stabilizer, SO2 | O2 | SO3 | O3):
        raise InputError(
            caller,
            expected="a field type on a cloud under SO(2), O(2), SO(3) or O(3)",
            got=str(field),
            fix='Make one with intertwine.spaces.Cloud3d("SO(3)").field("8*irrep0 + 4*irrep1").',
        )
    channels: dict[tuple[int, bool], list[list[int]]] = {}
    start = 0
    for atom in field.rho.summands:
        channels.setdefault(_label(space.stabilizer, atom, caller), []).append([*range(start, start + atom.dim)])
        start += atom.dim
    kinds, order, dims = [], [], {}
    for degree in sorted({degree for degree, _ in channels}):
        copies: list[list[int]] = []
        for natural in (True, False):
            some = channels.get((degree, natural), [])
            if some:
                kinds.append(Kind(degree, natural, len(some), len(copies)))
            copies += some
        dims[degree] = len(copies[0])
        order += [copy[row] for row in range(dims[degree]) for copy in copies]
    return SortedFields(tuple(kinds), torch.tensor(order, dtype=torch.int64), dims)


def _label(group: SO2 | O2 | SO3 | O3, atom: Representation, caller: str) -> tuple[int, bool]:
    """The degree of an irreducible, and whether reflections act on it naturally."""
    degree = atom.dim // 2
    if isinstance(group, SO2 | O2) and atom.dim == 2:
        degree = int(getattr(atom, "degree", 0))
    candidates = {(degree, True): group.irrep(degree)}
    if isinstance(group, O2) and degree == 0:
        candidates[degree, False] = group.irrep(0, -1)
    if isinstance(group, O3):
        candidates[degree, False] = group.irrep(degree, -((-1) ** degree))
    for label, irreducible in candidates.items():
        if atom == irreducible:
            return label
    raise InputError(
        caller,
        expected="a field type that is a sum of irreducibles",
        got=f"the summand {atom.name}",
        fix="Pass the type through intertwine.nn.ToIrreps, or name irreducibles: irrep0, irrep1, ...",
    )
