"""Every registered layer is held to what it claims, in both directions, and to the habits of torch modules."""

from __future__ import annotations

import copy
import warnings
from functools import cache

import pytest
import torch

from intertwine import nn as tnn
from intertwine import relaxed
from intertwine.errors import InputError
from intertwine.groups import Cyclic
from intertwine.spaces import Grid2d
from intertwine.testing import CHECKS, assert_conforms, assert_deferred
from intertwine.testing._conformance import _shape_from_weights, example_inputs, scrambled

each = pytest.mark.parametrize("name", list(tnn.LAYERS))
ONE_EXAMPLE = ("compile", "export")
"""Checks that take long: by default, on the first example of each layer."""


@cache
def examples(name: str) -> list[tnn.Layer]:
    """Built when a test needs them, the same in every process. Tests work on copies."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return list(tnn.LAYERS[name].examples())


def test_the_registry_holds_what_the_room_offers() -> None:
    rooms = {**vars(tnn), **vars(relaxed)}
    layers = {n for n, v in rooms.items() if isinstance(v, type) and issubclass(v, tnn.Layer)}
    offered = layers - {"Layer", "TracedLayer", "RelaxedLayer"}
    assert offered == set(tnn.LAYERS)


@each
def test_every_layer_has_an_example(name: str) -> None:
    assert examples(name)


@each
@pytest.mark.parametrize("check", CHECKS)
def test_conforms(name: str, check: str) -> None:
    for layer in examples(name)[: 1 if check in ONE_EXAMPLE else None]:
        assert assert_conforms(layer, checks=[check]) == (check,)


@pytest.mark.slow
@each
@pytest.mark.parametrize("check", ONE_EXAMPLE)
def test_other_examples_conform(name: str, check: str) -> None:
    for layer in examples(name)[1:]:
        assert_conforms(layer, checks=[check])


@pytest.mark.slow
@each
def test_compiles_with_open_sizes(name: str) -> None:
    """torch leaves sizes open once it has seen two of them. Tracing takes twice as long then."""
    for layer in examples(name):
        if _shape_from_weights(layer):
            continue
        layer, inputs = copy.deepcopy(layer).eval(), example_inputs(layer)
        torch._dynamo.reset()
        with torch.no_grad():
            output = seeded(torch.compile(layer, fullgraph=True, backend="eager", dynamic=True), *inputs)
            torch.testing.assert_close(output, seeded(layer, *inputs), rtol=1e-3, atol=1e-4)


@each
def test_made_without_memory(name: str) -> None:
    deferred = tnn.LAYERS[name].examples()
    for layer in examples(name):

        def make(layer: tnn.Layer = layer) -> tnn.Layer:
            return next(deferred) if torch.get_default_device().type == "meta" else copy.deepcopy(layer)

        assert_deferred(make, *example_inputs(layer))
    assert next(deferred, None) is None


@pytest.mark.slow
@each
def test_compile_with_inductor(name: str) -> None:
    for layer in examples(name):
        assert_compiles_with_inductor(scrambled(layer))


def assert_compiles_with_inductor(layer: tnn.Layer) -> None:
    x, *rest = example_inputs(layer)
    x.requires_grad_()
    torch._dynamo.reset()
    with warnings.catch_warnings(), torch._inductor.config.patch(fallback_random=True):
        warnings.simplefilter("ignore")  # the compiler's own
        state = copy.deepcopy(layer.state_dict())
        expected = seeded(layer, x, *rest)
        cotangent = torch.randn_like(expected)
        (gradient,) = torch.autograd.grad(expected, x, cotangent)
        layer.load_state_dict(state)
        output = seeded(torch.compile(layer, fullgraph=True), x, *rest)
        (compiled,) = torch.autograd.grad(output, x, cotangent)
    assert (output - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert (compiled - gradient).abs().max() <= 1e-4 * gradient.abs().max()


def seeded(layer, *inputs: torch.Tensor) -> torch.Tensor:
    """The output for a fixed draw, for layers that draw random numbers."""
    torch.manual_seed(0)
    return layer(*inputs)


class Faulty(tnn.Layer):
    """A map that is fine, in a module with one bad habit."""

    def __init__(self, habit: str) -> None:
        C4 = Cyclic(4)
        field = Grid2d(C4).field(C4.regular)
        super().__init__(field, field, tnn.Exact())
        self.habit = habit
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.shared = torch.ones(1)
        if habit == "state":
            self.register_buffer("table", torch.ones(1))
        if habit == "copies":
            self.local = lambda: None

    @classmethod
    def examples(cls):
        return iter(())

    def forward(self, x):
        if self.habit != "wrong input":
            self.check_input(x)
        if self.habit == "claim":
            return self.weight * x * torch.arange(x.shape[-1], dtype=x.dtype)
        if self.habit == "breaks":
            return 0 * self.weight * x
        if self.habit == "float32":
            return self.weight.double() * x.double()
        if self.habit == "gradients":
            return self.weight * x + (x.detach() - x)
        if self.habit == "compile":
            return self.weight * x * (1 if float(x.detach().sum()) < 1e30 else 2)
        if self.habit == "device":
            return self.weight * x * self.shared
        if self.habit == "autocast":
            return self.weight * x + (torch.is_autocast_enabled("cpu") and 5)
        return self.weight * x

    def to_plain(self):
        if self.habit == "plain":
            return torch.nn.Identity()
        return Scale(self.weight.detach().clone())


class Scale(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, x):
        return self.weight * x


def test_a_faultless_layer_of_ones_own() -> None:
    assert assert_conforms(Faulty("none")) == tuple(CHECKS)


@pytest.mark.parametrize("habit", [check for check in CHECKS if check != "export"])
def test_every_check_can_fail(habit: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, AttributeError, torch._dynamo.exc.Unsupported)):
        assert_conforms(Faulty(habit), checks=[habit])


def test_an_unknown_check_is_explained() -> None:
    with pytest.raises(InputError, match="names of checks among claim, breaks"):
        assert_conforms(Faulty("none"), checks=["speed"])
