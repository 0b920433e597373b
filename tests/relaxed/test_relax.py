"""Loosening a strict network from where it is: the same function, dials that learn, the way back, what is kept."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
from torch import nn

import intertwine
from intertwine import measure
from intertwine import nn as tnn
from intertwine.errors import InputError
from intertwine.relaxed import (
    LowRankConv,
    LowRankLocalConv2d,
    ModulatedConv,
    OrientationConv,
    RelaxedLayer,
    ResidualConv,
    relax,
    relaxation_table,
    relaxed_layers,
    to_equivariant_,
)
from intertwine.spaces import Grid2d, Grid3d
from intertwine.testing import assert_equivariant, equivariance_errors

METHODS = ("low-rank", "orientation", "soft", "residual")
PLAIN_METHODS = ("low-rank", "soft", "residual")


@cache
def convs(name: str) -> list[tnn.Layer]:
    """The examples of a layer; tests work on copies."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return list(tnn.LAYERS[name].examples())


CONVS = [
    pytest.param(name, number, id=f"{name}-{number}", marks=[pytest.mark.slow] if name == "Conv3d" and number else [])
    for name in ("Conv2d", "Conv3d")
    for number in range(len(convs(name)))
]


def d4_net(dtype: torch.dtype = torch.float64) -> tnn.Sequential:
    torch.manual_seed(0)
    plane = Grid2d("D4")
    rgb, hidden = plane.field("2*trivial"), plane.field("2*regular")
    net = tnn.Sequential(
        tnn.Conv2d(rgb, hidden, 3, padding=1),
        tnn.BatchNorm(hidden),
        tnn.ReLU(hidden),
        tnn.Residual(tnn.Sequential(tnn.Conv2d(hidden, hidden, 3, padding=1), tnn.ReLU(hidden))),
        tnn.Conv2d(hidden, plane.field("regular + irrep1"), 3),
    )
    return net.to(dtype)


def images(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def train(net: nn.Module, x: torch.Tensor, steps: int = 5) -> None:
    """A few steps towards an answer that no strict network gives."""
    net.train()
    optimizer = torch.optim.Adam(net.parameters(), 0.03)
    with torch.no_grad():
        target = torch.randn_like(net(x))
    for _ in range(steps):
        optimizer.zero_grad()
        (net(x) - target).square().mean().backward()
        optimizer.step()
    net.eval()


@pytest.mark.parametrize(("name", "number"), CONVS)
@pytest.mark.parametrize("how", METHODS)
def test_every_strict_convolution(name: str, number: int, how: str) -> None:
    torch.manual_seed(number)
    conv = copy.deepcopy(convs(name)[number]).double()
    size = next(n for n in range(7, 20) if accepts(conv, n))
    x = images(2, conv.in_type.dim, *[size] * conv.in_type.space.dimension)
    if getattr(conv, "on_hexagon", False):
        with pytest.raises(InputError, match="it works on a hexagon"):
            relax(conv, x, how)
        return
    if how == "orientation" and not any(atom.dim > 1 and atom.is_permutation for atom in conv.out_type.rho.atoms):
        with pytest.raises(InputError, match=r"can be relaxed by 'orientation'; got .*no regular or quotient fields"):
            relax(conv, x, how)
        return
    layer = relax(conv, x, how)
    assert isinstance(layer, RelaxedLayer)
    assert (layer.in_type, layer.out_type) == (conv.in_type, conv.out_type)
    with torch.no_grad():
        assert (layer(x) - conv(x)).abs().max() <= 1e-12 * conv(x).abs().max()
    assert all(share < 1e-6 for share in layer.relaxation().values())
    train(layer, x)
    after = layer.relaxation()
    assert max(after.values()) > 1e-5
    if isinstance(conv.claim, tnn.Exact):  # what was learned in five steps is too rough for the bounds of the others
        assert_equivariant(layer, size=size)
    layer.to_equivariant_()
    assert max(layer.relaxation().values()) < 1e-7
    if isinstance(conv.claim, tnn.Exact):
        assert max(equivariance_errors(layer, size=size).values()) < 1e-10


def accepts(conv: tnn.Layer, size: int) -> bool:
    try:
        conv.output_sizes((size,) * conv.in_type.space.dimension)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("how", "options", "kind"),
    [
        ("low-rank", {"rank": 3}, LowRankConv),
        ("low-rank", {"rank": 2, "keep": "D4"}, LowRankConv),
        ("orientation", {}, OrientationConv),
        ("soft", {"softness": 0.5}, ModulatedConv),
        ("soft", {"softness": 0.5, "keep": "D4", "frequencies": 2}, ModulatedConv),
        ("soft", {"softness": {"D4": 0.5}}, ModulatedConv),
        ("residual", {}, ResidualConv),
    ],
)
def test_a_typed_network(how: str, options: dict, kind: type) -> None:
    net = d4_net()
    with torch.no_grad():
        net(images(4, 2, 11, 11))  # statistics of the batch norm
    x = images(4, 2, 9, 9)
    statistics = {key: value.clone() for key, value in net.named_buffers() if "running" in key}
    free = relax(net, x, how, **options)
    assert all(torch.equal(value, dict(free.named_buffers())[key]) for key, value in statistics.items())
    with torch.no_grad():
        assert torch.allclose(free.eval()(x), net.eval()(x), atol=1e-12)
    convs = [row for row in free.relax_report.rows if row.kind == "Conv2d"]
    assert all(row.now == kind.__name__ for row in convs)
    assert free.relax_report.strict == {"1": "only convolutions are relaxed"}
    train(free, x)
    claim = free.claim
    assert isinstance(claim, tnn.Relaxed)
    assert max(claim.shares.values()) > 1e-3
    errors = equivariance_errors(free, size=9)
    for subgroup, share in claim.shares.items():
        assert (errors.get(subgroup, 1.0) > 1e-6) == (share > 1e-9), subgroup
    assert_equivariant(free, size=9)
    plain = tnn.to_plain(free)
    with torch.no_grad():
        assert torch.allclose(plain(x), free(x), atol=1e-10)
    to_equivariant_(free)
    assert max(equivariance_errors(free, size=9).values()) < 1e-10
    assert len(str(relaxation_table(free)).splitlines()) == 4


