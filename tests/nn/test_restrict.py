"""Restriction to a subgroup, and the layers that may follow."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import IntertwineError, SubgroupError, TypeMismatchError
from intertwine.groups import O2, O3, SO2, SO3, Cyclic, Dihedral, Octahedral, Symmetric
from intertwine.nn import Conv2d, Conv3d, GlobalPool, ReLU, Restrict, Sequential
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace, Sphere
from intertwine.testing import assert_equivariant

D4, O = Dihedral(4), Octahedral()
so2, o2, so3, o3 = SO2(), O2(), SO3(), O3()


def test_the_numbers_stay():
    layer = Restrict(Grid2d(D4).field(D4.regular), D4.subgroup([1]))
    x = torch.randn(2, 8, 3, 3)
    assert layer(x) is x
    assert layer.out_type.rho.permutation_table is not None


def test_a_network_that_gives_up_the_mirrors():
    turns = D4.subgroup([1])
    before = Grid2d(D4).field(2 * D4.regular)
    restrict = Restrict(before, turns)
    after = Grid2d(turns).field(3 * turns.trivial)
    assert restrict.out_type.space == after.space, "the plane that people make of the subgroup"
    net = Sequential(
        Conv2d(Grid2d(D4).field(D4.trivial), before, 3, padding=1),
        ReLU(before),
        restrict,
        ReLU(restrict.out_type),
        Conv2d(restrict.out_type, after, 3, padding=1),
        GlobalPool(after),
    )
    assert assert_equivariant(net) < 1e-12
    net.out_type = Grid2d(D4).field(3 * D4.trivial)  # it keeps the turns, 0 to 3, and has really given up the mirrors
    with pytest.raises(AssertionError, match="does not commute with element 4"):
        assert_equivariant(net)


def test_from_continuous_to_finite():
    plane, C4 = Grid2d(so2), Cyclic(4)
    field = plane.field(2 * so2.trivial + so2.irrep(1))
    restrict = Restrict(field, C4)
    assert restrict.out_type == Grid2d(C4).field(2 * C4.trivial + C4.irrep(1))
    net = Sequential(restrict, Conv2d(restrict.out_type, Grid2d(C4).field(C4.regular), 3, padding=1))
    assert assert_equivariant(net) < 1e-12


@pytest.mark.parametrize(
    ("space", "rho", "subgroup"),
    [
        (Grid2d(o2), o2.irrep(1) + o2.irrep(0, -1), so2),
        (Grid2d(o2), o2.irrep(2) + o2.trivial, Dihedral(4)),
        (Grid3d(so3), so3.irrep(1), O),
        (Grid3d(o3), o3.irrep(1) + o3.irrep(1, 1), so3),
        (Grid3d(so3), so3.irrep(1) + so3.trivial, so2),
        (Grid3d(O), O.regular, O.subgroup([1])),
    ],
    ids=["O2-SO2", "O2-D4", "SO3-O", "O3-SO3", "SO3-SO2", "O-C3"],
)
def test_the_matrices_are_those_of_the_larger_group(space, rho, subgroup):
    layer = Restrict(space.field(rho), subgroup)
    some = subgroup.elements if subgroup.is_finite else subgroup.sample(5, torch.Generator().manual_seed(0))
    assert torch.allclose(layer.out_type.rho(some), rho(space.stabilizer.embed(subgroup, some)))
    assert torch.allclose(layer.out_type.space.matrices(some), space.matrices(space.stabilizer.embed(subgroup, some)))
    assert assert_equivariant(layer) < 1e-12


def test_a_convolution_after_it_in_space():
    restrict = Restrict(Grid3d(O).field(O.irreps[3]), O.subgroup([1]))
    C3 = restrict.subgroup
    net = Sequential(restrict, Conv3d(restrict.out_type, restrict.out_type.space.field(C3.regular), 3))
    assert assert_equivariant(net, size=5) < 1e-12


def test_an_action_of_ones_own():
    C2 = Cyclic(2)
    mirror = C2.representation({1: [[-1.0, 0.0], [0.0, 1.0]]})
    layer = Restrict(Grid2d(C2, action=mirror).field(C2.regular), C2.subgroup([1]))
    assert torch.allclose(layer.out_type.space.matrices(1), torch.diag(torch.tensor([-1.0, 1.0]).double()))


class TestRefusals:
    @pytest.mark.parametrize("space", [HomogeneousSpace(Symmetric(3), Symmetric(3).subgroup([1])), Sphere()])
    def test_only_grids(self, space):
        with pytest.raises(TypeMismatchError, match="Grid2d or Grid3d"):
            Restrict(space.field(space.stabilizer.trivial), space.stabilizer)

    def test_no_subgroup(self):
        with pytest.raises(SubgroupError):
            Restrict(Grid2d(D4).field(D4.regular), Cyclic(4))
        with pytest.raises(IntertwineError):
            Restrict(Grid2d(so2).field(so2.irrep(1)), D4)
