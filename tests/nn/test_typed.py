"""Symmetrized networks as layers: the same outputs, the free parameters as weights, symmetry by construction."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as f

import intertwine as tw
from intertwine import nn as tnn
from intertwine.errors import InputError
from intertwine.groups import Cyclic, Dihedral
from intertwine.measure import Symmetrized, Symmetry, match, symmetrize
from intertwine.nn.twins._orbit_types import orbit_type
from intertwine.testing import assert_equivariant
from tests.compiling import compiled
from tests.measure.nets import Padded


def conv(a: int, b: int, **options) -> nn.Module:
    return nn.Conv2d(a, b, 3, padding=1, **options)


def head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5)]


class Block(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.one, self.two = conv(a, b, stride=stride, bias=False), conv(b, b)
        self.norm = nn.BatchNorm2d(b)
        self.shortcut = nn.Conv2d(a, b, 1, stride=stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return f.relu(self.shortcut(x) + self.two(f.relu(self.norm(self.one(x)), inplace=True)))


class Gate(nn.Module):
    """Squeeze and excitation: a product of two streams, which no layer of ours computes."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(c, 4, 1), nn.Conv2d(4, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(f.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Dense(nn.Module):
    """Branches that share layers."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.one, self.two = conv(c, 8), conv(c + 8, 8)

    def forward(self, x):
        y = f.relu(self.one(x))
        return torch.cat([x, y, f.relu(self.two(torch.cat([x, y], 1)))], 1)


class Grown(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv = conv(c, 4)

    def forward(self, x):
        return torch.cat([x, self.conv(f.leaky_relu(x, 0.2))], 1)


class Twice(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv = conv(c, c)

    def forward(self, x):
        return self.conv(f.silu(self.conv(x)))


class ChannelsLast(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(c), nn.Linear(c, 2 * c), nn.Linear(2 * c, c)

    def forward(self, x):
        return x + self.down(f.gelu(self.up(self.norm(x.permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)


def vgg() -> nn.Module:
    return nn.Sequential(
        conv(3, 16, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.MaxPool2d(2),
        conv(16, 24, bias=False), nn.BatchNorm2d(24), nn.GELU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(24 * 4, 16), nn.Hardswish(inplace=True), nn.Linear(16, 5),
    )  # fmt: skip


def vectors() -> nn.Module:
    """Batch norms of flattened maps and of vectors, a PReLU with one slope for each channel, a softmax."""
    first = [conv(3, 4), nn.Flatten(), nn.BatchNorm1d(256), nn.Linear(256, 16)]
    return nn.Sequential(*first, nn.BatchNorm1d(16), nn.PReLU(16), nn.Linear(16, 4), nn.LogSoftmax(1))


def maps() -> nn.Module:
    """A network whose output is a map, with padding and norms of other kinds."""
    first = [conv(3, 12, padding_mode="reflect"), nn.GroupNorm(3, 12), nn.AvgPool2d(2), conv(12, 6)]
    return nn.Sequential(*first, nn.ConvTranspose2d(6, 4, 2, stride=2), conv(4, 2))


def depthwise() -> nn.Module:
    return nn.Sequential(conv(3, 12), nn.ReLU6(), conv(12, 12, groups=12), conv(12, 12, groups=3), *head(12))


NETWORKS = {
    "vgg": (vgg, ["Conv2d", "BatchNorm", "Pointwise", "Linear"], 8),
    "resnet": (lambda: nn.Sequential(conv(3, 8), Block(8, 8, 1), Block(8, 12, 2), *head(12)), ["Residual"], 9),
    "gate": (lambda: nn.Sequential(conv(3, 12), nn.ReLU(), Gate(12), *head(12)), ["Plain"], 8),
    "dense": (lambda: nn.Sequential(conv(3, 12), nn.ReLU(), Dense(12), *head(28)), ["Plain"], 8),
    "grown": (lambda: nn.Sequential(conv(3, 12), Grown(12), conv(16, 8), *head(8)), ["Concat"], 8),
    "twice": (lambda: nn.Sequential(conv(3, 12), Twice(12), *head(12)), ["Conv2d"], 8),
    "channels last": (lambda: nn.Sequential(conv(3, 12), ChannelsLast(12), *head(12)), ["Residual", "Plain"], 8),
    "depthwise": (depthwise, ["Plain"], 8),
    "vectors": (vectors, ["Plain", "Linear"], 8),
    "maps": (maps, ["Plain", "AvgPool2d"], 8),
    "tuples": (lambda: nn.Sequential(conv(3, 8), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 3)), ["Plain"], 8),
}


def made(name: str, symmetry: str | Symmetry) -> tuple[Symmetrized, torch.Tensor]:
    torch.manual_seed(0)
    make, _, size = NETWORKS[name]
    net = make()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    x = torch.randn(40, 3, size, size).cumsum(2).cumsum(3) / size
    return symmetrize(net, x, symmetry, refit=False), x


CASES = [("hflip", name) for name in NETWORKS] + [("d4", name) for name in ("vgg", "resnet", "gate", "vectors", "maps")]


@pytest.mark.parametrize(("symmetry", "name"), CASES)
def test_the_same_function_with_symmetry_by_construction(symmetry, name):
    twin, x = made(name, symmetry)
    net = tnn.typed(twin)
    size = x.shape[-1]
    kinds = {type(layer).__name__ for layer in net.modules()}
    assert kinds.issuperset(NETWORKS[name][1])
    with torch.no_grad():
        expected = twin.model(x)
        assert (net(x) - expected).abs().max() < 1e-5 * expected.abs().max()
    assert net.claim == tnn.Exact()
    assert net.in_type.space.stabilizer == {"hflip": Dihedral(1), "d4": Dihedral(4)}[symmetry]
    assert sum(p.numel() for p in net.parameters()) == twin.free_parameters
    assert assert_equivariant(net, size=size) < 1e-10

    plain = tnn.to_plain(net)
    assert not any(isinstance(module, tnn.Layer) for module in plain.modules())
    with torch.no_grad():
        assert (plain(x) - expected).abs().max() < 1e-5 * expected.abs().max()

    before = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.SGD(net.train().parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    assert all(not torch.equal(p, q) for p, q in zip(before, net.parameters(), strict=True))
    assert assert_equivariant(net, size=size) < 1e-10
    if not any(isinstance(layer, tnn.Dropout) for layer in net):  # which draws each place by itself, as the twin does
        assert assert_equivariant(net, size=size, training=True) < 1e-10
    assert not torch.allclose(net.eval()(x), expected, atol=1e-3)


@pytest.mark.parametrize("symmetry", ["vflip", "c4", "flips"])
def test_other_groups(symmetry):
    twin, x = made("vgg", symmetry)
    net = tnn.typed(twin)
    assert sum(p.numel() for p in net.parameters()) == twin.free_parameters
    assert assert_equivariant(net, size=8) < 1e-10
    torch.testing.assert_close(net(x), twin.model(x), atol=1e-5, rtol=1e-5)


def test_export_compile_and_copies():
    twin, x = made("gate", "hflip")
    net = tnn.typed(twin)
    with torch.no_grad():
        expected = net(x)
        exported = torch.export.export(net, (x,)).module()
        torch.testing.assert_close(exported(x), expected)
        torch.testing.assert_close(compiled(net)(x), expected)
        torch.testing.assert_close(copy.deepcopy(net)(x), expected)
        other = tnn.typed(made("gate", "hflip")[0])
        for p in other.parameters():
            p.zero_()
        other.load_state_dict(net.state_dict())
        torch.testing.assert_close(other(x), expected)


def test_a_symmetry_that_permutes_colors():
    def swap(x):
        return x.flip(-1)[:, [2, 1, 0]]

    symmetry = Symmetry.from_maps(Cyclic(2), [lambda x: x, swap], name="mirror and colors")
    twin, x = made("grown", symmetry)
    net = tnn.typed(twin)
    assert net.in_type.rho.name == "colors"
    assert assert_equivariant(net, size=8) < 1e-10
    torch.testing.assert_close(net(swap(x)), net(x), atol=1e-5, rtol=1e-5)


def test_biases_that_repair_added_count_as_weights():
    """Without batch norms the statistics are restored by biases, which the network did not have."""
    torch.manual_seed(0)
    net = nn.Sequential(conv(3, 8, bias=False), nn.ReLU(), conv(8, 8, bias=False), nn.ReLU(), *head(8))
    x = torch.randn(40, 3, 8, 8).cumsum(2).cumsum(3) / 8
    twin = symmetrize(net, x, "d4", refit=False)
    assert twin.model[0].bias is not None
    network = tnn.typed(twin)
    assert sum(p.numel() for p in network.parameters()) == twin.free_parameters
    assert assert_equivariant(network, size=8) < 1e-10
    torch.testing.assert_close(network(x), twin.model(x), atol=1e-5, rtol=1e-5)


def test_weights_that_are_shared_stay_shared():
    net = tnn.typed(made("twice", "hflip")[0])
    convs = [layer for layer in net if isinstance(layer, tnn.Conv2d)]
    assert len(convs) == 3
    assert convs[1] is convs[2]


def test_other_precisions():
    torch.manual_seed(0)
    x = torch.randn(20, 3, 8, 8, dtype=torch.float64)
    twin = symmetrize(vgg().double(), x, "c4", refit=False)
    net = tnn.typed(twin)
    assert next(net.parameters()).dtype == torch.float64
    assert (net(x) - twin.model(x)).abs().max() < 1e-12


@pytest.mark.parametrize("size", [7, 8])
def test_strides(size):
    torch.manual_seed(0)
    net, x = nn.Sequential(conv(3, 8, stride=2), nn.ReLU(), *head(8)), torch.randn(20, 3, size, size)
    twin = symmetrize(net, x, "hflip", refit=False)
    assert twin.windows == (("0",) if size == 8 else ())
    fits = tnn.typed(twin)
    assert assert_equivariant(fits, size=size) < 1e-10
    torch.testing.assert_close(fits(x), twin.model(x), atol=1e-5, rtol=1e-5)


def test_a_twin_that_was_changed_is_refused():
    twin, _ = made("resnet", "hflip")
    with torch.no_grad():
        twin.model[0].weight.add_(0.1 * torch.randn_like(twin.model[0].weight))
    with pytest.raises(InputError, match=r"equivariant weights in 0\.weight"):
        tnn.typed(twin)


class Position(nn.Module):
    """A map that fades from left to right: it has no symmetry, and its weights are constants."""

    def forward(self, x):
        return x * torch.linspace(0, 1, x.shape[-1])


@pytest.mark.parametrize("moved", [False, True])
def test_channels_on_both_sides_of_a_padded_shortcut(moved):
    """The zeros of the shortcut are fixed, so the channels that they are added to have to be fixed too."""
    net, x = Padded().eval(), torch.randn(40, 3, 9, 9)
    matching = match(net, x, "hflip")
    for name in ("a2", "b2"):
        still = torch.arange(len(matching.permutations[1][name]))
        matching.permutations[1][name] = still.roll(len(still) // 2) if moved and name == "b2" else still
    twin = symmetrize(net, x, "hflip", matching=matching, refit=False)
    if moved:
        with pytest.raises(InputError, match="the channels b2, which lie before and after"):
            tnn.typed(twin)
    else:
        assert assert_equivariant(tnn.typed(twin), size=9) < 1e-10


def test_what_does_not_commute_is_refused():
    """A constant ramp is no parameter, so symmetrize does not average it: the check of Plain layers must see it."""
    torch.manual_seed(0)
    net, x = nn.Sequential(conv(3, 8), Position(), conv(8, 2)), torch.randn(20, 3, 8, 8)
    with pytest.raises(InputError):
        tnn.typed(symmetrize(net, x, "hflip", refit=False, repair=False))


@pytest.mark.parametrize("order", [2, 4, 8])
def test_orbits_make_types(order):
    """Shuffled fields of known kinds are found again, with matrices that agree."""
    group = Dihedral(order // 2) if order > 2 else Cyclic(2)
    kinds = [group.quotient(each.representative) for each in group.subgroup_classes()]
    rho = sum(kinds[1:], kinds[0] + kinds[-1])
    shuffle = torch.randperm(rho.dim, generator=torch.Generator().manual_seed(0))
    table = shuffle.argsort()[rho.permutation_table[:, shuffle]]
    sorting, sorted_rho = orbit_type(group, table)
    assert sorted(atom.digest for atom in sorted_rho.atoms) == sorted(atom.digest for atom in rho.atoms)
    assert torch.equal(sorting.argsort()[table[:, sorting]], sorted_rho.permutation_table)


@pytest.mark.parametrize("symmetry", ["hflip", pytest.param("d4", marks=pytest.mark.slow)])
@pytest.mark.whole
def test_resnet18_of_torchvision(symmetry):
    tw.enable_torchvision()
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    net, x = models.resnet18(num_classes=10), torch.randn(8, 3, 33, 33)
    twin = symmetrize(net, x, symmetry, refit=False)
    network = tnn.typed(twin)
    weights = sum(p.numel() for p in network.parameters())
    assert weights == twin.free_parameters
    order = twin.matching.symmetry.order
    assert sum(p.numel() for p in net.parameters()) / weights > 0.95 * order
    assert sum(isinstance(layer, tnn.Residual) for layer in network) == 8
    assert not any(isinstance(layer, tnn.Plain) for layer in network.modules())
    with torch.no_grad():
        expected = twin.model(x)
        assert (network(x) - expected).abs().max() < 1e-5 * expected.abs().max()
    assert assert_equivariant(network) < 1e-10