def test_translations_relaxed_while_d4_is_exact() -> None:
    """Whole networks, float64, all elements of D4, after training: position-dependent and symmetric."""
    x = images(4, 2, 9, 9)
    for how, options in (("low-rank", {"rank": 3}), ("soft", {"softness": 0.8, "frequencies": 2})):
        free = relax(d4_net(), x, how, keep="D4", **options)
        train(free, x, 20)
        errors = equivariance_errors(free, size=9)
        assert errors["D4"] < 1e-10
        assert free.claim.shares.keys() == {"translation"}
        assert free.claim.shares["translation"] > 1e-3
        first = free[0]
        assert equivariance_errors(first)["translation"] > 1e-3
        # Without keep the same training breaks D4.
        loose = relax(d4_net(), x, how, **options)
        train(loose, x, 20)
        assert equivariance_errors(loose, size=9)["D4"] > 1e-4


def test_d4_relaxed_while_translations_are_exact() -> None:
    plane = Grid2d("D4")
    rgb, hidden = plane.field("2*trivial"), plane.field("2*regular")
    around = {"padding": 1, "padding_mode": "circular"}
    torch.manual_seed(0)
    net = tnn.Sequential(
        tnn.Conv2d(rgb, hidden, 3, **around), tnn.ReLU(hidden), tnn.Conv2d(hidden, hidden, 3, **around)
    ).double()
    x = images(4, 2, 8, 8)
    for how, options in (
        ("orientation", {"rank": 3}),
        ("soft", {"softness": {"D4": 0.5}}),
        ("residual", {"keep": "translation"}),
    ):
        free = relax(net, x, how, **options)
        train(free, x, 20)
        shift = (3, -2)
        with torch.no_grad():
            moved = free(x.roll(shift, (-2, -1))) - free(x).roll(shift, (-2, -1))
        assert moved.abs().max() < 1e-12
        assert "translation" not in free.claim.shares
        assert free.claim.shares["D4"] > 1e-3
        assert equivariance_errors(free)["D4"] > 1e-4


class Signals(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 6, 5, padding="same")
        self.second = nn.Conv1d(6, 6, 3, stride=2, groups=3, padding=1, padding_mode="replicate")
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x).relu()).relu().mean(-1))


def volumes() -> nn.Module:
    return nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.Conv3d(4, 4, 3), nn.Flatten())


