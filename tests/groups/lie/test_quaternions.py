"""Rotations from and to quaternions, axes and angles, next to scipy's."""

from __future__ import annotations

from math import pi

import pytest
import torch
from scipy.spatial.transform import Rotation

from intertwine.errors import InputError, IntertwineError
from intertwine.groups import O3, SO3

G = SO3()
TURNS = G.sample(50, torch.Generator().manual_seed(0))
HALF_TURNS = torch.diag_embed(torch.tensor([[1.0, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=torch.float64))


@pytest.mark.parametrize("g", [TURNS, HALF_TURNS, G.identity[None]], ids=["random", "half turns", "identity"])
def test_there_and_back(g):
    q = G.to_quaternion(g)
    assert (q[..., 0] >= 0).all()
    assert torch.allclose(q.square().sum(-1), torch.ones(len(g), dtype=torch.float64))
    assert (G.from_quaternion(q) - g).abs().max() < 1e-12
    assert (G.from_quaternion(-3 * q) - g).abs().max() < 1e-12  # sign and length don't matter
    axis, angle = G.to_axis_angle(g)
    assert ((angle >= 0) & (angle <= pi + 1e-12)).all()
    assert torch.allclose(axis.square().sum(-1), torch.ones(len(g), dtype=torch.float64))
    assert (G.from_axis_angle(5 * axis, angle) - g).abs().max() < 1e-12


def test_as_scipy():
    theirs = torch.tensor(Rotation.from_matrix(TURNS.numpy()).as_quat())  # (x, y, z, w)
    q = G.to_quaternion(TURNS).roll(-1, -1)
    assert (q * theirs).sum(-1).abs().sub(1).abs().max() < 1e-12
    assert (q + theirs).abs().max() > 0.1  # roles of w and z exchanged would not pass
    w = torch.tensor(Rotation.from_matrix(TURNS.numpy()).as_rotvec())
    axis, angle = G.to_axis_angle(TURNS)
    assert (axis * angle[:, None] - w).abs().max() < 1e-12


def test_products_of_quaternions_are_products_of_rotations():
    p, q = G.to_quaternion(TURNS[:25]), G.to_quaternion(TURNS[25:])
    a, u, b, v = p[:, :1], p[:, 1:], q[:, :1], q[:, 1:]
    product = torch.cat([a * b - (u * v).sum(1, keepdim=True), a * v + b * u + torch.linalg.cross(u, v)], 1)
    assert (G.from_quaternion(product) - TURNS[:25] @ TURNS[25:]).abs().max() < 1e-12


def test_refusals():
    with pytest.raises(InputError, match=r"quaternions \(\.\.\., 4\) that are not zero"):
        G.from_quaternion(torch.zeros(4))
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        G.from_quaternion(torch.ones(3))
    with pytest.raises(InputError, match="axes"):
        G.from_axis_angle(torch.zeros(3), 1.0)
    with pytest.raises(IntertwineError, match="to_quaternion"):
        O3().to_quaternion(-torch.eye(3, dtype=torch.float64))  # a reflection has none


@pytest.mark.slow
def test_as_e3nn():
    o3 = pytest.importorskip("e3nn.o3")
    q = o3.matrix_to_quaternion(TURNS)
    assert (o3.quaternion_to_matrix(G.to_quaternion(TURNS)) - TURNS).abs().max() < 1e-6
    assert (G.from_quaternion(q) - TURNS).abs().max() < 1e-6
