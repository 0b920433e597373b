"""Every registered layer is held to what it claims, in both directions, and to the habits of torch modules."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch

from intertwine import nn as tnn
from intertwine.errors import InputError
from intertwine.spaces import HomogeneousSpace, Sphere, SphereGrid
from intertwine.testing import assert_equivariant

EXAMPLES = [
    pytest.param(name, number, id=f"{name}-{number}")
    for name in tnn.LAYERS
    for number, _ in enumerate(tnn.LAYERS[name].examples())
]
each = pytest.mark.parametrize(("name", "number"), EXAMPLES)


def made(name: str, number: int) -> tnn.Layer:
    """An example with arbitrary weights and statistics, so that no value hides a mistake by being 0 or 1."""
    layer = list(tnn.LAYERS[name].examples())[number]
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.3 * torch.randn_like(p))
        for key, value in layer.state_dict().items():
            if "running" in key:
                value.add_(torch.rand_like(value))
    return layer


def input_of(layer: tnn.Layer, dtype: torch.dtype = torch.float32, least: int = 7) -> torch.Tensor:
    return torch.randn(2, layer.in_type.dim, *sizes_of(layer, least), dtype=dtype)


def sizes_of(layer: tnn.Layer, least: int) -> tuple[int, ...]:
    space = layer.in_type.space
    if isinstance(space, HomogeneousSpace):
        return (space.points,)
    if isinstance(space, Sphere):
        return getattr(layer, "in_grid", SphereGrid("gauss-legendre", 4)).shape
    for n in range(least - 2 * (space.dimension == 3), 40):
        sizes = (n,) * space.dimension
        try:
            layer.output_sizes(sizes)
        except InputError:
            continue
        return sizes
    raise AssertionError(f"{layer} takes no size")


def seeded(layer, x: torch.Tensor) -> torch.Tensor:
    """The output for a fixed draw, for layers that draw random numbers."""
    torch.manual_seed(0)
    return layer(x)


def test_the_registry_holds_what_the_room_offers() -> None:
    offered = {n for n, v in vars(tnn).items() if isinstance(v, type) and issubclass(v, tnn.Layer)} - {"Layer"}
    assert offered == set(tnn.LAYERS)
    assert {name for name, _ in (p.values for p in EXAMPLES)} == offered


@each
@pytest.mark.parametrize("training", [False, True])
def test_the_claim_holds(name: str, number: int, training: bool) -> None:
    assert assert_equivariant(made(name, number), training=training) < 1e-12


class Lopsided(tnn.Layer):
    """Any layer, with an input that fades along every axis of space."""

    def __init__(self, layer: tnn.Layer) -> None:
        super().__init__(layer.in_type, layer.out_type, layer.claim)
        self.layer = layer
        for grid in ("in_grid", "out_grid"):
            if hasattr(layer, grid):
                setattr(self, grid, getattr(layer, grid))

    @classmethod
    def examples(cls):
        return iter(())

    def forward(self, x):
        ramp = torch.ones((), dtype=x.dtype)
        for number, n in enumerate(x.shape[2:]):
            ramp = ramp[..., None] + torch.linspace(0, 1 + number, n, dtype=x.dtype)
        return self.layer(x * ramp + ramp)

    def output_sizes(self, sizes):
        return self.layer.output_sizes(sizes)

    def to_plain(self):
        raise NotImplementedError


@each
def test_the_claim_fails_where_it_must(name: str, number: int) -> None:
    with pytest.raises(AssertionError, match="does not commute with"):
        assert_equivariant(Lopsided(made(name, number)))


@each
def test_float32(name: str, number: int) -> None:
    layer = made(name, number).eval()
    twin = copy.deepcopy(layer).double()
    x = input_of(layer, torch.float64)
    with torch.no_grad():
        exact, single = twin(x), layer(x.float())
    assert single.dtype == torch.float32
    assert (single - exact).abs().max() <= 2e-6 * exact.abs().max()


@each
def test_gradients(name: str, number: int) -> None:
    layer = made(name, number).double()
    x = input_of(layer, torch.float64, least=4)[:1].requires_grad_()
    layer.eval() if "Norm" in name else layer.train()
    parameters = list(layer.parameters())
    fast = torch.autograd.gradcheck(
        lambda x, *_: copy_free(layer, x), (x, *parameters), eps=1e-6, atol=1e-5, rtol=1e-4, fast_mode=True
    )
    assert fast


def copy_free(layer: tnn.Layer, x: torch.Tensor) -> torch.Tensor:
    """Statistics that a call leaves behind would make the next differ; so would random numbers."""
    torch.manual_seed(0)
    state = {key: value.clone() for key, value in layer.named_buffers() if "running" in key}
    out = layer(x)
    for key, value in layer.named_buffers():
        if key in state:
            value.data.copy_(state[key])
    return out


@each
def test_state(name: str, number: int) -> None:
    layer = made(name, number)
    fresh = set(layer.state_dict())
    x = input_of(layer)
    for mode in (False, True, False):
        layer.train(mode)
        with torch.no_grad():
            layer(x)
        assert set(layer.state_dict()) == fresh
    learned = {key for key, _ in layer.named_parameters()}
    assert {key for key in fresh if "running" not in key} == learned, "tables are never saved"
    other = list(tnn.LAYERS[name].examples())[number].eval()
    with torch.no_grad():
        other(x)
        other.load_state_dict(layer.state_dict())
        assert torch.equal(other(x), layer.eval()(x))


@each
@pytest.mark.parametrize("way", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies(name: str, number: int, way) -> None:
    layer = made(name, number).eval()
    x = input_of(layer)
    with torch.no_grad():
        before = layer(x)  # with a kept filter, where there is one
        twin = way(layer)
        assert torch.equal(twin(x), before)
        for p in twin.parameters():
            p.mul_(2)
        assert torch.equal(layer(x), before), "a copy shares nothing"
    assert twin.in_type == layer.in_type
    assert twin.claim == layer.claim


@each
def test_plain_twin(name: str, number: int) -> None:
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        layer = made(name, number).to(dtype).eval()
        plain = tnn.to_plain(layer)
        assert not any(isinstance(module, tnn.Layer) for module in plain.modules())
        assert not plain.training
        x = input_of(layer, dtype)
        with torch.no_grad():
            ours, theirs = layer(x), plain(x)
        assert (ours - theirs).abs().max() <= tolerance * ours.abs().max()


@each
def test_compile(name: str, number: int) -> None:
    layer = made(name, number)
    x = input_of(layer)
    torch._dynamo.reset()
    for mode in (True, False):
        layer.train(mode)
        compiled = torch.compile(layer, fullgraph=True, backend="eager")
        state = copy.deepcopy(layer.state_dict())
        expected = seeded(layer, x)
        layer.load_state_dict(state)
        assert (seeded(compiled, x) - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.slow
@each
def test_compile_with_inductor(name: str, number: int) -> None:
    layer = made(name, number)
    x = input_of(layer).requires_grad_()
    torch._dynamo.reset()
    with warnings.catch_warnings(), torch._inductor.config.patch(fallback_random=True):
        warnings.simplefilter("ignore")  # the compiler's own
        state = copy.deepcopy(layer.state_dict())
        expected = seeded(layer, x)
        cotangent = torch.randn_like(expected)
        (gradient,) = torch.autograd.grad(expected, x, cotangent)
        layer.load_state_dict(state)
        found = seeded(torch.compile(layer, fullgraph=True), x)
        (compiled,) = torch.autograd.grad(found, x, cotangent)
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert (compiled - gradient).abs().max() <= 1e-4 * gradient.abs().max()


@each
def test_export(name: str, number: int) -> None:
    layer = made(name, number).eval()
    x = input_of(layer)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        for model in (layer, tnn.to_plain(layer)):
            exported = torch.export.export(model, (x,))
            assert (exported.module()(x) - layer(x)).abs().max() <= 1e-6 * layer(x).abs().max()


@each
def test_wrong_input_is_explained(name: str, number: int) -> None:
    layer = made(name, number)
    x = input_of(layer)
    axes = {1: "points", 2: "height, width|rings, azimuths", 3: "depth, height, width"}[x.ndim - 2]
    with pytest.raises(InputError, match=rf"expected \(batch, {layer.in_type.dim}, ({axes})\)"):
        layer(torch.cat([x, x], 1))
    with pytest.raises(InputError, match="Add or remove axes"):
        layer(x[None])


@each
def test_bfloat16_autocast(name: str, number: int) -> None:
    layer = made(name, number)
    x = input_of(layer).requires_grad_()
    state = copy.deepcopy(layer.state_dict())
    expected = seeded(layer, x)
    layer.load_state_dict(state)
    with torch.autocast("cpu", torch.bfloat16):
        found = seeded(layer, x)
    assert (found - expected).abs().max() <= 0.1 * expected.abs().max()
    found.float().sum().backward()
    assert bool(torch.isfinite(x.grad).all())
