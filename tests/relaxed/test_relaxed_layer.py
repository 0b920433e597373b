"""What all relaxed layers share: one unit of relaxation, its slow twin, the way back, penalties and tables."""

from __future__ import annotations

import copy
from functools import cache
from itertools import product

import pytest
import torch

from intertwine import nn as tnn
from intertwine.relaxed import (
    LocalKernels,
    LocallyConnected2d,
    LowRankLocalConv2d,
    ModulatedConv,
    PartialGroupConv2d,
    RelaxedLayer,
    SoftConv2d,
    SoftGroupConv2d,
    kernel_shares,
    relaxation_penalty,
    relaxation_table,
    relaxed_layers,
    to_equivariant_,
)
from intertwine.spaces import Grid2d
from intertwine.testing import assert_equivariant, equivariance_errors

RELAXED = {name: kind for name in tnn.LAYERS if issubclass(kind := tnn.LAYERS[name], RelaxedLayer)}
EXAMPLES = [
    pytest.param(name, number, id=f"{name}-{number}")
    for name, kind in RELAXED.items()
    for number, _ in enumerate(kind.examples())
]
each = pytest.mark.parametrize(("name", "number"), EXAMPLES)


@cache
def examples(name: str) -> list[RelaxedLayer]:
    torch.manual_seed(0)
    return [layer.double() for layer in RELAXED[name].examples()]


def made(name: str, number: int) -> RelaxedLayer:
    """A copy of an example, and the same random numbers after it each time."""
    layer = copy.deepcopy(examples(name)[number])
    torch.default_generator.manual_seed(0)
    return layer


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sizes_of(layer: RelaxedLayer) -> tuple[int, ...]:
    return layer.fixed_sizes or (16,) * layer.in_type.space.dimension


@each
def test_the_way_back(name: str, number: int) -> None:
    layer = made(name, number).perturb_(0.5, generator=noise())
    assert layer.to_equivariant_() is layer
    assert all(value == pytest.approx(0, abs=1e-12) for value in layer.relaxation().values())
    if not isinstance(layer, ModulatedConv):  # its functions stay, so that their weights, which are 0, can grow again
        assert all(value == pytest.approx(0, abs=1e-12) for value in layer.dial().values())
        assert float(layer.penalty().detach()) == pytest.approx(0, abs=1e-20)
    assert max(equivariance_errors(layer).values()) < 1e-10


@each
def test_away_from_it(name: str, number: int) -> None:
    layer = made(name, number).to_equivariant_().perturb_(1.0, generator=noise()).eval()
    shares, errors = layer.relaxation(), equivariance_errors(layer)
    relaxed = {subgroup for subgroup, share in shares.items() if share > 1e-6}
    assert relaxed, "a perturbation relaxes something"
    assert all(share <= 1 + 1e-9 for share in shares.values())
    assert float(layer.penalty().detach()) > 0
    assert all(errors[subgroup] > 1e-3 for subgroup in relaxed if subgroup in errors)
    assert all(error < 1e-10 for subgroup, error in errors.items() if subgroup not in shares)


@each
def test_shares_are_those_of_every_kernel_written_out(name: str, number: int) -> None:
    layer = made(name, number).perturb_(0.5, generator=noise())
    if isinstance(layer, PartialGroupConv2d):  # its kernels are those at other angles than the type's
        pytest.skip("has a test of its own")
    sizes = layer.fixed_sizes or reference_sizes(layer)
    slow = kernel_shares(layer.local_kernels(sizes), layer.in_type, layer.out_type)
    fast = layer.squared_shares()
    assert fast
    for subgroup, share in fast.items():
        if subgroup == "translation" or layer.in_type.space.exact:  # of C8, the slow way sees quarter turns only
            assert float(share.detach()) == pytest.approx(float(slow[subgroup].detach()), rel=1e-9, abs=1e-12), subgroup


def reference_sizes(layer: RelaxedLayer) -> tuple[int, int]:
    """The size of the image on which layers for images of any size compute their share."""
    if isinstance(layer, SoftConv2d | SoftGroupConv2d):
        size = max(7, layer.window.input_sizes((7, 7))[0])
        return size, size
    return 16, 16


@each
def test_kernels_written_out_are_the_layer(name: str, number: int) -> None:
    """Σ κ(x, y) f(x + y) + b(x), position by position, where no window leaves the image."""
    layer = made(name, number).perturb_(0.5, generator=noise()).eval()
    if type(layer).__name__ == "InputLowRankLocalConv2d":
        pytest.skip("its kernels depend on the input")
    sizes = sizes_of(layer)
    kernels = layer.local_kernels(sizes)
    x = torch.randn(2, layer.in_type.dim, *sizes, dtype=torch.float64, generator=noise(1))
    inside = layer.interior(sizes)
    assert inside is not None
    step, margin = inside
    with torch.no_grad():
        y = layer(x)
        places = list(product(*(range(margin, n - margin) for n in y.shape[2:])))
        assert places
        for place in places:
            expected = applied(kernels, x, layer, place, step)
            assert torch.allclose(y[(..., *place)], expected, rtol=1e-9, atol=1e-11), place


