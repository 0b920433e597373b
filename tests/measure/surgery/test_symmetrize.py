"""The nearest equivariant network: exact where strides allow, layers named where they do not, planted ones kept."""

from __future__ import annotations

import copy
import itertools
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from intertwine.errors import InputError, NumericalError
from intertwine.groups import Cyclic, FiniteGroup
from intertwine.measure import Symmetry, match, parse_symmetry, permute, symmetrize, tie
from intertwine.measure.graph._permute import full_state
from intertwine.measure.surgery import stride_artifacts
from intertwine.measure.surgery._merge import reset_batch_norms
from intertwine.measure.surgery._tied import projected
from intertwine.measure.surgery._windows import symmetric_windows
from intertwine.models import GVGG11
from intertwine.train import tune
from tests.measure import nets
from tests.measure.matching.test_matching import symmetric_vgg

EXACT = {
    "vgg": (lambda: nets.vgg(), (3, 8, 8)),
    "vgg-bn": (lambda: nets.vgg(norm=True), (3, 8, 8)),
    "projection": (lambda: nets.Residual(option_a=False), (3, 9, 9)),
    "option-a": (lambda: nets.Residual(option_a=True, norm=False), (3, 9, 9)),
    "dense": (nets.Dense, (3, 8, 8)),
    "channels-last": (nets.ChannelsLast, (3, 8, 8)),
    "tokens": (nets.Tokens, (3, 8, 8)),
    "no-bias": (lambda: no_bias(), (3, 8, 8)),
    "images": (nets.GroupedUp, (3, 8, 8)),
}


def no_bias():
    """REPAIR has to add biases here."""
    first, second = nn.Conv2d(3, 9, 3, bias=False), nn.Conv2d(9, 7, 3, bias=False)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(7 * 16, 4, bias=False))


def error(model, symmetry, x):
    """The largest relative difference between Φ(τx) and Φ(x), or τΦ(x) for images."""
    with torch.no_grad():
        y = model(x)
        return max(
            float((model(symmetry.apply(g, x)) - (symmetry.apply(g, y) if y.dim() == 4 else y)).norm() / y.norm())
            for g in range(1, symmetry.order)
        )


QUICK = {("hflip", name) for name in EXACT} - {("hflip", "vgg")} | {("d4", "vgg"), ("d4", "projection")}


@pytest.mark.parametrize(
    ("symmetry", "name"),
    [
        pytest.param(s, n, marks=() if (s, n) in QUICK else pytest.mark.slow)
        for s in ("hflip", "c4", "d4")
        for n in EXACT
    ],
)
def test_exactly_equivariant_in_float32(symmetry, name):
    make, shape = EXACT[name]
    symmetry = parse_symmetry(symmetry)
    model = make().eval()
    x = torch.randn(40, *shape)
    symmetrized = symmetrize(model, x, symmetry)
    assert not symmetrized.windows
    before, after = error(model, symmetry, x), error(symmetrized.model, symmetry, x)
    assert before > 1e-3
    assert after <= 1e-5
    assert torch.isfinite(symmetrized.model(x)).all()
    total = sum(p.numel() for p in model.parameters())
    assert total / symmetry.order <= symmetrized.free_parameters < total


def test_it_is_the_orthogonal_projection():
    """Projecting twice changes nothing, and the difference is orthogonal to the result."""
    symmetry, model, shape = parse_symmetry("c4"), nets.vgg().double(), (3, 8, 8)
    matching = match(model, torch.randn(40, *shape, dtype=torch.float64), symmetry)
    before = full_state(model)
    once = full_state(projected(model, matching))
    twice = full_state(projected(projected(model, matching), matching))
    inner = 0.0
    for name, value in once.items():
        torch.testing.assert_close(twice[name], value, atol=1e-14, rtol=0)
        inner += float((value * (before[name] - value)).sum())
    assert abs(inner) < 1e-10


