"""Sums of representations as lists of terms, in e3nn's notation, and as one field."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import ParseError
from intertwine.groups import O3, SO3, Cyclic, Dihedral, parse_representation
from intertwine.nn import BatchNorm, Conv2d, Gated, Linear, NormNonlinearity, NormPool, PointConv, Sequential
from intertwine.spaces import Cloud3d, Grid2d, Point
from intertwine.testing import assert_equivariant

G, D4 = O3(), Dihedral(4)


def test_the_notation_of_e3nn():
    rho = parse_representation(G, "8x0e + 4x1o+ 2e +3x0o")
    assert rho == 8 * G.irrep(0) + 4 * G.irrep(1, -1) + G.irrep(2, 1) + 3 * G.irrep(0, -1)
    assert Cloud3d("O(3)").field("2x1o").rho == 2 * G.irrep(1)
    for text in ("8x0", "x0e", "1i", "2x"):
        with pytest.raises(ParseError):
            parse_representation(G, text)
    with pytest.raises(ParseError):
        parse_representation(SO3(), "8x0e")  # SO(3) has no parities


def test_terms():
    rho = parse_representation(G, "2x0e + 3x1o + 1x0e")
    assert [(t.copies, t.rho, t.channels) for t in rho.terms] == [
        (2, G.trivial, slice(0, 2)),
        (3, G.irrep(1), slice(2, 11)),
        (1, G.trivial, slice(11, 12)),
    ]
    assert (rho.count(G.trivial), rho.count(G.irrep(1)), rho.count(G.irrep(2))) == (3, 3, 0)
    gathered, order = rho.gathered()
    assert gathered == 3 * G.trivial + 3 * G.irrep(1)
    g = G.sample(1)[0]
    assert (gathered(g) - rho(g)[order][:, order]).abs().max() < 1e-12


@pytest.mark.slow
def test_terms_as_e3nn():
    o3 = pytest.importorskip("e3nn.o3")
    text = "8x0e + 4x1o + 2x2e + 1x0o"
    theirs, ours = o3.Irreps(text), parse_representation(G, text)
    assert ours.dim == theirs.dim
    assert [t.channels for t in ours.terms] == theirs.slices()
    assert [t.copies for t in ours.terms] == [mul for mul, _ in theirs]
    assert len(ours.atoms) == theirs.num_irreps


def test_one_field():
    rho = (G.trivial + G.irrep(1) + G.irrep(2)).one_field()
    assert len((3 * rho).atoms) == 3
    assert (3 * rho).summands == 3 * (G.trivial, G.irrep(1), G.irrep(2))
    assert parse_representation(G, (3 * rho).name) == 3 * rho
    assert rho != G.trivial + G.irrep(1) + G.irrep(2)
    assert G.irrep(1).one_field() is G.irrep(1) or G.irrep(1).one_field() == G.irrep(1)
    assert rho.decompose().irreps == (G.trivial, G.irrep(1), G.irrep(2))
    g = G.sample(2)
    assert torch.equal(rho(g), (G.trivial + G.irrep(1) + G.irrep(2))(g))
    with pytest.raises(ParseError):
        parse_representation(G, "(" * 5000 + "trivial" + ")" * 5000)


def test_one_field_has_one_norm():
    space = Point("O(3)")
    one = space.field(2 * (G.trivial + G.irrep(1)).one_field())
    x = torch.randn(5, 8)
    assert torch.allclose(NormPool(one)(x), x.unflatten(1, (2, 4)).norm(dim=2), atol=1e-6)
    assert len(NormNonlinearity(one).bias) == 2
    assert len(BatchNorm(Grid2d(D4).field((D4.trivial + D4.irrep(1)).one_field())).running_var) == 1
    assert Gated(one).gates == 2


def test_layers_take_one_field():
    rho = (D4.trivial + D4.irrep(1)).one_field()
    plane = Grid2d(D4)
    hidden = plane.field(2 * rho)
    net = Sequential(
        Conv2d(plane.field(D4.trivial), hidden, 3, padding=1),
        BatchNorm(hidden),
        NormNonlinearity(hidden, bias=-0.1),
        Linear(hidden, plane.field(D4.regular)),
    )
    assert assert_equivariant(net) < 1e-10
    free = Conv2d(plane.field(D4.trivial), plane.field(2 * (D4.trivial + D4.irrep(1))), 3, padding=1)
    assert sum(p.numel() for p in net[0].parameters()) == sum(p.numel() for p in free.parameters())
    cloud = Cloud3d("O(3)")
    one = cloud.field(2 * (G.trivial + G.irrep(1)).one_field())
    assert assert_equivariant(PointConv(one, one, radius=1.0)) < 1e-10
    C8 = Cyclic(8)
    sampled = Grid2d(C8).field((C8.trivial + C8.irrep(1) + C8.irrep(2)).one_field())
    assert assert_equivariant(Conv2d(sampled, sampled, 5, padding=2)) < 1e-10
