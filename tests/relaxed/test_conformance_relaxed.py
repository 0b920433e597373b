"""Every relaxed layer is held to the protocol, in both directions, and to the habits of torch modules."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from intertwine.relaxed import (
    RELAXED,
    PartialGroupConv2d,
    Relaxed,
    motion_error,
    relaxation_penalty,
    relaxation_table,
)
from intertwine.testing import assert_deferred, assert_follows_device

EXAMPLES = [
    pytest.param(name, number, id=f"{name}-{number}")
    for name in RELAXED
    for number, _ in enumerate(RELAXED[name].examples())
]
each = pytest.mark.parametrize(("name", "number"), EXAMPLES)


def made(name: str, number: int) -> Relaxed:
    torch.manual_seed(0)
    return list(RELAXED[name].examples())[number].double()


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@each
def test_the_equivariant_point(name: str, number: int) -> None:
    layer = made(name, number).perturb_(0.5, noise())
    assert layer.to_equivariant_() is layer
    layer.eval()
    assert all(value == pytest.approx(0, abs=1e-12) for value in layer.relaxation().values())
    assert float(layer.penalty().detach()) == pytest.approx(0, abs=1e-20)
    x = layer.sample_input(noise())
    for subgroup, motion in layer.sample_motions().items():
        assert motion_error(layer, motion, x) < 1e-10, subgroup


@each
def test_a_real_error_away_from_it(name: str, number: int) -> None:
    layer = made(name, number).to_equivariant_().perturb_(1.0, noise()).eval()
    relaxed = {subgroup for subgroup, value in layer.relaxation().items() if value > 1e-6}
    assert relaxed, "a perturbation relaxes something"
    assert float(layer.penalty().detach()) > 0
    x = layer.sample_input(noise())
    for subgroup, motion in layer.sample_motions().items():
        if subgroup in relaxed:
            assert motion_error(layer, motion, x) > 1e-3, subgroup


@each
def test_state_and_copies(name: str, number: int) -> None:
    layer = made(name, number).perturb_(0.5, noise()).eval()
    x = layer.sample_input(noise())
    with torch.no_grad():
        before = layer(x)
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert torch.equal(twin(x), before)
        other = made(name, number).eval()
        other.load_state_dict(layer.state_dict())
        assert torch.equal(other(x), before)
    keys = set(layer.state_dict())
    assert set(layer.train().state_dict()) == keys


@each
def test_penalty_and_table(name: str, number: int) -> None:
    layer = made(name, number).perturb_(0.5, noise())
    model = torch.nn.Sequential(layer, torch.nn.Identity())
    assert float(relaxation_penalty(model, weight=3.0).detach()) == pytest.approx(3 * float(layer.penalty().detach()))
    text = str(relaxation_table(model))
    assert type(layer).__name__ in text
    assert all(subgroup in text for subgroup in layer.relaxation())


@each
def test_follows_its_input_to_another_device(name: str, number: int) -> None:
    layer = made(name, number).perturb_(0.5, noise())
    if isinstance(layer, PartialGroupConv2d):  # its shape depends on learned numbers, which meta does not have
        layer.to_equivariant_()
    assert_follows_device(layer, layer.sample_input(noise()))


@each
def test_made_without_memory(name: str, number: int) -> None:
    assert_deferred(lambda: list(RELAXED[name].examples())[number], made(name, number).float().sample_input(noise()))


def test_a_model_without_relaxed_layers() -> None:
    assert float(relaxation_penalty(torch.nn.Linear(2, 2))) == 0
    assert relaxation_table(torch.nn.Linear(2, 2)).rows == ()