def test_a_symmetric_network_is_its_own_nearest():
    symmetry = parse_symmetry("hflip")
    model, graph, _ = symmetric_vgg(symmetry)
    x = torch.randn(60, 3, 8, 8)
    symmetrized = symmetrize(model, torch.cat([x, x.flip(3)]), symmetry, repair=False)
    live = {n: v for n, v in symmetrized.distance.items() if n == "0.weight"}
    assert max(live.values()) < 1e-5
    torch.testing.assert_close(symmetrized.model(x), model(x), atol=1e-5, rtol=1e-4)
    assert symmetrized.fields["0"].get(2, 0) >= 2
    assert graph.groups[0].name == "0"


@pytest.mark.parametrize("name", ["hflip", pytest.param("c4", marks=pytest.mark.slow), "d4"])
@pytest.mark.parametrize("option_a", [True, False])
def test_strides_on_even_sizes_become_larger_windows(name, option_a):
    model, symmetry, x = nets.Residual(option_a=False).eval(), parse_symmetry(name), torch.randn(40, 3, 8, 8)
    if option_a:
        model.down = Cut()
    symmetrized = symmetrize(model, x, symmetry)
    assert set(symmetrized.windows) == {"b1", "down"}
    assert symmetrized.error < 1e-9
    assert error(symmetrized.model, symmetry, x) <= 1e-5
    assert type(symmetrized.model.down) is nn.Conv2d
    assert symmetrized.model.b1.weight.shape[2:] == ((3, 4) if name == "hflip" else (4, 4))
    assert set(torch.export.export(symmetrized.model, (x,)).state_dict) == set(symmetrized.model.state_dict())


def test_an_operation_that_breaks_the_symmetry_is_named():
    x = torch.randn(40, 3, 8, 8)
    with pytest.raises(InputError, match="an operation inside the network"):
        symmetrize(nets.Residual(option_a=True).eval(), x, "hflip")
    with pytest.raises(NumericalError, match=r"commutes with hflip; got an error of \S+, first in 1"):
        symmetrize(nn.Sequential(nn.Conv2d(3, 6, 3), Ramp(), nn.Flatten(), nn.Linear(216, 2)), x, "hflip")
    with pytest.raises(NumericalError, match="first in 2; not followed: 2"):
        symmetrize(
            nn.Sequential(nn.Conv2d(3, 6, 3), nn.Conv2d(6, 4, 1), Roll(), nn.Flatten(), nn.Linear(144, 2)), x, "hflip"
        )


class Cut(nn.Module):
    """The shortcut without parameters of the first ResNets."""

    def forward(self, x):
        return nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 3, 3))


class Ramp(nn.Module):
    """A constant that is no parameter, so nobody averages it."""

    def forward(self, x):
        return x * torch.arange(x.shape[3], dtype=x.dtype, device=x.device)


class Roll(nn.Module):
    """Nothing that the tracer follows."""

    def forward(self, x):
        return x.cumsum(1).cumsum(3)


@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (nn.Conv2d(3, 6, 3, 2, 1), 8),
        (nn.Conv2d(3, 6, 3, 2, 1, dilation=2), 8),
        (nn.Conv2d(3, 6, 1, 2, bias=False), 8),
        (nn.Conv2d(3, 6, 5, 3, 1, groups=3), 9),
        (nn.Conv2d(3, 6, 2, 2), 9),
        (nn.Conv2d(3, 6, 3, 2, 1, padding_mode="zeros"), 9),
        (nn.AvgPool2d(3, 2), 8),
        (Cut(), 8),
    ],
)
@pytest.mark.parametrize("symmetry", ["hflip", "d4"])
def test_a_larger_window_computes_the_same(layer, size, symmetry):
    twin, names = symmetric_windows(nn.Sequential(layer), (3, size, size), parse_symmetry(symmetry))
    x = torch.randn(2, 3, size, size)
    torch.testing.assert_close(twin(x), layer(x), atol=1e-6, rtol=1e-5)
    assert bool(names) == bool(stride_artifacts(nn.Sequential(layer), (3, size, size), symmetry))
    assert not stride_artifacts(twin, (3, size, size), symmetry)