def timm_net(name: str) -> nn.Module:
    intertwine.enable_torchvision()  # timm imports it
    import timm

    return timm.create_model(name, pretrained=False, num_classes=5)


def resnet18() -> nn.Module:
    intertwine.enable_torchvision()
    from torchvision.models import resnet18 as make

    return make(weights=None, num_classes=5)


NETWORKS = {
    "signals": (Signals, (2, 2, 20)),
    "volumes": (volumes, (2, 1, 6, 6, 6)),
    "resnet18": (resnet18, (2, 3, 32, 32)),
    "mobilenet": (lambda: timm_net("mobilenetv3_small_050"), (2, 3, 64, 64)),
    "convnext": (lambda: timm_net("convnext_atto"), (2, 3, 64, 64)),
}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param(name, how, marks=[pytest.mark.slow] if (name, how) == ("convnext", "residual") else [])
        for name in NETWORKS
        for how in PLAIN_METHODS
    ],
)
def test_networks_of_torch(name: str, how: str) -> None:
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    net = make()
    x = images(*shape, dtype=torch.float32)
    options = {"rank": 2} if how == "low-rank" else {}
    state = {key: value.clone() for key, value in net.state_dict().items()}
    free = relax(net, x, how, **options)
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items()), "the network is not changed"
    with torch.no_grad():
        expected = net.eval()(x)
        assert (free.eval()(x) - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert free.relax_report.relaxed
    convs = [row for row in free.relax_report.rows if row.kind in ("Conv1d", "Conv2d", "Conv3d")]
    assert all(row.now is not None or "one position" in row.why or "memory" in row.why.lower() for row in convs), convs
    if how == "residual" and name == "resnet18":
        return  # a free kernel at every position: correct, and slow to train here
    train(free, x, steps=2)
    shares = [share for _, layer in relaxed_layers(free) for share in layer.relaxation().values()]
    assert max(shares) > 1e-4
    to_equivariant_(free)
    assert max(share for _, layer in relaxed_layers(free) for share in layer.relaxation().values()) < 1e-3


def test_the_published_layer_is_the_case_of_the_trivial_group() -> None:
    """LowRankConv on a convolution of torch, and LowRankLocalConv2d with its banks and combining weights."""
    torch.manual_seed(0)
    loose = LowRankConv(nn.Conv2d(3, 4, 3, stride=2, padding=1), input_size=(9, 8), rank=3).double().perturb_(1.0)
    published = LowRankLocalConv2d(
        3, 4, 3, rank=3, input_size=(9, 8), stride=2, padding=1, spatial_bias=False, path="build"
    ).double()
    with torch.no_grad():
        published.weight.copy_(torch.stack([bank.weight for bank in loose.banks]))
        published.bias.copy_(loose.banks[0].bias)
        published.combining.rows.copy_(loose.logits[0])
        published.combining.columns.copy_(loose.logits[1])
        x = images(2, 3, 9, 8)
        assert torch.allclose(loose(x), published(x), atol=1e-12)
    assert loose.relaxation() == pytest.approx(published.relaxation())


def test_a_network_of_torch_goes_back_to_convolutions() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.Conv2d(4, 3, 3))
    x = images(3, 2, 10, 10)
    for how in PLAIN_METHODS:
        free = relax(net.double(), x, how)
        train(free, x)
        to_equivariant_(free)
        inner = free[0]
        assert equivariance_errors(inner, size=10)["translation"] < 1e-12


def test_shared_modules_and_weights() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.other, self.tied = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
            self.tied.weight = self.other.weight
            self.again = self.conv

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.tied(self.other(self.again(self.conv(x))))

    x = images(2, 3, 8, 8, dtype=torch.float32)
    free = relax(Twice(), x, "low-rank")
    assert free.conv is free.again, "one module stays one module"
    assert free.relax_report.relaxed == ("conv",)
    assert set(free.relax_report.strict.values()) == {"it shares its weight with another layer"}


def test_several_sizes_stay_strict() -> None:
    class Pyramid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.conv(nn.functional.max_pool2d(self.conv(x), 2)))

    free = relax(Pyramid(), images(2, 3, 8, 8, dtype=torch.float32), "soft")
    assert "several sizes" in free.relax_report.strict["conv"]
    assert free.relax_report.relaxed == ("last",)


