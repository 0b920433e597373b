"""Edges between all points of each system."""

from __future__ import annotations

import torch
from torch import Tensor


def all_pairs(systems: int, points: int, device: torch.device) -> Tensor:
    """Edges ``(2, edges)`` between all points of each system, where the points of a system follow each other."""
    pairs = torch.cartesian_prod(torch.arange(points), torch.arange(points)).T
    pairs = pairs[:, pairs[0] != pairs[1]].to(device)
    first = points * torch.arange(systems, device=device)
    return (pairs[:, None] + first[None, :, None]).flatten(1)