def applied(
    kernels: LocalKernels, x: torch.Tensor, layer: RelaxedLayer, place: tuple[int, ...], step: int
) -> torch.Tensor:
    kernel, seen = kernels.weight[place], x
    for axis, at in enumerate(place):
        first = at * step - layer.window.before[axis]
        taps = [first + layer.window.dilation[axis] * a for a in range(kernel.shape[2 + axis])]
        seen = seen.index_select(2 + axis, torch.tensor(taps))
    out = torch.einsum("oit,nit->no", kernel.flatten(2), seen.flatten(2))
    return out if kernels.bias is None else out + kernels.bias[place]


def test_the_extremes_of_the_unit() -> None:
    one = Grid2d("C1").field("trivial")
    alternating = torch.ones(4, 4, 1, 1, 1, 1, dtype=torch.float64)
    alternating[::2] *= -1
    assert float(kernel_shares(LocalKernels(alternating), one, one)["translation"]) == pytest.approx(1)
    assert float(kernel_shares(LocalKernels(torch.zeros(4, 4, 1, 1, 1, 1)), one, one)["translation"]) == 0
    D4 = Grid2d("D4")
    vector, scalar = D4.field(D4.stabilizer.standard), D4.field("trivial")
    strict = tnn.Conv2d(scalar, vector, 3).double()
    kernel = strict.expand()[0].detach().expand(5, 5, -1, -1, -1, -1)
    shares = kernel_shares(LocalKernels(kernel), scalar, vector)
    assert float(shares["D4"]) < 1e-24
    assert float(shares["translation"]) < 1e-24
    broken = kernel + torch.ones_like(kernel)
    assert float(kernel_shares(LocalKernels(broken), scalar, vector)["D4"]) > 0.1


@pytest.mark.parametrize("extent", [1.0, 0.75, 0.25])
def test_the_share_of_a_partial_layer(extent: float) -> None:
    """Its kernel on the whole group, sampled finely: k(u⁻¹v) for the angles that it keeps, 0 for the others."""
    layer = PartialGroupConv2d(1, 1, kernel_size=3, samples=8, extent=extent)
    n = 4000
    k = torch.rand(n, dtype=torch.float64, generator=noise())  # k of the relative angle
    kept = (torch.arange(n) < extent * n).double()
    whole = kept.sum() * k.square().sum()
    projected = kept.mean() ** 2 * n * k.square().sum()
    assert layer.relaxation()["C8"] == pytest.approx(float((1 - projected / whole).sqrt()), abs=1e-6)


@each
def test_penalty_and_table(name: str, number: int) -> None:
    layer = made(name, number).perturb_(0.5, generator=noise())
    model = torch.nn.Sequential(layer, torch.nn.Identity())
    assert float(relaxation_penalty(model, weight=3.0).detach()) == pytest.approx(3 * float(layer.penalty().detach()))
    common = relaxation_penalty(model, weight=2.0, kind="share")
    assert float(common.detach()) == pytest.approx(2 * sum(v**2 for v in layer.relaxation().values()), rel=1e-9)
    assert common.requires_grad or not any(p.requires_grad for p in layer.parameters())
    text = str(relaxation_table(model))
    assert type(layer).__name__ in text
    assert all(what in text for what in (*layer.relaxation(), *layer.dial()))


def test_the_common_penalty_drives_layers_back() -> None:
    torch.manual_seed(0)
    for layer in (LowRankLocalConv2d(1, 2, 3, rank=2, input_size=8), LocallyConnected2d(1, 2, 3, input_size=8)):
        layer.perturb_(1.0, generator=noise())
        before = layer.relaxation()["translation"]
        optimizer = torch.optim.Adam(layer.parameters(), 0.05)
        for _ in range(60):
            optimizer.zero_grad()
            relaxation_penalty(layer, kind="share").backward()
            optimizer.step()
        assert layer.relaxation()["translation"] < 0.3 * before


def test_a_model_without_relaxed_layers() -> None:
    assert float(relaxation_penalty(torch.nn.Linear(2, 2))) == 0
    assert relaxation_table(torch.nn.Linear(2, 2)).rows == ()


def test_relaxed_layers_in_a_typed_network() -> None:
    plane = Grid2d("C4")
    rgb, hidden = plane.field("3*trivial"), plane.field("2*regular")
    net = tnn.Sequential(
        SoftGroupConv2d(rgb, hidden, kernel_size=3),
        tnn.ReLU(hidden),
        SoftGroupConv2d(hidden, hidden, kernel_size=3, rotation_softness=0.7, hidden=8),
        tnn.Conv2d(hidden, hidden, 3, padding=1),
        tnn.GroupPool(hidden),
    )
    assert isinstance(net.claim, tnn.Relaxed)
    assert net.claim.shares["C4"] > 0.01
    assert equivariance_errors(net)["C4"] > 1e-4
    assert_equivariant(net)
    assert [name for name, _ in relaxed_layers(net)] == ["0", "2"]
    assert to_equivariant_(net).claim == tnn.Relaxed({"C4": 0.0})
    assert equivariance_errors(net)["C4"] < 1e-12
    x = torch.randn(2, 3, 9, 9)
    assert torch.allclose(tnn.to_plain(net)(x), net.eval()(x), atol=1e-5)


def test_a_wrong_claim_is_found() -> None:
    class Flatterer(SoftConv2d):
        def squared_shares(self):
            return {}

    layer = Flatterer(1, 1, kernel_size=3, softness=2.0)
    with pytest.raises(AssertionError, match="does not commute with the translation"):
        assert_equivariant(layer)
