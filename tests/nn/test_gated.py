"""Gated nonlinearities: values, types, refusals."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import SO2, Cyclic, Dihedral, MatrixRepresentation
from intertwine.nn import Conv2d, Gated, Sequential
from intertwine.spaces import Grid2d
from intertwine.testing import assert_equivariant

C2, D4 = Cyclic(2), Dihedral(4)
PLANE = Grid2d(D4)
MIXED = PLANE.field(D4.irrep(1) + D4.trivial + D4.regular + D4.irrep(0, -1) + D4.irrep(1) + D4.trivial)
SKEW = Grid2d(C2).field(
    MatrixRepresentation(C2, torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, -1.0]]]), name="skew")
)


@pytest.mark.parametrize("space", [(), (3, 4)])
def test_field_by_field(space):
    layer = Gated(MIXED, gate=torch.nn.Tanh(), activation=torch.nn.ELU())
    x = torch.randn(2, layer.in_type.dim, *space)
    y = layer(x)
    at, gate = 0, MIXED.dim
    for atom in MIXED.rho.atoms:
        v = x[:, at : at + atom.dim]
        if atom == D4.trivial:
            expected = torch.nn.functional.elu(v)
        else:
            expected = torch.tanh(x[:, gate : gate + 1]) * v
            gate += 1
        assert torch.equal(y[:, at : at + atom.dim], expected)
        at += atom.dim
    assert gate == layer.in_type.dim


def test_a_scalar_gates_itself():
    layer = Gated(PLANE.field(3 * D4.trivial))
    x = torch.randn(2, 3)
    assert layer.gates == 0
    assert layer.in_type == layer.out_type
    assert torch.allclose(layer(x), x * torch.sigmoid(x))


def test_any_representation():
    assert assert_equivariant(Gated(SKEW)) < 1e-12


def test_a_gate_that_is_no_scalar_breaks_it():
    layer = Gated(PLANE.field(D4.irrep(1)))
    layer.in_type = PLANE.field(D4.irrep(1) + D4.irrep(0, -1))
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer)


def test_after_a_convolution():
    so2 = SO2()
    for group, rho in ((D4, D4.trivial + 2 * D4.irrep(1)), (so2, so2.trivial + so2.irrep(1) + so2.irrep(2))):
        plane = Grid2d(group)
        gated = Gated(plane.field(rho))
        net = Sequential(Conv2d(plane.field(group.trivial), gated.in_type, 5, padding=2), gated)
        assert assert_equivariant(net) < 1e-12


def test_functions_are_modules():
    with pytest.raises(InputError, match=r"gate to be a torch\.nn\.Module or None"):
        Gated(MIXED, gate=torch.tanh)
    with pytest.raises(InputError, match=r"activation to be a torch\.nn\.Module or None"):
        Gated(MIXED, activation=torch.tanh)