def test_max_pools_look_at_both_places():
    twin, _ = symmetric_windows(nn.MaxPool2d(3, 2, 1), (1, 8, 8), parse_symmetry("hflip"))
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(twin(x.flip(3)), twin(x).flip(3))
    pool = nn.MaxPool2d(3, 2, 1)
    assert torch.equal(twin(x), torch.maximum(pool(x), pool(x.flip(3)).flip(3)))


def test_statistics_are_those_of_the_network_that_is_returned():
    """Stencils used to be put in after the batch statistics were recomputed."""
    x = torch.randn(60, 3, 8, 8)
    twin = symmetrize(nets.Residual(option_a=False).eval(), x, "hflip").model
    again = reset_batch_norms(twin, torch.cat([x, x.flip(3)]), batch_size=120)
    for norm in ("bn3", "bn4"):
        torch.testing.assert_close(
            twin.get_submodule(norm).running_var, again.get_submodule(norm).running_var, rtol=0.05, atol=1e-4
        )


@pytest.mark.parametrize("name", ["hflip", "c4"])
def test_stored_by_its_free_numbers_it_trains_and_stays_equivariant(name):
    symmetry, model = parse_symmetry(name), nets.vgg(8)
    x, y = torch.randn(40, 3, 8, 8), torch.randint(5, (40,))
    symmetrized = symmetrize(model, x, symmetry)
    twin = tie(symmetrized.model, symmetrized.matching)
    assert sum(p.numel() for p in twin.parameters()) == symmetrized.free_parameters
    torch.testing.assert_close(twin(x), symmetrized.model(x), atol=1e-6, rtol=1e-5)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        losses.append(nn.functional.cross_entropy(twin(x), y))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    assert error(twin, symmetry, x) <= 1e-5
    assert not torch.allclose(twin(x), symmetrized.model(x), atol=1e-3)
    projected = tie(model, symmetrized.matching)
    assert error(projected, symmetry, x) <= 1e-5
    for plain in ("0", "3", "7"):
        parametrize.remove_parametrizations(twin.get_submodule(plain), "weight")
    assert twin[0].weight.shape == model[0].weight.shape


def colors(group):
    """The elements of a group of permutations of three things, on the color channels."""
    orders = [list(range(3))]
    if group == "C3":
        orders += [[1, 2, 0], [2, 0, 1]]
        return Symmetry.from_maps(
            Cyclic(3), [partial(lambda x, o: x[:, o], o=o) for o in orders], channels=3, name="colors"
        )
    orders = [list(p) for p in itertools.permutations(range(3))]
    # x[:, o] after x[:, p] is x[:, p[o]]: the elements multiply as these orders do, from the left.
    table = [[orders.index([p[i] for i in o]) for p in orders] for o in orders]
    group = FiniteGroup.from_table(table)
    return Symmetry.from_maps(
        group, [partial(lambda x, o: x[:, o], o=o) for o in orders], channels=3, name="all colors"
    )


@pytest.mark.parametrize("name", ["C3", "S3"])
def test_colors_that_change_places(name):
    """A group of image maps given by the user, whose order is no power of two."""
    torch.manual_seed(0)
    symmetry = colors(name)
    model, x = nets.vgg(12).eval(), torch.randn(60, 3, 8, 8)
    symmetrized = symmetrize(model, x, symmetry)
    assert error(model, symmetry, x) > 1e-2
    assert error(symmetrized.model, symmetry, x) <= 1e-5
    assert max(size for sizes in symmetrized.fields.values() for size in sizes) >= 3, "not only fixed channels"
    again = symmetrize(symmetrized.model, torch.cat([symmetry.apply(g, x) for g in range(symmetry.order)]), symmetry)
    assert max(again.distance.values()) < 1e-4, "a symmetric network is found to be one"
    better = tune(symmetrized, x, epochs=1)
    assert error(better.model, symmetry, x) <= 1e-5


