"""Locally connected layers, coordinates and spatial biases, each against the obvious way to compute it."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d, unfold

from intertwine.errors import InputError
from intertwine.relaxed import CoordConv2d, LocallyConnected2d, SpatialBias2d


def images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "options", [{}, {"stride": (2, 1)}, {"padding": (1, 2)}, {"dilation": (2, 1), "padding": 1, "stride": 2}]
)
def test_locally_connected_by_unfolding(options):
    torch.manual_seed(0)
    layer = LocallyConnected2d(2, 4, 3, input_size=(9, 8), **options).double()
    torch.nn.init.normal_(layer.bias)
    x = images(3, 2, 9, 8)
    patches = unfold(x, 3, **options)  # (batch, channels 9, places)
    expected = (
        torch.einsum("lod,ndl->nol", layer.weight.movedim(-1, 2).flatten(2), patches).unflatten(
            2, layer.places.output_size
        )
        + layer.bias
    )
    assert (layer(x) - expected).abs().max() < 1e-13


def test_mixed_precision():
    """The images are rounded before windows are cut, which is what autocast would do later; float64 stays."""
    layer, x = LocallyConnected2d(2, 4, 3, input_size=(9, 8)), images(3, 2, 9, 8)
    patches = unfold(x.float(), 3)
    with torch.autocast("cpu", torch.bfloat16):
        banks = layer.weight.movedim(-1, 2).flatten(2)
        expected = torch.bmm(patches.permute(2, 0, 1), banks.transpose(1, 2)).permute(1, 2, 0)
        ours = layer(x.float()) - layer.bias
        assert layer.double()(x).dtype == torch.float64
    assert expected.dtype == torch.bfloat16
    assert (ours.flatten(2) - expected).abs().max() < 0.02 * expected.abs().max()


def test_equal_banks_are_a_convolution():
    layer = LocallyConnected2d(2, 4, 3, input_size=(9, 8)).double().to_equivariant_()
    x = images(3, 2, 9, 8)
    expected = conv2d(x, layer.weight[0].movedim(-1, 1), layer.bias[:, 0, 0])
    assert (layer(x) - expected).abs().max() < 1e-13
    assert layer.relaxation()["translation"] < 1e-14
    assert LocallyConnected2d(2, 4, 3, input_size=20).relaxation()["translation"] > 0.99


def test_the_two_fans_of_a_locally_connected_layer():
    torch.manual_seed(0)
    largest = [
        float(LocallyConnected2d(4, 8, 3, input_size=12, lc_init=init).weight.detach().abs().max())
        for init in ("per_position", "keras")
    ]
    bound = (6 / 36) ** 0.5
    assert 0.99 * bound < largest[0] <= bound
    assert 0.99 * bound / 10 < largest[1] <= bound / 10  # a hundred places


def test_coordinates_are_two_more_channels():
    torch.manual_seed(0)
    layer = CoordConv2d(2, 4, 3, stride=2, padding=1).double()
    torch.nn.init.normal_(layer.bias)
    x = images(3, 2, 9, 6)
    rows = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None].expand(3, 1, 9, 6)
    columns = torch.linspace(-1, 1, 6, dtype=torch.float64).expand(3, 1, 9, 6)
    expected = conv2d(torch.cat([x, rows, columns], 1), layer.weight, layer.bias, 2, 1)
    assert (layer(x) - expected).abs().max() < 1e-13
    assert layer(images(1, 2, 30, 5)).shape == (1, 4, 15, 3), "images of any size"


def test_spatial_bias():
    layer = SpatialBias2d(2, input_size=(3, 4), bias=True).double().perturb_(1.0)
    torch.nn.init.normal_(layer.bias)
    x = images(3, 2, 3, 4)
    added = layer(x) - x
    rows, columns, channels = layer.spatial.rows[0], layer.spatial.columns[0], layer.bias
    assert (added - (rows[:, None] + columns + channels[:, None, None])).abs().max() < 1e-14
    assert set(dict(SpatialBias2d(2, input_size=3, sharing="rows").named_parameters())) == {"spatial.rows"}


@pytest.mark.parametrize("layer", [LocallyConnected2d(2, 3, 3, input_size=6), SpatialBias2d(2, input_size=6)])
def test_another_size_than_built_for(layer):
    for shape in ((1, 2, 6, 7), (1, 3, 6, 6), (2, 6, 6)):
        with pytest.raises(InputError, match=r"\(batch, 2, 6, 6\); got"):
            layer(torch.zeros(shape))


def test_bad_input():
    with pytest.raises(InputError, match="lc_init to be 'keras' or 'per_position'"):
        LocallyConnected2d(2, 3, 3, input_size=6, lc_init="he")
    with pytest.raises(InputError, match="input_size of at least 1, or 2 of them"):
        LocallyConnected2d(2, 3, 3, input_size=0)
    with pytest.raises(InputError, match="sharing to be 'factorized'"):
        SpatialBias2d(2, input_size=6, sharing="none")
    with pytest.raises(InputError, match="adds the two coordinates itself"):
        CoordConv2d(2, 3, 3)(torch.zeros(1, 4, 6, 6))
    with pytest.raises(InputError, match="padding of at least 0, or 2 of them"):
        CoordConv2d(2, 3, 3, padding=-1)
