"""Fields of a group as fields of a subgroup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._devices import on_cpu
from ...groups import (
    O2,
    O3,
    SO2,
    CompactLieGroup,
    Cyclic,
    Dihedral,
    FiniteGroup,
    Group,
    Octahedral,
    Representation,
    degree_of,
    direct_sum,
)
from ...spaces import FieldType, Grid, Grid2d, Grid3d
from .._layer import Exact, Layer, register_layer, require_grid


@register_layer
class Restrict(Layer):
    """The same values f(x) as fields of a subgroup K ≤ H: later layers need to commute only with K.

    Those layers have more weights: use this layer if the symmetry of the data ends at some scale. For a Lie group H,
    summands become irreducibles of K if their matrices agree.

    Shapes: any input of ``in_type`` to the same shape and the same numbers. Equivariance: exact for K and for
    translations.

    Args:
        in_type: fields on a ``Grid2d`` or ``Grid3d`` with group H.
        subgroup: K, made by ``H.subgroup(generators)`` for a finite H; for a Lie group any group of motions in it, such
            as ``Cyclic(n)`` in ``SO2()``, ``Octahedral()`` in ``SO3()``.

    >>> D4 = Dihedral(4)
    >>> turns = D4.subgroup([1])
    >>> layer = Restrict(Grid2d(D4).field(2 * D4.regular + D4.trivial), turns)
    >>> layer.out_type.rho.dim, layer.out_type.space.stabilizer == turns
    (17, True)
    >>> so2, C8 = SO2(), Cyclic(8)
    >>> Restrict(Grid2d(so2).field(so2.trivial + so2.irrep(1)), C8).out_type
    Field(trivial + irrep(1) on Grid2d(C8))
    """

    @checked
    def __init__(self, in_type: FieldType, subgroup: Group) -> None:
        space = require_grid("Restrict", in_type)
        rho = direct_sum(_seen(atom, subgroup) for atom in in_type.rho.atoms)
        super().__init__(in_type, _space(space, subgroup).field(rho), Exact())
        self.subgroup = subgroup

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, O, so2, o2, o3 = Dihedral(4), Octahedral(), SO2(), O2(), O3()
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.regular + D4.trivial), D4.subgroup([1]))
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.regular), D4.subgroup([4]))
        yield cls(Grid2d(so2).field(so2.irrep(2) + so2.trivial + so2.irrep(1)), Cyclic(4))
        yield cls(Grid2d(o2).field(o2.irrep(0, -1) + o2.irrep(1)), Dihedral(4))
        yield cls(Grid2d(o2).field(o2.irrep(0, -1) + o2.irrep(1)), so2)
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial), O.subgroup([1]))
        yield cls(Grid3d(o3).field(o3.irrep(1) + o3.trivial), O)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x

    def to_plain(self) -> torch_nn.Identity:
        """A ``torch.nn.Identity``."""
        return torch_nn.Identity()


@on_cpu
def _space(space: Grid, subgroup: Group) -> Grid:
    """The same lattice with the motions of the subgroup."""
    action: Representation | None = space.action.restrict(subgroup)
    standard = getattr(subgroup, "standard", None)
    if isinstance(standard, Representation) and standard.dim == space.dimension:
        # Prefer the default action: the grid then equals the one that a user would build from the subgroup.
        if isinstance(subgroup, FiniteGroup):
            same = action is not None and bool((standard.matrices - action.matrices).abs().max() < 1e-12)
        else:
            same = space.action == getattr(space.stabilizer, "standard", None)
        action = None if same else action
    if isinstance(space, Grid2d):
        return Grid2d(subgroup, action=action, lattice=space.lattice)
    return Grid3d(subgroup, action=action)


@on_cpu
def _seen(atom: Representation, subgroup: Group) -> Representation:
    """The restriction, as a named representation of the subgroup if one has the same matrices."""
    restricted = atom.restrict(subgroup)
    if atom == atom.group.trivial:
        return subgroup.trivial
    irreps: Sequence[Representation] = ()
    some = torch.zeros(0)
    if isinstance(subgroup, FiniteGroup) and not restricted.is_permutation:
        irreps, some = subgroup.irreps, subgroup.elements
    elif isinstance(subgroup, CompactLieGroup):
        irreps = subgroup.irreps_up_to(degree_of(restricted))
        some = subgroup.sample(8, torch.Generator().manual_seed(0))  # they generate a dense subgroup
    equal = (psi for psi in irreps if psi.dim == atom.dim and bool((psi(some) - restricted(some)).abs().max() < 1e-12))
    return next(equal, restricted)