def test_only_a_representation_will_do():
    model, x = nets.vgg().eval(), torch.randn(20, 3, 8, 8)
    with pytest.raises(InputError, match="a matching that is a representation"):
        symmetrize(model, x, "hflip", matching=match(model, x, "hflip", constrained=False))


def shuffled_gcnn(width, seed=0):
    """A GCNN written out as a plain network, its channels shuffled; and the partner of every channel."""
    torch.manual_seed(seed)
    net = GVGG11(width=width)
    for p in net.parameters():  # away from zero biases, which would make dead channels alike
        p.data += 0.3 * p.std() * torch.randn_like(p)
    plain = net.to_plain().eval()
    from intertwine.measure import channel_graph
    from intertwine.measure.graph._permute import random_permutations

    graph = channel_graph(plain, (3, 32, 32))
    shuffle = random_permutations(graph, seed=seed)
    truth = {}
    for group, partner in zip(graph.groups, net.partners(), strict=True):
        p = shuffle[group.name]
        truth[group.name] = p.argsort()[partner[p]]
    return permute(plain, shuffle, graph=graph), graph, truth


@pytest.mark.parametrize("constrained", [True, False])
def test_the_partners_of_a_gcnn_are_recovered(constrained):
    model, graph, truth = shuffled_gcnn(0.25)
    x = torch.randn(60, 3, 32, 32).cumsum(2).cumsum(3) / 16
    matching = match(model, x, "hflip", graph=graph, constrained=constrained, check=False)
    hit = count = 0
    for name, partner in truth.items():
        live = ~matching.dead[name] & ~matching.dead[name][partner]
        hit += int((matching.permutations[1][name] == partner)[live].sum())
        count += int(live.sum())
    assert count > 400
    assert hit / count >= 0.99
    twin = copy.deepcopy(model)
    assert error(twin, parse_symmetry("hflip"), x) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("resnet18", 65),
        ("resnet50", 65),
        ("mobilenet_v2", 65),
        ("efficientnet_b0", 65),
        ("convnext_tiny", 64),
        ("vgg11_bn", 64),
    ],
)
def test_networks_from_elsewhere(name, size):
    """Exactly invariant at a size at which every strided layer commutes: in float32 up to the rounding of the network.

    Untrained and 50 layers deep, that is 1.3e-5 of the output, whatever its symmetry.
    """
    torch.manual_seed(0)
    model = getattr(nets.torchvision().models, name)(weights=None, num_classes=10).eval()
    for m in model.modules():  # untrained residual branches and scores are tiny
        if isinstance(m, nn.Linear):
            m.weight.data *= 10
    x = torch.randn(24, 3, size, size)
    symmetry = parse_symmetry("hflip")
    symmetrized = symmetrize(model, x, symmetry)
    assert not symmetrized.windows
    assert error(model, symmetry, x[:8]) > 1e-4
    exact = copy.deepcopy(symmetrized.model).double()
    assert error(exact, symmetry, x[:8].double()) <= 1e-12
    with torch.no_grad():
        y = exact(x[:8].double())
        rounding = float((symmetrized.model(x[:8]) - y).norm() / y.norm())
    assert rounding < 3e-5
    assert error(symmetrized.model, symmetry, x[:8]) <= max(1e-5, 2 * rounding)


def test_stride_artifacts_says_why_a_network_does_not_run():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.Flatten(), nn.Linear(4 * 16, 2))
    assert stride_artifacts(net, (3, 8, 8), "hflip")
    with pytest.raises(InputError, match=r"raises RuntimeError: .*channel") as failure:
        stride_artifacts(net, (1, 8, 8), "hflip")
    assert isinstance(failure.value.__cause__, RuntimeError)


def test_stride_artifacts_hides_no_error_of_its_own(monkeypatch):
    def broken(name, args, out):
        raise ZeroDivisionError("a fault of the check")

    monkeypatch.setattr("intertwine.measure.surgery._stride._grids", broken)
    with pytest.raises(ZeroDivisionError, match="a fault of the check"):
        stride_artifacts(nn.Conv2d(3, 4, 3, 2, 1), (3, 8, 8), "hflip")
