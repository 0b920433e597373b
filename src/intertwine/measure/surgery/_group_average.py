"""The average of a network over a group at run time, |G| times as costly as the network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..._checked import checked
from .._batches import as_tensor
from .._symmetry import SymmetryLike, parse_symmetry


class GroupAverage(nn.Module):
    """Φ'(x) = (1/|G|) Σ_g τ_g⁻¹ Φ(τ_g x); outputs that are not images stay where they are.

    This is what :func:`symmetrize` approximates with one network, and what it computes at the full width.

    Args:
        model: a network.
        symmetry: a name, a space with its group, or a :class:`Symmetry`; a finite group.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    >>> x = torch.randn(3, 1, 4, 4)
    >>> average = GroupAverage(net, "hflip")
    >>> torch.allclose(average(x), average(x.flip(3)), atol=1e-6)
    True
    """

    @checked
    def __init__(self, model: nn.Module, symmetry: SymmetryLike) -> None:
        super().__init__()
        self.model, self.symmetry = model, parse_symmetry(symmetry)
        self.group = self.symmetry.require_finite(caller="GroupAverage")

    def forward(self, x: Tensor) -> Tensor:
        """The averaged output."""
        outputs = []
        for g in range(self.symmetry.order):
            y = as_tensor(self.model(self.symmetry.apply(g, x)), caller="GroupAverage")
            outputs.append(self.symmetry.apply(int(self.group.inverse(g)), y) if y.dim() == 4 else y)
        return torch.stack(outputs).mean(0)
