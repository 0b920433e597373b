"""Networks on point clouds."""

from __future__ import annotations

import torch

from intertwine.models import point_network
from intertwine.nn import radius_graph, to_plain
from intertwine.spaces import Cloud3d
from intertwine.testing import assert_deferred, assert_equivariant, assert_follows_device

SPACE = Cloud3d("O(3)")


def test_equivariant_and_exported() -> None:
    torch.manual_seed(0)
    hidden = SPACE.field("4*irrep0 + 4*irrep1 + 2*irrep2")
    net = point_network(SPACE.field("2*irrep0 + irrep1"), hidden, SPACE.field("irrep1 + irrep0"), layers=2, radius=1.0)
    assert assert_equivariant(net) < 1e-10
    x, positions = torch.randn(6, 5), torch.rand(6, 3)
    edges = radius_graph(positions, 1.0)
    torch.testing.assert_close(to_plain(net)(x, positions, edges), net(x, positions, edges), rtol=1e-5, atol=1e-5)


def test_on_another_device_and_made_without_memory() -> None:
    def make() -> torch.nn.Module:
        return point_network(SPACE.field("irrep0"), SPACE.field("2*irrep0 + irrep1"), SPACE.field("irrep1"), radius=1.0)

    positions = torch.rand(4, 3)
    inputs = torch.ones(4, 1), positions, radius_graph(positions, 1.0)
    assert_follows_device(make(), *inputs)
    assert_deferred(make, *inputs)


def test_the_point_itself_counts_without_neighbors() -> None:
    net = point_network(SPACE.field("irrep0"), SPACE.field("4*irrep0 + irrep1"), SPACE.field("irrep0"), radius=1.0)
    alone = torch.zeros(2, 0, dtype=torch.int64)
    assert net(torch.tensor([[1.0]]), torch.zeros(1, 3), alone) != net(torch.tensor([[2.0]]), torch.zeros(1, 3), alone)
