"""Means and sums over the clouds of a batch."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, TypeMismatchError
from intertwine.nn import CloudPool, Linear, PointConv, Sequential, radius_graph, to_plain
from intertwine.spaces import Cloud3d, Grid2d
from intertwine.testing import assert_equivariant

SPACE = Cloud3d("O(3)")
FIELD = SPACE.field("2*irrep0 + irrep1")
SIZES = torch.tensor([3, 0, 1, 4])


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_each_cloud_is_pooled_alone(reduce: str) -> None:
    x = torch.randn(8, 5)
    pooled = CloudPool(FIELD, reduce=reduce)(x, SIZES)
    expected = torch.stack(
        [getattr(part, reduce)(0) if len(part) else torch.zeros(5) for part in x.split([3, 0, 1, 4])]
    )
    torch.testing.assert_close(pooled, expected)


def test_a_batch_index_gives_the_sizes() -> None:
    batch = torch.tensor([0, 0, 0, 2, 3, 3, 3, 3])
    assert torch.equal(batch.bincount(), SIZES)


def test_without_points_and_without_clouds() -> None:
    pool = CloudPool(FIELD)
    assert pool(torch.zeros(0, 5), torch.tensor([0, 0])).tolist() == [[0.0] * 5] * 2
    assert pool(torch.zeros(0, 5), torch.tensor([], dtype=torch.int64)).shape == (0, 5)


def test_a_network_that_ends_with_the_sum_per_cloud() -> None:
    torch.manual_seed(0)
    net = Sequential(
        PointConv(SPACE.field("irrep0"), FIELD, radius=1.0), CloudPool(FIELD, reduce="sum"), Linear(FIELD, FIELD)
    )
    assert [companion.name for companion in net.companions] == ["positions", "edges", "sizes"]
    assert assert_equivariant(net) < 1e-10
    x, positions = torch.randn(8, 1), torch.rand(8, 3)
    batch = torch.arange(4).repeat_interleave(SIZES)
    edges = radius_graph(positions, 1.0, batch=batch)
    out = net(x, positions, edges, SIZES)
    torch.testing.assert_close(to_plain(net)(x, positions, edges, SIZES), out)
    alone = net(x[4:], positions[4:], radius_graph(positions[4:], 1.0), sizes=torch.tensor([4]))
    torch.testing.assert_close(out[3:], alone, rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeMismatchError, match="before the pooling"):
        Sequential(CloudPool(FIELD), PointConv(FIELD, FIELD, radius=1.0))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (None, "number of points of each cloud; got None"),
        (torch.tensor([8.0]), "torch.float32"),
        (torch.tensor([[8]]), r"shape \(1, 1\)"),
        (torch.tensor([3, 4]), r"add up to 8 points; got \[3, 4\]"),
        (torch.tensor([9, -1]), "0 or more"),
        ([8], "a list"),
    ],
)
def test_bad_sizes_are_explained(sizes: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CloudPool(FIELD)(torch.zeros(8, 5), sizes)


def test_a_grid_is_refused() -> None:
    with pytest.raises(TypeMismatchError, match=r"fields on a cloud; .*GlobalPool takes fields on grids"):
        CloudPool(Grid2d("C4").field("trivial"))
