"""Networks for the energy of a molecule, and the forces that follow from it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ...nn import CloudPool
from ...spaces import Cloud3d
from ._pairs import all_pairs
from ._trajectory import Trajectory


class EnergyModel(nn.Module):
    """From positions ``(frames, atoms, 3)`` to energies ``(frames,)`` and forces ``(frames, atoms, 3)``.

    The energy is the sum of what the network returns for the atoms, and the forces are its negative gradient.

    Args:
        network: from features ``(points, elements)``, positions and edges to one invariant number per point.
        numbers: ``(atoms,)`` atomic numbers; atoms of one element have the same features.
        scale: the unit of the network's output, in eV.
    """

    features: Tensor

    def __init__(self, network: nn.Module, numbers: Tensor, scale: float) -> None:
        super().__init__()
        self.network, self.scale = network, scale
        self.pool = CloudPool(Cloud3d("O(3)").field("irrep0"), reduce="sum")
        self.register_buffer("features", (numbers[:, None] == numbers.unique()).float())

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Energies in eV and forces in eV/Å."""
        frames, atoms, _ = positions.shape
        with torch.enable_grad():
            x = positions.detach().requires_grad_()
            edges = all_pairs(frames, atoms, x.device)
            values = self.network(self.features.to(x).repeat(frames, 1), x.flatten(0, 1), edges)
            energies = self.scale * self.pool(values, torch.full((frames,), atoms, device=x.device))[:, 0]
            (gradient,) = torch.autograd.grad(energies.sum(), x, create_graph=self.training)
        return energies, -gradient


def relative(trajectory: Trajectory, to: Trajectory) -> tuple[Tensor, ...]:
    """Positions, energies relative to the mean of another trajectory, and forces, in single precision."""
    energies = trajectory.energies - to.energies.mean()
    return trajectory.positions.float(), energies.float(), trajectory.forces.float()


def energy_and_force_loss(model: nn.Module, batch: Any, *, energy_weight: float, scale: float) -> Tensor:
    """Squared errors in units of the spread of the forces."""
    positions, energies, forces = batch
    energy, force = model(positions)
    return ((force - forces).square().mean() + energy_weight * (energy - energies).square().mean()) / scale**2


def mean_absolute_errors(model: nn.Module, batch: Any) -> tuple[float, float]:
    """Of energies in meV, and of components of forces in meV/Å."""
    model.eval()
    positions, energies, forces = batch
    energy, force = model(positions)
    return 1e3 * float((energy - energies).abs().mean().detach()), 1e3 * float((force - forces).abs().mean())
