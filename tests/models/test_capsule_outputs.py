"""Topographic autoencoders and capsule measures give the numbers they gave before capsules were field types.

``capsule_outputs.json`` was written by the code that still rolled capsules by hand, from the same seeds.
``python tests/models/test_capsule_outputs.py`` prints the numbers of the code at hand in the same form.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from intertwine.measure.metrics import capsule_correlation, capsule_equivariance_error, capsule_null, traversal_error
from intertwine.measure.metrics._capsules import observed_roll
from intertwine.models import VAE, BubbleVAE, NotCyclicWarning, TopographicVAE
from intertwine.topographic import TorusTopology, Window, sample_topographic, shifting_topology, stationary_topology

STORED = Path(__file__).with_name("capsule_outputs.json")
IMAGE, SMALL = (1, 8, 8), {"capsules": 3, "length": 5}

MODELS: dict[str, Callable[[], VAE | TopographicVAE]] = {
    "vae": lambda: VAE(IMAGE, **SMALL),
    "window 3": lambda: TopographicVAE(IMAGE, **SMALL, window=3),
    "whole window": lambda: TopographicVAE(IMAGE, **SMALL, window=5, shift=20.0, eps=1e-3),
    "causal, band 1": lambda: TopographicVAE(IMAGE, **SMALL, window=Window.causal(3), band=1),
    "open ends": lambda: TopographicVAE(IMAGE, **SMALL, topology=shifting_topology(3, padding="zero")),
    "longer capsules": lambda: TopographicVAE(IMAGE, capsules=2, length=7, window=4, band=1),
    "torus": lambda: TopographicVAE(IMAGE, capsules=1, length=30, topology=TorusTopology(5, 6, 3)),
    "bubble": lambda: BubbleVAE(IMAGE, **SMALL, window=3, width=3),
    "conv": lambda: TopographicVAE(IMAGE, **SMALL, window=3, network="conv", likelihood="gaussian"),
}


def fingerprint(values: Tensor) -> list[float]:
    """Three entries and two sums that see the order of entries."""
    flat = values.detach().double().flatten()
    weights = torch.linspace(1, 2, len(flat), dtype=torch.float64)
    picked = flat[torch.linspace(0, len(flat) - 1, 3).long()]
    return [*picked.tolist(), float(flat @ weights), float(flat.square() @ weights)]


def of_model(name: str) -> dict[str, list[float]]:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    x = torch.rand(3, 5, *IMAGE, generator=torch.Generator().manual_seed(1), dtype=torch.float64).round()

    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(2)

    out = model(x, generator=seeded())
    (-out.elbo).backward()
    with torch.no_grad():
        t = model.latent(x, generator=seeded())
        return {
            "elbo": fingerprint(out.elbo),
            "latent": fingerprint(t),
            "traverse": fingerprint(model.traverse(t[:, 0])),
            "three steps": fingerprint(model.traverse(t[:, 1], 3)),
            "bound": fingerprint(model.importance_bound(x, samples=3, generator=seeded())),
            "gradient": fingerprint(torch.cat([p.grad.flatten() for p in model.parameters()])),
            "error": [capsule_equivariance_error(t).mean, capsule_equivariance_error(t, centered=True).mean],
            "traversal": fingerprint(
                traversal_error(lambda a, b: model.log_likelihood(a, model.decode(b)), x, t, only=[1, 3, 4]).values
            ),
        }


def of_measures() -> dict[str, list[float]]:
    factor = (torch.arange(40)[:, None] + torch.arange(9)) % 9
    scores: dict[str, list[float]] = {}
    for name, topology in {
        "shifting": shifting_topology(5),
        "stationary": stationary_topology(1, 3),
        "causal": shifting_topology(Window.causal(4)),
    }.items():

        def sample(generator: torch.Generator, topology=topology) -> Tensor:
            return sample_topographic(
                topology,
                sequences=40,
                time=9,
                capsules=7,
                length=9,
                shift=10.0,
                generator=generator,
                dtype=torch.float64,
            )

        t = sample(torch.Generator().manual_seed(0))
        scores[name] = [
            *fingerprint(t),
            *(capsule_correlation(t, factor, variant=variant) for variant in ("published", "circular")),
            capsule_correlation(t, factor, variant="disjoint", shared=lambda a, b: abs(a - b) % 9 < 3),
            *capsule_null(lambda t: capsule_equivariance_error(t).mean, sample=sample),
            *fingerprint(observed_roll(t[:, 0], t[:, 3])),
        ]
    return scores


def outputs() -> dict[str, dict[str, list[float]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCyclicWarning)
        return {name: of_model(name) for name in MODELS} | {"measures": of_measures()}


@pytest.fixture(scope="module")
def now() -> dict[str, dict[str, list[float]]]:
    return outputs()


@pytest.mark.parametrize("name", [*MODELS, "measures"])
def test_the_numbers_are_those_of_before(name, now):
    stored = json.loads(STORED.read_text())[name]
    assert stored.keys() == now[name].keys()
    for what, values in stored.items():
        assert now[name][what] == pytest.approx(values, rel=1e-9, abs=1e-11), what


if __name__ == "__main__":
    print(json.dumps(outputs(), indent=1))
