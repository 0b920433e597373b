"""Layers can be made without memory, and are whole once they have some."""

from __future__ import annotations

import pytest
import torch

from intertwine import nn as tnn
from intertwine.groups import SO2, SO3, Cyclic, Dihedral
from intertwine.spaces import Grid2d, Grid3d

D4, so2, so3 = Dihedral(4), SO2(), SO3()
TURNS, C8 = D4.subgroup([1]), Cyclic(8)
MIXED = Grid2d(D4).field(D4.irrep(1) + D4.regular + D4.trivial)
DISK = Grid2d(so2).field(so2.irrep(1) + so2.trivial)
VECTORS = Grid3d(so3).field(so3.irrep(1))
PRODUCT = Grid3d(so3).field(so3.irrep(1) @ so3.irrep(2))
ON_THE_SPHERE = Grid3d(so3).field(tnn.band_limited_quotient(so3, 1))

MAKERS = {
    "BatchNorm": lambda: tnn.BatchNorm(MIXED),
    "BlurPool2d": lambda: tnn.BlurPool2d(MIXED),
    "Disentangle": lambda: tnn.Disentangle(MIXED),
    "Disentangle SO(3)": lambda: tnn.Disentangle(PRODUCT),
    "Dropout": lambda: tnn.Dropout(MIXED),
    "Entangle": lambda: tnn.Entangle(MIXED),
    "FourierNonlinearity": lambda: tnn.FourierNonlinearity(ON_THE_SPHERE),
    "Gated": lambda: tnn.Gated(MIXED),
    "GroupNorm": lambda: tnn.GroupNorm(MIXED, 3),
    "LayerNorm": lambda: tnn.LayerNorm(MIXED),
    "NormNonlinearity": lambda: tnn.NormNonlinearity(MIXED),
    "Restrict": lambda: tnn.Restrict(MIXED, TURNS),
    "Restrict SO(2)": lambda: tnn.Restrict(DISK, C8),
    "TensorProduct": lambda: tnn.TensorProduct(MIXED, MIXED),
    "TensorProduct SO(3)": lambda: tnn.TensorProduct(VECTORS, VECTORS.space.field(so3.irrep(2))),
    "TensorSquare": lambda: tnn.TensorSquare(MIXED),
    "Upsample": lambda: tnn.Upsample(MIXED, 2),
}


@pytest.mark.parametrize("name", MAKERS)
def test_made_without_memory(name):
    with torch.device("meta"):
        layer = MAKERS[name]()
    assert all(t.device.type == "meta" for t in (*layer.parameters(), *layer.buffers()))
    layer = layer.to_empty(device="cpu")
    twin = MAKERS[name]()
    layer.load_state_dict(twin.state_dict())
    x = torch.randn(2, twin.in_type.dim, *(6,) * twin.in_type.space.dimension)
    assert torch.equal(layer.eval()(x), twin.eval()(x))
