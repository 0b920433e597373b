"""Neighborhoods along Cayley graphs: against the definition, and how they move."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import Cyclic, FiniteGroup, parse_finite
from intertwine.topographic import (
    CayleyTopology,
    OffsetTopology,
    Window,
    sample_topographic,
    shifting_topology,
    stationary_topology,
)

GROUPS = ["C5", "C3 x C5", "C4 x C4", "S3", "D4"]
NEIGHBORS = [
    shifting_topology(3),
    shifting_topology(Window.causal(4)),
    shifting_topology(3, padding="zero"),
    stationary_topology(3, padding="replicate"),
    shifting_topology(3, band=1),
]


def power(group: FiniteGroup, s: int, e: int) -> int:
    """sᵉ, by multiplying."""
    step, out = (s if e >= 0 else group.inverse(s)), 0
    for _ in range(abs(e)):
        out = group.compose(out, step)
    return out


def by_loop(group: FiniteGroup, s: int, neighbors: OffsetTopology, squares: torch.Tensor) -> torch.Tensor:
    """The definition, place by place."""
    time = squares.shape[1]
    out = torch.zeros_like(squares)
    for frame in range(time):
        for d, e in neighbors.offsets:
            at = frame + d
            if neighbors.padding == "cyclic":
                at %= time
            elif neighbors.padding == "replicate":
                at = min(max(at, 0), time - 1)
            elif not 0 <= at < time:
                continue
            for x in range(group.order):
                out[:, frame, :, x] += squares[:, at, :, group.compose(power(group, s, e), x)]
    return out


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("neighbors", NEIGHBORS, ids=range(len(NEIGHBORS)))
def test_all_forms_agree(name, neighbors):
    group = parse_finite(name)
    squares = torch.rand(2, 5, 2, group.order, dtype=torch.float64)
    for s in range(group.order):
        if len(neighbors.offsets) > 5 and group.element_orders[s] < 3:
            continue  # a band comes round in a cycle of two
        topology = CayleyTopology(group, s, neighbors)
        expected = by_loop(group, s, neighbors, squares)
        torch.testing.assert_close(topology.sums(squares), expected, rtol=0, atol=1e-12)
        w = topology.matrix(5, group.order)
        flat = squares.transpose(1, 2).flatten(2) @ w.T
        torch.testing.assert_close(flat.unflatten(2, (5, -1)).transpose(1, 2), expected, rtol=0, atol=1e-12)
        assert topology.reach(5) == neighbors.reach(5)


@pytest.mark.parametrize("neighbors", [shifting_topology(4), shifting_topology(5, band=1), stationary_topology(3, 3)])
def test_the_published_window_is_the_cyclic_case(neighbors):
    squares = torch.rand(2, 7, 3, 9)
    assert torch.equal(CayleyTopology(Cyclic(9), 1, neighbors).sums(squares), neighbors.sums(squares))


@pytest.mark.parametrize(("name", "s", "other"), [("C3 x C5", 5, 1), ("S3", 3, 1), ("D4", 1, 5), ("C4 x C4", 5, 4)])
def test_a_full_window_moves_by_rho(name, s, other):
    """V_{l+1} = rho(s) V_l, exactly, and for no other element."""
    group = parse_finite(name)
    time = int(group.element_orders[s])
    sums = CayleyTopology(group, s, shifting_topology(time)).sums(
        torch.rand(2, time, 3, group.order, dtype=torch.float64)
    )
    following = sums.roll(-1, 1)
    torch.testing.assert_close(sums @ group.regular(s).T, following, rtol=0, atol=1e-12)
    assert float((sums @ group.regular(other).T - following).abs().max()) > 0.1


def test_sequences_that_move_differently():
    group = parse_finite("C3 x C5")
    squares = torch.rand(5, 6, 2, 15, dtype=torch.float64, requires_grad=True)
    moving = torch.tensor([5, 1, 6, 1, 5])
    together = CayleyTopology(group, moving, shifting_topology(3)).sums(squares)
    for k, s in enumerate(moving.tolist()):
        alone = CayleyTopology(group, s, shifting_topology(3)).sums(squares[k : k + 1])
        torch.testing.assert_close(together[k : k + 1], alone, rtol=0, atol=1e-12)
    together.sum().backward()
    torch.testing.assert_close(squares.grad, torch.full_like(squares, 3.0))


def test_who_shares_variance_in_a_group_that_does_not_commute():
    """Squares at (l, x) and (l + 1, s·x) go together; at (l + 1, x·s) they do not."""
    group = parse_finite("S3")
    s = 3
    t = sample_topographic(
        CayleyTopology(group, s, shifting_topology(3)),
        sequences=4000,
        time=6,
        capsules=1,
        length=6,
        generator=torch.Generator().manual_seed(0),
    )[:, :, 0]
    size = t.square().log()
    table = group.table

    def correlation(places: torch.Tensor) -> float:
        x = [x for x in range(6) if table[s, x] != table[x, s]]
        now, then = size[:, :-1][..., x].flatten(), size[:, 1:][..., places[x]].flatten()
        return float(torch.corrcoef(torch.stack([now, then]))[0, 1])

    assert correlation(table[s]) > 0.05
    assert abs(correlation(table[:, s])) < 0.03


def test_standard_samples_of_sequences_that_move_differently():
    topology = CayleyTopology(parse_finite("C2 x C3"), torch.tensor([1, 3, 1]), shifting_topology(2))
    t = sample_topographic(topology, sequences=3, time=4, capsules=2, length=6, standard=True)
    assert t.shape == (3, 4, 2, 6)


def test_bad_input():
    group = parse_finite("D4")
    with pytest.raises(InputError, match=r"elements 0\.\.7"):
        CayleyTopology(group, 8, shifting_topology(3))
    with pytest.raises(InputError, match=r"one element per sequence, \(batch,\)"):
        CayleyTopology(group, torch.zeros(2, 2, dtype=torch.int64), shifting_topology(3))
    with pytest.raises(InputError, match="one for each element of D4; got 7"):
        CayleyTopology(group, 1, shifting_topology(3)).sums(torch.rand(1, 4, 1, 7))
    with pytest.raises(InputError, match="3 elements in moving"):
        CayleyTopology(group, torch.tensor([1, 2]), shifting_topology(3)).sums(torch.rand(3, 4, 1, 8))
    with pytest.raises(InputError, match="one element for all sequences"):
        CayleyTopology(group, torch.tensor([1, 2]), shifting_topology(3)).matrix(4, 8)
    with pytest.raises(InputError, match="no neighbor counts twice"):
        CayleyTopology(group, 4, shifting_topology(3, band=1)).sums(torch.rand(1, 4, 1, 8))
