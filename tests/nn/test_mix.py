"""A matrix on channels, by the way that is fast for the input at hand."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from intertwine import nn
from intertwine.groups import SO2, SO3, Dihedral
from intertwine.nn.basis._mix import mix, mixing
from intertwine.spaces import Grid2d, Grid3d

D4, so2, so3 = Dihedral(4), SO2(), SO3()
PLANE, SPACE = Grid2d(D4), Grid3d(so3)
VECTORS = SPACE.field(4 * so3.irrep(1))
LAYERS = {
    "TensorProduct": nn.TensorProduct(VECTORS, VECTORS),
    "TensorSquare": nn.TensorSquare(VECTORS),
    "FourierNonlinearity": nn.FourierNonlinearity(Grid2d(so2).field(4 * nn.band_limited_regular(so2, 2))),
    "ToIrreps": nn.ToIrreps(PLANE.field(3 * D4.regular)),
    "FromIrreps": nn.FromIrreps(PLANE.field(3 * D4.regular)),
}


@pytest.mark.parametrize("shape", [(7, 5), (7, 5, 1, 1), (7, 5, 3, 3), (2, 5, 9, 9), (1, 5, 4, 4, 4)])
def test_all_ways_agree(shape: tuple[int, ...]) -> None:
    x, matrix = torch.randn(shape, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    expected = torch.einsum("ij,nj...->ni...", matrix, x).unsqueeze(-1).flatten(2)
    rows = x.unsqueeze(-1).flatten(2)
    for way in (mix, mixing(x)):
        assert (way(matrix, rows) - expected).abs().max() < 1e-14
        assert (way(matrix, rows[:, None].expand(-1, 2, -1, -1)) - expected[:, None]).abs().max() < 1e-14


class Operations(TorchDispatchMode):
    """How many products of batches there were, by their number of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: Counter[int] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.bmm.default:
            self.batches[len(args[0])] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_values_without_space_are_no_batch_of_vectors(name: str, gradients: bool) -> None:
    layer = LAYERS[name]
    x = torch.randn(50, layer.in_type.dim)
    with Operations() as seen, torch.set_grad_enabled(gradients):
        layer(x.requires_grad_(gradients))
    assert max(seen.batches, default=0) <= 1, seen.batches
