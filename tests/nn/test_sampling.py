"""Rings, widths and band limits of sampled filters, on layers."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import SO2, SO3, Cyclic
from intertwine.kernels import solve
from intertwine.nn import Conv2d, Conv3d
from intertwine.spaces import Grid2d, Grid3d
from intertwine.testing import assert_equivariant

C4, C8, SO_2 = Cyclic(4), Cyclic(8), SO2()
PLANE = Grid2d(SO_2)
FIELD = PLANE.field(SO_2.trivial + SO_2.irrep(1))
REGULAR = Grid2d(C8).field(C8.regular)


def count(layer):
    return sum(w[0, 0].numel() * w.shape[0] * w.shape[1] for w in layer.weights)


@pytest.mark.parametrize("field", [FIELD, REGULAR], ids=["SO(2)", "C8"])
@pytest.mark.parametrize("options", [{"rings": (1, 2)}, {"sigma": 0.9}, {"band_limit": 1}, {"band_limit": round}])
def test_the_layer_has_the_kernels_of_the_solver(field, options):
    layer = Conv2d(field, field, 5, padding=2, bias=False, **options).double()
    basis = solve(field, field, kernel_size=5, **options)
    assert count(layer) == basis.dim
    kernels = basis.filters().flatten(1)
    with torch.no_grad():
        kappa = layer.expand()[0].flatten()
    left = torch.linalg.lstsq(kernels.T, kappa).solution
    assert (kernels.T @ left - kappa).abs().max() < 1e-10
    default = Conv2d(field, field, 5, padding=2, bias=False).double()
    with torch.no_grad():
        other = default.expand()[0].flatten()
    rest = kernels.T @ torch.linalg.lstsq(kernels.T, other).solution - other
    assert rest.abs().max() > 1e-4  # the default has other kernels
    assert assert_equivariant(layer) < 1e-10


def test_in_space():
    group = SO3()
    field = Grid3d(group).field(group.trivial + group.irrep(1))
    layer = Conv3d(field, field, 3, padding=1, band_limit=0)
    assert count(layer) == solve(field, field, kernel_size=3, band_limit=0).dim
    assert assert_equivariant(layer) < 1e-10


def test_a_function_does_not_stay_in_the_layer():
    layer = Conv2d(FIELD, FIELD, 5, band_limit=lambda r: int(r))
    x = torch.randn(1, 3, 9, 9)
    for twin in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert torch.equal(twin(x), layer(x))


def test_free_filters_have_no_rings():
    field = Grid2d(C4).field(C4.regular)
    with pytest.raises(
        InputError, match=r"Conv2d: expected rings, sigma and band_limit only for groups that do not map"
    ):
        Conv2d(field, field, 5, rings=(0, 1))
    with pytest.raises(InputError, match="positive widths"):
        Conv2d(FIELD, FIELD, 5, sigma=-1.0)
