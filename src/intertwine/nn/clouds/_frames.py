"""A frame for each edge, and the matrices that turn fields into it.

In the frame of an edge, the edge lies along one fixed axis, and a kernel commutes with what is left of the group: the
turns about the axis. Any frame with that axis will do, because turning it about the axis changes nothing. So each half
of the sphere has its own formula, and there is no pole at which a formula would be singular.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch import nn as torch_nn

from ...groups import clebsch_gordan
from ..basis._tables import TableModule

_DEGREE_ONE = (1, 2, 0)  # harmonics of degree 1 are ordered (y, z, x)


class SpatialFrames(TableModule):
    """From directions ``(edges, 3)`` to the Wigner matrices of rotations that take the z axis to them.

    D^l is computed from D^1 and D^(l-1) with Clebsch-Gordan coefficients: polynomials in the entries of the rotation,
    so all derivatives exist.
    """

    def __init__(self, degrees: Sequence[int]) -> None:
        super().__init__()
        self.degrees = tuple(degrees)
        for l in range(2, max(degrees, default=0) + 1):
            c = clebsch_gordan(1, l - 1, l)  # (3, 2l-1, 2l+1)
            self.register_table(f"right{l}", c.transpose(0, 1).flatten(1))
            self.register_table(f"left{l}", c.permute(2, 1, 0).flatten(1))

    def forward(self, directions: Tensor) -> dict[int, Tensor]:
        one = rotation_from_axis(directions)[:, _DEGREE_ONE][:, :, _DEGREE_ONE]
        matrices, last = {1: one}, one
        for l in range(2, max(self.degrees, default=0) + 1):
            right, left = getattr(self, f"right{l}"), getattr(self, f"left{l}")
            rows = (last @ right).unflatten(2, (3, 2 * l + 1))  # (edges, 2l-1, 3, 2l+1)
            both = one[:, None] @ rows
            last = matrices[l] = left @ both.flatten(1, 2)
        return {l: matrices[l] for l in self.degrees if l}


class PlanarFrames(torch_nn.Module):
    """From directions ``(edges, 2)`` to rotations by m times their angle, the x axis having angle 0."""

    def __init__(self, degrees: Sequence[int]) -> None:
        super().__init__()
        self.degrees = tuple(degrees)

    def forward(self, directions: Tensor) -> dict[int, Tensor]:
        one = torch.stack([directions, torch.stack([-directions[:, 1], directions[:, 0]], 1)], 2)
        matrices, last = {1: one}, one
        for m in range(2, max(self.degrees, default=0) + 1):
            last = matrices[m] = last @ one
        return {m: matrices[m] for m in self.degrees if m}


def rotation_from_axis(directions: Tensor) -> Tensor:
    """Rotations ``(edges, 3, 3)`` that take the z axis to the unit vectors ``directions``.

    On the upper half of the sphere this is the shortest rotation; on the lower half, the shortest one after a half turn
    about the x axis. The two differ by a turn about the axis where they meet.
    """
    x, y, z = directions.unbind(1)
    side = torch.where(z < 0, -1.0, 1.0).to(directions)
    d = 1 / (1 + side * z)
    mixed = -x * y * d
    first = torch.stack([1 - x * x * d, mixed, -side * x], 1)
    second = torch.stack([mixed, 1 - y * y * d, -side * y], 1) * side[:, None]
    return torch.stack([first, second, directions], 2)
