"""The network in which one layer is exchanged: the published sizes, and what it does with each kind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.models import SimpleNet
from intertwine.relaxed import LowRankLocalConv2d, relaxation_table, to_locally_connected

MNIST, CIFAR, CELEBA = (1, 28, 10), (3, 32, 10), (3, 32, 2)


def parameters(data, **options) -> int:
    """Counted without memory for the weights."""
    with torch.device("meta"):
        return sum(p.numel() for p in SimpleNet(*data, **options).parameters())


TABLE = [
    ({"layer": "conv"}, 75_338, 76_490, 75_970),
    ({"layer": "conv-fc"}, 384_458, 508_490, 162_370),
    ({"layer": "coord"}, 76_490, 77_642, 77_122),
    ({"layer": "spatial-bias", "where": 1}, 75_390, 76_550, 76_030),
    ({"layer": "spatial-bias", "where": 2}, 75_386, 76_546, 76_026),
    ({"layer": "spatial-bias", "where": 3}, 75_382, 76_542, 76_022),
    ({"layer": "low-rank", "where": 1, "rank": 2}, 76_070, 78_398, 77_878),
    ({"layer": "low-rank", "where": 1, "rank": 4}, 77_326, 81_974, 81_454),
    ({"layer": "low-rank", "where": 3, "rank": 2}, 112_334, 113_510, 112_990),
    ({"layer": "low-rank", "where": 3, "rank": 4}, 186_150, 187_342, 186_822),
    ({"layer": "input-low-rank", "where": 3, "rank": 2}, 113_084, 114_428, 113_908),
    ({"layer": "input-low-rank", "where": 3, "rank": 4}, 187_546, 188_890, 188_370),
    ({"layer": "wide", "where": 3, "rank": 2}, 112_970, 114_122, 113_090),
    ({"layer": "wide", "where": 3, "rank": 4}, 188_234, 189_386, 187_330),
]


@pytest.mark.parametrize(("options", "mnist", "cifar", "celeba"), TABLE, ids=lambda value: str(value)[:60])
def test_the_table_of_sizes(options, mnist, cifar, celeba):
    assert [parameters(data, **options) for data in (MNIST, CIFAR, CELEBA)] == [mnist, cifar, celeba]


@pytest.mark.parametrize(
    ("where", "mnist", "cifar"), [(1, 0.507, 1.69), (2, 21.3, 29.0), (3, 17.9, 25.0)], ids=lambda value: str(value)
)
def test_the_table_of_sizes_in_millions(where, mnist, cifar):
    millions = [parameters(data, layer="local", where=where) / 1e6 for data in (MNIST, CIFAR, CELEBA)]
    assert [float(f"{n:.3g}") for n in millions] == [mnist, cifar, cifar]


def test_spatial_bias_everywhere_and_low_rank_everywhere():
    conv = parameters(CIFAR, layer="conv")
    maps = (30, 28, 26)
    assert parameters(CIFAR, layer="spatial-bias", where="all") == conv + 2 * sum(maps)
    banks = (3 + 64 + 64) * 64 * 9
    assert parameters(CIFAR, layer="low-rank", where="all", rank=3) == conv + 2 * banks + 4 * 2 * sum(maps)


def test_the_recipe_for_small_machines():
    """32 channels and strides of 2 give these parameter counts."""
    small = {"width": 32, "strides": (2, 2, 1)}
    kinds = [("low-rank", 4, 47_516), ("wide", 4, 48_618), ("local", None, 241_802)]
    assert parameters(CIFAR, layer="conv", **small) == 19_818
    for layer, rank, expected in kinds:
        assert parameters(CIFAR, layer=layer, where=3, rank=rank, **small) == expected


def test_a_wide_layer_widens_the_next():
    net = SimpleNet(3, 12, 10, layer="wide", where=2, rank=4)
    assert [layer.weight.shape[:2] for layer in net.features if isinstance(layer, nn.Conv2d)] == [
        (64, 3),
        (160, 64),
        (64, 160),
    ]


@pytest.mark.parametrize("layer", ["conv", "conv-fc", "coord", "spatial-bias", "low-rank", "input-low-rank", "local"])
def test_every_kind_is_trained(layer):
    torch.manual_seed(0)
    ranked, anywhere = layer.endswith("low-rank"), layer not in ("conv", "conv-fc", "coord")
    options = {"where": "all" if anywhere else None, "rank": 2 if ranked else None}
    net = SimpleNet(1, 9, 4, layer=layer, width=6, **options)
    x, y = torch.randn(8, 1, 9, 9), torch.arange(8) % 4
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in net.parameters())
    moved = [name for name, p in net.named_parameters() if p.grad.abs().max() > 1e-9]
    assert len(moved) == len(list(net.parameters()))


def test_rank_one_is_convolution_with_spatial_bias():
    torch.manual_seed(0)
    first = SimpleNet(1, 9, 4, layer="spatial-bias", where=2, width=6).eval()
    second = SimpleNet(1, 9, 4, layer="low-rank", where=2, rank=1, width=6).eval()
    weights = dict(first.state_dict())
    target = second.state_dict()
    renamed = {
        "features.3.0.weight": "features.3.weight",
        "features.3.1.spatial.rows": "features.3.spatial.rows",
        "features.3.1.spatial.columns": "features.3.spatial.columns",
    }
    for name, value in weights.items():
        value = torch.randn_like(value) if "spatial" in name else value
        weights[name] = value
        target[renamed.get(name, name)].copy_(value.reshape(target[renamed.get(name, name)].shape))
    first.load_state_dict(weights)
    x = torch.randn(5, 1, 9, 9)
    with torch.no_grad():
        torch.testing.assert_close(first(x), second(x))


def test_a_trained_net_as_locally_connected():
    torch.manual_seed(0)
    net = SimpleNet(1, 9, 4, layer="low-rank", where="all", rank=3, width=6).double().eval()
    for layer in net.modules():
        if isinstance(layer, LowRankLocalConv2d):
            layer.perturb_(0.5)
    plain = to_locally_connected(net)
    assert not any(isinstance(layer, LowRankLocalConv2d) for layer in plain.modules())
    assert any(isinstance(layer, LowRankLocalConv2d) for layer in net.modules()), "the original stays"
    x = torch.randn(5, 1, 9, 9, dtype=torch.float64)
    with torch.no_grad():
        assert (plain(x) - net(x)).abs().max() < 1e-12
    assert len(relaxation_table(plain).rows) == 3


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"layer": "lrlc"}, "layer to be 'conv', .*; got 'lrlc'"),
        ({"layer": "local"}, r"where=1, 2, 3 or 'all' .*; got where=None"),
        ({"layer": "local", "where": 4}, "got where=4"),
        ({"layer": "wide", "where": "all", "rank": 2}, "where=1, 2 or 3"),
        ({"layer": "coord", "where": 2}, "no where= for layer 'coord'"),
        ({"layer": "low-rank", "where": 1}, "a rank for layer 'low-rank'; got rank=None"),
        ({"layer": "conv", "rank": 2}, "no rank for layer 'conv'"),
        ({"layer": "low-rank", "where": 3, "rank": 10}, "rank of at most 9"),
        ({"strides": (1, 1)}, "three strides"),
        ({"strides": (2, 2, 2)}, "without padding; got 9 x 9"),
    ],
)
def test_bad_input(options, match):
    with pytest.raises(InputError, match=match):
        SimpleNet(1, 9, 4, width=4, **options)


def test_another_size_than_built_for():
    with pytest.raises(InputError, match=r"images \(1, 9, 9\); got \(1, 10, 9\)"):
        SimpleNet(1, 9, 4, width=4)(torch.zeros(2, 1, 10, 9))
