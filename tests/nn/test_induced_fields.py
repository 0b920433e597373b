"""Norms and gates of the blocks of induced representations, and gates as a second input."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import SO2, Dihedral, Octahedral
from intertwine.nn import BatchNorm, Conv2d, Gated, GroupPool, NormNonlinearity, NormPool, Sequential, to_plain
from intertwine.nn.basis._summands import Run
from intertwine.spaces import Grid2d, HomogeneousSpace, Point, Sphere
from intertwine.testing import assert_equivariant

D4, O = Dihedral(4), Octahedral()
C4 = D4.subgroup([1])
INDUCED = D4.induce(C4.irreps[1])
PLANE = Grid2d(D4)


def test_blocks():
    assert INDUCED.dim == 4
    assert INDUCED.blocks == D4.quotient(C4)
    assert D4.irrep(1).blocks == D4.trivial
    assert D4.regular.blocks == D4.regular
    H = next(c.representative for c in O.subgroup_classes() if c.representative.order == 4)
    rho = O.induce(H.irreps[-1])
    sizes = torch.randn(2, rho.dim, dtype=torch.float64)
    for g in range(O.order):  # the norms of the blocks move as rho.blocks says
        before = sizes.unflatten(1, (rho.blocks.dim, -1)).norm(dim=2)
        after = (sizes @ rho(g).T).unflatten(1, (rho.blocks.dim, -1)).norm(dim=2)
        assert torch.allclose(after, before @ rho.blocks(g).T, atol=1e-12)


def test_norms_block_by_block():
    field = PLANE.field(D4.irrep(1) + 2 * INDUCED)
    layer = NormNonlinearity(field, bias=-0.5, per="coset")
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([-0.3, 0.2, -0.7]))
    x = torch.randn(3, 10, 2, 2)
    y = layer(x)
    for block, bias in enumerate([-0.3, 0.2, 0.2, -0.7, -0.7]):
        v = x[:, 2 * block : 2 * block + 2]
        norm = v.norm(dim=1, keepdim=True)
        assert torch.allclose(y[:, 2 * block : 2 * block + 2], torch.relu(norm + bias) * v / norm, atol=1e-6)
    whole = NormNonlinearity(field, bias=-0.5)(x)
    assert not torch.allclose(y, whole)


def test_norm_pool_gives_a_quotient_field():
    field = PLANE.field(2 * INDUCED)
    pool = NormPool(field, per="coset")
    assert pool.out_type == PLANE.field(2 * D4.quotient(C4))
    x = torch.randn(2, 8, 3, 3)
    assert torch.allclose(pool(x), x.unflatten(1, (4, 2)).norm(dim=2), atol=1e-6)
    largest = Sequential(pool, GroupPool(pool.out_type))
    assert assert_equivariant(largest) < 1e-12
    assert NormPool(field).out_type == PLANE.field(2 * D4.trivial)


def test_other_blocks_break_it():
    """Norms over channels that the group does not move as a block."""
    layer = NormPool(PLANE.field(INDUCED), per="coset")
    layer._runs = (Run(0, 1, 1, 1), Run(1, 4, 1, 3))
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer)
    free = NormNonlinearity(PLANE.field(INDUCED), bias=-0.5, per="coset")
    free._runs = (Run(0, 1, 1, 1), Run(1, 4, 1, 3))
    free.bias = torch.nn.Parameter(torch.full((2,), -0.5))
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(free)


def test_one_gate_per_block():
    layer = Gated(PLANE.field(INDUCED + D4.irrep(1)), per="coset")
    assert layer.in_type == PLANE.field(INDUCED + D4.irrep(1) + D4.quotient(C4) + D4.trivial)
    x = torch.randn(2, 9)
    gates = torch.sigmoid(x[:, 6:])
    expected = torch.cat([gates[:, i : i + 1] * x[:, 2 * i : 2 * i + 2] for i in range(3)], 1)
    assert torch.allclose(layer(x), expected)
    one = Gated(PLANE.field(INDUCED + D4.irrep(1)))
    assert one.gates == 2
    wrong = Gated(PLANE.field(INDUCED), per="coset")
    wrong.in_type = PLANE.field(INDUCED + 2 * D4.trivial)  # gates that stay while the blocks move
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(wrong)


@pytest.mark.parametrize("space", [PLANE, Point(D4), HomogeneousSpace(D4, C4)], ids=str)
def test_gates_as_a_second_input(space):
    kind = space.stabilizer
    field = space.field(kind.irreps[1] + kind.trivial + 2 * kind.regular)
    appended, given = Gated(field), Gated(field, gates="given")
    assert given.in_type == field
    axes = {"Grid2d": (4, 4), "Point": ()}.get(type(space).__name__, (2,))
    x, gates = torch.randn(3, field.dim, *axes), torch.randn(3, 3, *axes)
    assert torch.equal(given(x, gates), appended(torch.cat([x, gates], 1)))
    assert torch.equal(to_plain(given)(x, gates), given(x, gates))
    assert assert_equivariant(given) < 1e-12


def test_a_second_input_that_moves_otherwise_breaks_it():
    given = Gated(PLANE.field(D4.irrep(1)), gates="given")
    (companion,) = given.companions
    given.companions = (type(companion)(companion.name, companion.draw),)  # gates that stay while the field moves
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(given)


def test_gates_in_a_network():
    hidden = PLANE.field(2 * D4.irrep(1))
    net = Sequential(Conv2d(PLANE.field(D4.trivial), hidden, 3, padding=1), Gated(hidden, gates="given"))
    assert net(torch.randn(1, 1, 5, 5), torch.randn(1, 2, 5, 5)).shape == (1, 4, 5, 5)
    assert assert_equivariant(net) < 1e-12


def test_refusals_of_gates():
    given = Gated(PLANE.field(2 * D4.irrep(1)), gates="given")
    x = torch.zeros(1, 4, 3, 3)
    with pytest.raises(InputError, match=r"gates of shape \(1, 2, 3, 3\)"):
        given(x)
    with pytest.raises(InputError, match=r"got shape \(1, 2\)"):
        given(x, torch.zeros(1, 2))
    with pytest.raises(InputError, match="one input: the gates are its last channels"):
        Gated(PLANE.field(2 * D4.irrep(1)))(torch.zeros(1, 6, 3, 3), torch.zeros(1, 2, 3, 3))
    so2 = SO2()
    with pytest.raises(InputError, match="a layer on the sphere with one input; got Gated, which also takes gates"):
        assert_equivariant(Gated(Sphere().field(so2.irrep(1)), gates="given"))
    with pytest.raises(TypeMismatchError, match="fields that take gates"):
        Gated(PLANE.field(D4.trivial), gates="given")


def test_batch_norm_of_an_induced_field_has_one_scale():
    layer = BatchNorm(PLANE.field(2 * INDUCED))
    assert len(layer.running_var) == 2
    assert assert_equivariant(layer, training=True) < 1e-12
