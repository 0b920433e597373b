"""Charged particles in empty space: the simulation of Kipf et al. 2018 in three dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_STEP = 1e-3
_MAX_FORCE = 0.1 / _STEP
_EVERY = 100
_START, _END = 31, 41
"""In hundreds of steps. The published data count frames from 0, and frame 0 is the state after 100 steps: the state at
frame 30 is given, and the positions at frame 40 are asked for."""


@dataclass(frozen=True)
class Trajectories:
    """The states of many systems of particles, and where the particles are later.

    Attributes:
        charges: ``(systems, particles)``, 1 or -1.
        positions: ``(systems, particles, 3)`` at the start.
        velocities: at the start.
        later: the positions 1,000 steps later.
    """

    charges: Tensor
    positions: Tensor
    velocities: Tensor
    later: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """All of it, as a dataset takes it."""
        return self.charges, self.positions, self.velocities, self.later


def simulate(systems: int, *, particles: int = 5, seed: int) -> Trajectories:
    """Leapfrog steps of particles that attract and repel each other by Coulomb's law.

    Positions start normally distributed, velocities with length 1/2 in random directions, charges at random; forces are
    cut off per coordinate, as in the published simulation.
    """
    noise = torch.Generator().manual_seed(seed)
    x = torch.randn(systems, particles, 3, dtype=torch.float64, generator=noise)
    v = torch.randn(systems, particles, 3, dtype=torch.float64, generator=noise)
    v = 0.5 * v / v.norm(dim=-1, keepdim=True)
    charges = 2.0 * torch.randint(2, (systems, particles), generator=noise).to(torch.float64) - 1
    strength = charges[:, :, None] * charges[:, None]
    itself = torch.eye(particles, dtype=torch.bool)
    start: tuple[Tensor, Tensor] = x, v
    for step in range(1, _END * _EVERY + 1):
        apart = x[:, :, None] - x[:, None]
        square = apart.square().sum(-1).masked_fill(itself, 1.0)
        force = (strength / square**1.5).masked_fill(itself, 0.0)[..., None] * apart
        v = v + _STEP * force.sum(2).clamp(-_MAX_FORCE, _MAX_FORCE)
        x = x + _STEP * v
        if step == _START * _EVERY:
            start = x, v
    return Trajectories(*(part.float() for part in (charges, *start, x)))