def test_a_convolution_with_a_forward_of_its_own_stays() -> None:
    class Standardized(nn.Conv2d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
            return nn.functional.conv2d(x, weight, self.bias)

    net = nn.Sequential(Standardized(1, 2, 3), nn.Conv2d(2, 2, 3))
    free = relax(net, images(1, 1, 9, 9, dtype=torch.float32), "low-rank")
    assert free.relax_report.strict == {"0": "it is a subclass of a convolution"}
    assert "strict: it is a subclass of a convolution" in str(free.relax_report)


def test_three_dimensions_and_infinite_groups() -> None:
    cube = Grid3d("O")
    torch.manual_seed(0)
    conv = tnn.Conv3d(cube.field("trivial"), cube.field("regular"), 3).double()
    x = images(1, 1, 6, 6, 6)
    free = relax(conv, x, "low-rank", rank=2, keep="O")
    train(free, x)
    assert equivariance_errors(free, size=6)["O"] < 1e-10
    plane = Grid2d("SO(2)")
    turning = tnn.Conv2d(plane.field("trivial"), plane.field("irrep0 + irrep1"), 5, padding=2).double()
    x = images(2, 1, 9, 9)
    soft = relax(turning, x, "soft")
    assert torch.allclose(soft(x), turning(x), atol=1e-12)
    assert set(soft.relaxation()) == {"translation", "SO(2)"}
    free = relax(turning, x, "residual", keep="translation")
    train(free, x)
    assert free.claim.shares.keys() == {"SO(2)"}
    assert equivariance_errors(free, size=9)["SO(2)"] > 1e-3
    assert equivariance_errors(free.to_equivariant_(), size=9)["SO(2)"] < 1e-10


def test_a_symmetrized_network_can_be_loosened() -> None:
    """From a network of torch: symmetrized, typed, loosened by mirrors alone, trained, exported, and back."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip
    x = images(16, 1, 8, 8, dtype=torch.float32)
    typed = tnn.typed(measure.symmetrize(net, x, "hflip", refit=False))
    free = relax(typed, x, "orientation")
    assert torch.allclose(free(x), typed(x), atol=1e-5)
    train(free, x, 10)
    assert free.claim.shares["D1"] > 1e-4
    assert equivariance_errors(free, size=8)["D1"] > 1e-6
    plain = tnn.to_plain(free)
    program = torch.export.export(plain, (x,))
    with torch.no_grad():
        assert torch.allclose(program.module()(x), free(x), atol=1e-5)
    to_equivariant_(free)
    assert equivariance_errors(free, size=8)["D1"] < 1e-10


def test_float32_and_devices() -> None:
    net = d4_net(torch.float32)
    free = relax(net, images(2, 2, 9, 9, dtype=torch.float32), "soft")
    assert {p.dtype for p in free.parameters()} == {torch.float32}
    assert free.training == net.training


@pytest.mark.parametrize(
    ("how", "options", "message"),
    [
        ("low-rank", {"softness": 0.3}, "options of 'low-rank': rank, spread, keep; got softness"),
        ("orientation", {"keep": "D4"}, "options of 'orientation'"),
        ("low-rank", {"rank": 1}, "a rank of 2 or more"),
        ("low-rank", {"keep": "C3"}, "keep=None, or the name of the layer's group"),
        ("soft", {"softness": 0.0}, "a softness above 0"),
        ("soft", {"softness": {"C3": 1.0}}, "one each for 'translation' and 'D4'"),
        ("residual", {"keep": "D4"}, "keep='translation' or None"),
    ],
)
def test_bad_options_are_explained(how: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        relax(d4_net(), images(2, 2, 9, 9), how, **options)


def test_networks_without_convolutions_are_refused() -> None:
    with pytest.raises(InputError, match="a network with convolutions"):
        relax(nn.Linear(3, 2), torch.zeros(1, 3), "soft")
    with pytest.raises(InputError, match="images that the network takes"):
        relax(nn.Conv2d(3, 2, 3), torch.zeros(1, 4, 8, 8), "soft")


def test_a_network_that_changes_by_itself_is_refused() -> None:
    class Moody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.calls = nn.Conv2d(1, 1, 3), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.calls * self.conv(x)

    with pytest.raises(InputError, match="differ by"):
        relax(Moody(), images(1, 1, 6, 6, dtype=torch.float32), "low-rank")
