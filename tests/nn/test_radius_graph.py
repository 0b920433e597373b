"""Neighbor search against all pairs."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intertwine.errors import InputError
from intertwine.nn import radius_graph


def all_pairs(x: torch.Tensor, radius: float, batch=None, box=None) -> torch.Tensor:
    """The slow twin: every pair, and with a box every image of every pair."""
    n, d = x.shape
    steps = torch.zeros(1, d, dtype=x.dtype)
    if box is not None:
        steps = torch.tensor(list(product((-2, -1, 0, 1, 2), repeat=d)), dtype=x.dtype) @ box
    vectors = (x[:, None] - x[None])[:, :, None] + steps  # (source, target, image)
    near = (vectors.square().sum(-1) <= radius * radius).any(-1)
    near &= ~torch.eye(n, dtype=torch.bool)
    if batch is not None:
        near &= batch[:, None] == batch[None]
    target, source = near.T.nonzero(as_tuple=True)
    return torch.stack([source, target])


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 40),
    d=st.integers(1, 3),
    radius=st.floats(0.05, 3.0),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    groups=st.integers(0, 3),
    seed=st.integers(0, 10_000),
)
def test_finds_the_pairs_of_the_slow_twin(n: int, d: int, radius: float, scale: float, groups: int, seed: int) -> None:
    noise = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(n, d, dtype=torch.float64, generator=noise)
    batch = torch.randint(groups, (n,), generator=noise) * 1000 - 5 if groups else None
    assert torch.equal(radius_graph(x, radius, batch), all_pairs(x, radius, batch))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 30),
    d=st.integers(1, 3),
    share=st.floats(0.05, 0.5),
    skew=st.floats(0.0, 0.6),
    seed=st.integers(0, 10_000),
)
def test_finds_the_nearest_images_in_a_box(n: int, d: int, share: float, skew: float, seed: int) -> None:
    noise = torch.Generator().manual_seed(seed)
    box = torch.diag(1 + 3 * torch.rand(d, dtype=torch.float64, generator=noise))
    box = box + skew * torch.rand(d, d, dtype=torch.float64, generator=noise).tril(-1)
    width = float((1 / torch.linalg.inv(box).norm(dim=0)).min())
    x = 7 * torch.randn(n, d, dtype=torch.float64, generator=noise)  # outside of the box as well
    inside = x - (x @ torch.linalg.inv(box)).floor() @ box
    edges = radius_graph(x, 0.999 * share * width, box=box)
    assert torch.equal(edges, all_pairs(inside, 0.999 * share * width, box=box))


def test_points_far_apart_and_coincident_points() -> None:
    x = torch.tensor([[0.0, 0, 0], [1e12, -1e12, 1e12], [0.0, 0, 0], [1e12, -1e12, 1e12]], dtype=torch.float64)
    assert radius_graph(x, 1e-6).tolist() == [[2, 3, 0, 1], [0, 1, 2, 3]]


def test_candidates_grow_with_the_points_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    from intertwine.nn.clouds import _radius_graph as module

    looked_at = []
    vectors = module.edge_vectors

    def counted(x, edges, box):
        looked_at.append(edges.shape[1])
        return vectors(x, edges, box)

    monkeypatch.setattr(module, "edge_vectors", counted)
    counts = []
    for side in (10, 20):  # 1,000 and 8,000 points of one density
        looked_at.clear()
        noise = torch.Generator().manual_seed(0)
        radius_graph(side * torch.rand(side**3, 3, generator=noise), 1.0)
        counts.append(sum(looked_at))
    assert counts[1] < 10 * counts[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": torch.tensor([[0.0, float("nan")]])}, r"finite positions; got \[0.0, nan\] at point 0"),
        ({"positions": torch.zeros(3, 4)}, "d from 1 to 3"),
        ({"positions": torch.zeros(3, 2, dtype=torch.int64)}, "floating point"),
        ({"radius": 0.0}, "a radius above 0"),
        ({"radius": float("nan")}, "a radius above 0"),
        ({"batch": torch.zeros(2, dtype=torch.int64)}, "batch of 3 whole numbers"),
        ({"batch": torch.zeros(3)}, "batch of 3 whole numbers"),
        ({"box": [1.0, 1.9]}, "twice as wide as the radius, 2; got a width of 1"),
        ({"box": [4.0]}, "a box with 2 lengths"),
        ({"box": torch.ones(2, 2)}, "2 independent edges"),
    ],
)
def test_bad_input_is_explained(changes: dict, message: str) -> None:
    arguments = {"positions": torch.zeros(3, 2), "radius": 1.0, **changes}
    with pytest.raises(InputError, match=message):
        radius_graph(**arguments)
