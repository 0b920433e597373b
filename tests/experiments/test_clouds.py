"""The simulation of charged particles, and the networks that foretell it."""

from __future__ import annotations

import pytest
import torch

from intertwine.experiments.clouds._charged import simulate
from intertwine.experiments.clouds._nbody import ParticleNetwork


@pytest.fixture(scope="module")
def trajectories():
    return simulate(20, seed=0)


def test_momentum_is_conserved(trajectories) -> None:
    """Forces come in opposite pairs, so the mean velocity stays; only the cutoff of very strong forces breaks that."""
    drift = (trajectories.later - trajectories.positions).mean(1)
    expected = trajectories.velocities.mean(1)  # over 1,000 steps of 0.001
    kept = (drift - expected).norm(dim=-1) < 1e-4
    assert kept.float().mean() > 0.8


def test_the_same_seed_gives_the_same_systems(trajectories) -> None:
    again, other = simulate(20, seed=0), simulate(20, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(again.tensors(), trajectories.tensors(), strict=True))
    assert not torch.equal(other.positions, trajectories.positions)


@pytest.mark.parametrize("moving", [False, True])
def test_the_network_turns_with_the_particles(trajectories, moving: bool) -> None:
    torch.manual_seed(0)
    net = ParticleNetwork(scalars=4, vectors=4, degree=2, layers=2, radius=8.0, moving=moving).double()
    charges, x, v, _ = (part.double() for part in trajectories.tensors())
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    shift = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    moved = net(charges, x @ turn.T + shift, v @ turn.T)
    torch.testing.assert_close(moved, net(charges, x, v) @ turn.T + shift, rtol=0, atol=1e-9)
    torch.testing.assert_close(net(-charges, x, v), net(charges, x, v), rtol=0, atol=1e-12)


def test_blocks_see_the_particles_where_they_moved(trajectories) -> None:
    nets = []
    for moving in (False, True):
        torch.manual_seed(0)
        nets.append(ParticleNetwork(scalars=4, vectors=4, degree=1, layers=2, radius=8.0, moving=moving))
    fixed, moved = (net(*trajectories.tensors()[:3]) for net in nets)
    assert (fixed - moved).abs().max() > 1e-3
