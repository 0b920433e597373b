"""Layers on values without space: vectors of a representation, and features of scattered points."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from intertwine import nn
from intertwine.errors import InputError
from intertwine.spaces import Cloud2d, Cloud3d, FieldType, Point
from intertwine.testing import assert_conforms

TYPES = {
    "SO(3) vectors": Point("SO(3)").field("2*irrep0 + 2*irrep1 + irrep2"),
    "O(3) cloud": Cloud3d("O(3)").field("2*irrep0 + 2*irrep1 + irrep(1,1)"),
    "SO(2) cloud": Cloud2d("SO(2)").field("irrep1 + 2*trivial + irrep2"),
    "D4 vectors": Point("D4").field("2*regular + irrep1"),
    "S4 vectors": Point("S4").field("irrep1 + 2*trivial + irrep3"),
}
LAYERS: dict[str, Callable[[FieldType], nn.Layer]] = {
    "Linear": lambda field: nn.Linear(field, field),
    "Gated": nn.Gated,
    "BatchNorm": nn.BatchNorm,
    "LayerNorm": nn.LayerNorm,
    "InstanceNorm": nn.InstanceNorm,
    "NormNonlinearity": nn.NormNonlinearity,
    "NormPool": nn.NormPool,
    "TensorProduct": lambda field: nn.TensorProduct(field, field),
    "TensorSquare": nn.TensorSquare,
    "ToIrreps": nn.ToIrreps,
    "Dropout": lambda field: nn.Dropout(field, 0.3),
    "network": lambda field: nn.Sequential(nn.Linear(field, nn.Gated(field).in_type), nn.Gated(field)),
}


@pytest.mark.parametrize("field", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_conforms_on_rows(layer: Callable[[FieldType], nn.Layer], field: FieldType) -> None:
    torch.manual_seed(0)
    assert_conforms(layer(field), checks=["claim", "breaks", "gradients", "plain", "wrong input"])


def test_a_linear_layer_has_all_equivariant_maps() -> None:
    """Schur's lemma: one weight for each pair of copies of one irreducible, over the reals."""
    field = TYPES["SO(3) vectors"]
    layer = nn.Linear(field, field, bias=False)
    assert sum(weight.numel() for weight in layer.weights) == 2 * 2 + 2 * 2 + 1
    field = TYPES["SO(2) cloud"]
    layer = nn.Linear(field, field, bias=False)
    assert sum(weight.numel() for weight in layer.weights) == 2 + 2 * 2 + 2  # a plane has turns beside scalings


def test_a_group_without_a_known_space_is_explained() -> None:
    field = Point("SO(2)").field("irrep1")
    with pytest.raises(InputError, match="on one"):
        nn.Linear(field, Point("O(2)").field("irrep1"))
