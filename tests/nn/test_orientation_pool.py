"""Orientation pooling: values, ties, groups with reflections, refusals, and that it trains."""

from __future__ import annotations

from math import cos, pi, sin

import pytest
import torch

from intertwine.errors import TypeMismatchError
from intertwine.groups import SO2, Cyclic, Dihedral, Symmetric
from intertwine.nn import Conv2d, GlobalPool, OrientationPool, Sequential
from intertwine.spaces import Grid2d, HomogeneousSpace, Point
from intertwine.testing import assert_equivariant

C4, C8, D3, D4 = Cyclic(4), Cyclic(8), Dihedral(3), Dihedral(4)


def test_by_hand():
    layer = OrientationPool(Grid2d(C8).field(2 * C8.regular))
    x = torch.randn(3, 16, 2, 2)
    y = layer(x)
    for b, field, i, j in [(0, 0, 0, 0), (2, 1, 1, 0), (1, 1, 1, 1)]:
        v = x[b, 8 * field : 8 * field + 8, i, j]
        k, size = int(v.argmax()), max(float(v.max()), 0.0)
        expected = torch.tensor([size * cos(pi * k / 4), size * sin(pi * k / 4)])
        assert torch.allclose(y[b, 2 * field : 2 * field + 2, i, j], expected, atol=1e-6)
    assert (layer(-x.abs()) == 0).all()  # as in the paper, only positive responses count


def test_ties_are_equivariant():
    """The first of several equal channels would be another one after a rotation; the mean of all is not."""
    point = Point(D4)
    layer = OrientationPool(point.field(D4.regular)).double()
    tied = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 1.0, -1.0, 0.0], dtype=torch.float64)[None]
    for g in range(8):
        moved = layer.in_type.transform(tied, g)
        assert torch.allclose(layer(moved), layer.out_type.transform(layer(tied), g), atol=1e-12)
    assert layer(torch.ones(1, 8, dtype=torch.float64)).abs().max() < 1e-12

    def first(x):
        return layer(torch.nn.functional.one_hot(x.argmax(1), 8) * x)

    errors = [
        (first(layer.in_type.transform(tied, g)) - layer.out_type.transform(first(tied), g)).abs().max()
        for g in range(8)
    ]
    assert max(errors) > 0.5  # taking the first one fails this test


def test_elements_with_one_vector_and_with_different_vectors():
    """(1, 0) is on a mirror of D4, and stands for an element with and without it; a vector off all mirrors does not."""
    eye = torch.eye(8)
    coarse = OrientationPool(Point(D4).field(D4.regular))(eye)
    assert len(coarse.round(decimals=5).unique(dim=0)) == 4
    fine = OrientationPool(Point(D4).field(D4.regular), vector=(cos(pi / 8), sin(pi / 8)))
    assert len(fine(eye).round(decimals=5).unique(dim=0)) == 8
    assert assert_equivariant(fine) < 1e-12
    assert assert_equivariant(OrientationPool(Point(D3).field(D3.regular))) < 1e-12


def test_another_frequency():
    layer = OrientationPool(Grid2d(C8).field(C8.regular), psi=C8.irrep(2))  # a direction without sign
    assert assert_equivariant(layer) < 1e-12
    assert torch.allclose(layer(torch.eye(8))[0], layer(torch.eye(8))[4], atol=1e-6)


def test_a_wrong_vector_breaks_it():
    layer = OrientationPool(Grid2d(C4).field(C4.regular))
    layer.tables.get_buffer("vectors0")[0, 1] = 1.0
    layer.tables._originals["vectors0"][0, 1] = 1.0
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer)


def test_refusals():
    plane = Grid2d(D4)
    with pytest.raises(TypeMismatchError, match="permutes the channels"):
        OrientationPool(plane.field(D4.irrep(1)))
    with pytest.raises(TypeMismatchError, match="a vector of irrep"):
        OrientationPool(plane.field(D4.quotient(D4.subgroup([1]))))  # rotations fix both channels and no vector
    with pytest.raises(TypeMismatchError, match="a vector of irrep"):
        OrientationPool(plane.field(D4.trivial))
    mirror = D4.subgroup([4])
    with pytest.raises(TypeMismatchError, match="and the vector"):
        OrientationPool(plane.field(D4.quotient(mirror)), vector=(0.6, 0.8))
    G = Symmetric(3)
    with pytest.raises(TypeMismatchError, match="a finite group of rotations"):
        OrientationPool(HomogeneousSpace(G, G.subgroup([1])).field(G.subgroup([1]).regular))
    with pytest.raises(TypeMismatchError, match="permutes the channels"):
        OrientationPool(Grid2d(SO2()).field(SO2().irrep(1)))


def test_it_learns_a_direction():
    """A network with vectors from orientation pooling learns which way a spot lies from the center, for any angle."""
    torch.manual_seed(0)
    plane = Grid2d(C8)
    hidden = plane.field(4 * C8.regular)
    pool = OrientationPool(hidden)
    net = Sequential(
        Conv2d(plane.field(C8.trivial), hidden, 7, padding=3),
        pool,
        Conv2d(pool.out_type, plane.field(C8.irrep(1)), 5, padding=2),
        GlobalPool(plane.field(C8.irrep(1))),
    )
    where = plane.coordinates((11, 11)).float()

    def batch(n):
        angle = 2 * pi * torch.rand(n)
        target = torch.stack([angle.cos(), angle.sin()], 1)
        spots = torch.exp(-(where - 3 * target[:, None, None]).square().sum(-1) / 2)
        mark = torch.exp(-where.square().sum(-1) / 2)  # without it, a translation could undo a rotation
        return (spots - mark)[:, None], target

    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(80):
        x, target = batch(32)
        loss = (net(x) - target).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.05 * losses[0], losses[::20]
