"""The networks that are compared: as strict as they say, and of the same size."""

from __future__ import annotations

import pytest
import torch

from intertwine.discovery import OrbitPool, SymmetryCNN, parse_candidate
from intertwine.discovery._networks import STRICTNESS
from intertwine.relaxed import relaxed_layers
from intertwine.spaces import FieldAction, Grid2d

SHAPE = (1, 8, 8)


def broken_by(name: str, strictness: str, *, shape: tuple[int, int, int] = SHAPE) -> float:
    """The largest change of the output under an element."""
    torch.manual_seed(0)
    candidate = parse_candidate(name, shape)
    net = SymmetryCNN(candidate.grid, shape, 5, strictness).double().eval()
    x = torch.rand(2, *shape, dtype=torch.float64)
    with torch.no_grad():
        return max(float((net(each.forward(x)) - net(x)).abs().max()) for each in candidate.elements)


@pytest.mark.parametrize("name", ["hflip", "vflip", "transpose", "c2", "c4", "d4"])
def test_an_invariant_network_is_invariant_and_a_free_one_is_not(name: str) -> None:
    assert broken_by(name, "invariant") < 1e-10
    assert broken_by(name, "free") > 1e-4
    assert broken_by(name, "local") > 1e-4  # its head sees the orientation


@pytest.mark.parametrize("size", [3, 7, 12, 16])
def test_any_size_that_is_prepared_is_invariant(size: int) -> None:
    assert broken_by("d4", "invariant", shape=(2, size, size)) < 1e-10


def test_the_layers_of_a_local_network_are_equivariant() -> None:
    plane = Grid2d("D4")
    net = SymmetryCNN(plane, SHAPE, 5, "local").double().eval()
    x = torch.rand(2, *SHAPE, dtype=torch.float64)
    before, after = FieldAction(plane), FieldAction(plane, net.features.out_type)
    for g in range(8):
        assert torch.allclose(net.features(before.move(g, x)), after.move(g, net.features(x)), atol=1e-10)


def test_a_relaxed_network_starts_strict_and_leaves_it() -> None:
    assert broken_by("c4", "relaxed") < 1e-10
    net = SymmetryCNN(Grid2d("C4"), SHAPE, 5, "relaxed")
    layers = dict(relaxed_layers(net))
    assert len(layers) == 3
    for layer in layers.values():
        layer.perturb_(1.0)
    x = torch.rand(2, *SHAPE)
    assert not torch.allclose(net.eval()(x), net(x.rot90(1, (-2, -1))), atol=1e-4)


@pytest.mark.parametrize("name", ["hflip", "c4", "d4"])
def test_all_networks_have_about_as_many_weights(name: str) -> None:
    grid = parse_candidate(name, SHAPE).grid
    sizes = {
        kind: sum(p.numel() for p in SymmetryCNN(grid, SHAPE, 10, kind).parameters())
        for kind in ("invariant", "local", "relaxed", "free")
    }
    assert max(sizes.values()) < 1.15 * min(sizes.values())
    assert sizes["free"] < 60_000


def test_an_orbit_pool_keeps_all_invariants_of_a_permutation() -> None:
    """A regular field on 2 x 2 places has 4 orbits, and each has as many values as the group has elements."""
    pool = OrbitPool(Grid2d("D4"), 1)
    assert pool.orbits.shape == (4, 8)
    assert sorted(pool.orbits.flatten().tolist()) == list(range(32))


@pytest.mark.parametrize("size", [6, 8, 14, 16])
def test_all_networks_pool_at_the_same_places(size: int) -> None:
    x = torch.zeros(1, 1, size, size)
    sizes = {kind: SymmetryCNN(Grid2d("C4"), (1, size, size), 3, kind).features(x).shape[2:] for kind in STRICTNESS}
    assert len(set(sizes.values())) == 1, sizes
    assert sizes["free"][0] < 8
