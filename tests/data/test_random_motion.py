"""Augmentation with the same object that layers and measures take."""

from __future__ import annotations

import pickle

import pytest
import torch

from intertwine.data import RandomMotion, random_rotation90, sample_generator
from intertwine.errors import InputError
from intertwine.groups import Symmetric
from intertwine.measure import parse_symmetry
from intertwine.spaces import Grid1d, Grid2d, Grid3d, HomogeneousSpace, Point


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", ["hflip", "vflip", "flips", "C4", "D4"])
def test_every_element_comes_and_is_exact(name):
    images = torch.rand(200, 2, 5, 5).expand(200, 2, 5, 5)
    symmetry = parse_symmetry(name)
    moved = RandomMotion(name)(images, generator())
    counts = torch.zeros(symmetry.order)
    for image, result in zip(images, moved, strict=True):
        hits = [g for g in range(symmetry.order) if torch.equal(symmetry.apply(g, image[None])[0], result)]
        assert len(hits) == 1
        counts[hits[0]] += 1
    assert counts.min() > 200 / symmetry.order / 2


@pytest.mark.parametrize(
    ("symmetry", "shape"),
    [
        ("D4", (3, 8, 8)),
        ("C8", (3, 8, 8)),
        (Grid2d("SO(2)"), (1, 9, 9)),
        (Grid2d("D4").field("irrep1"), (2, 6, 6)),
        (Grid1d("D1"), (4, 16)),
        (Grid3d("Oh"), (1, 4, 4, 4)),
        (HomogeneousSpace(Symmetric(4), Symmetric(4).fixing(0)), (3, 4)),
        (Point("SO(3)").field("irrep1"), (3,)),
    ],
    ids=str,
)
def test_items_and_batches_repeat_by_generator(symmetry, shape):
    augment = pickle.loads(pickle.dumps(RandomMotion(symmetry)))  # as loader workers get it
    batch = torch.randn(7, *shape, dtype=torch.float64)
    first, again, other = (augment(batch, generator(seed)) for seed in (1, 1, 2))
    assert first.shape == batch.shape
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, batch)
    item = augment(batch[0], sample_generator(0, 3))
    assert torch.equal(item, augment(batch[:1], sample_generator(0, 3))[0])


def test_a_field_type_turns_its_vectors():
    field = Grid2d("D4").field("irrep1")
    x = torch.randn(1, 2, 5, 5, dtype=torch.float64)
    elements = field.space.sample(30, generator())
    moved = RandomMotion(field)(x.expand(30, 2, 5, 5), generator())
    for g, result in zip(elements, moved, strict=True):
        assert (field.transform(x[0], field.space.from_compact(g)) - result).abs().max() < 1e-12


def test_what_comes_in_from_outside():
    ones = torch.ones(20, 1, 9, 9)
    assert RandomMotion("SO(2)")(ones, generator()).min() < 0.1
    assert RandomMotion("SO(2)", padding="mirror")(ones, generator()).min() > 0.99


def test_quarter_turns_of_integers():
    images = torch.arange(2 * 9).reshape(2, 1, 3, 3)
    assert torch.equal(random_rotation90(images, generator(3)), RandomMotion("C4")(images, generator(3)))
    assert RandomMotion("C4")(images, generator()).dtype == torch.int64


def test_bad_input():
    with pytest.raises(InputError, match="Did you mean hflip"):
        RandomMotion("hflop")
    with pytest.raises(InputError, match="real numbers with 3 axes, or a batch of them with 4"):
        RandomMotion("D4")(torch.rand(8, 8), generator())
    with pytest.raises(InputError, match="floating point"):
        RandomMotion(Grid2d("D4").field("irrep1"))(torch.zeros(2, 4, 4, dtype=torch.int64), generator())
    with pytest.raises(InputError, match="square images, which D4 maps to themselves"):
        RandomMotion("D4")(torch.rand(20, 1, 4, 6), generator())
    with pytest.raises(InputError, match="2 channels"):
        RandomMotion(Grid2d("D4").field("irrep1"))(torch.rand(5, 3, 4, 4), generator())
