"""Deep copies of layers copy weights, and share groups, field types and kernel bases, which never change."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from intertwine.groups import SO2, Dihedral
from intertwine.kernels import solve
from intertwine.measure import Symmetry
from intertwine.nn import Conv2d
from intertwine.spaces import FieldAction, Grid2d, HomogeneousSpace, Sphere

D4 = Dihedral(4)
FIELD = Grid2d(D4).field(D4.regular)
COSETS = HomogeneousSpace(D4, D4.subgroup([4]))
VALUES = [
    D4, SO2(), D4.regular, SO2().irrep(1), D4.regular @ D4.trivial, Grid2d(D4), Sphere(), COSETS, FIELD,
    FieldAction.of(FIELD), Symmetry("D4"), solve(FIELD, FIELD, kernel_size=3),
    solve(COSETS.field(COSETS.stabilizer.regular), COSETS.field(COSETS.stabilizer.trivial)),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_its_own_copy(value: object) -> None:
    assert copy.deepcopy(value) is value
    assert copy.deepcopy([value])[0] is value


@pytest.mark.parametrize("value", VALUES[:9], ids=lambda value: type(value).__name__)
def test_a_pickled_value_is_equal(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_copies_of_a_layer_share_types_and_no_weights() -> None:
    layer = Conv2d(FIELD, FIELD, 3)
    twin = copy.deepcopy(layer)
    assert twin.in_type is layer.in_type
    x = torch.randn(1, 8, 5, 5)
    before = layer(x)
    with torch.no_grad():
        for weight in twin.parameters():
            weight.add_(1)
    assert torch.equal(layer(x), before)
    assert not torch.equal(twin(x), before)
