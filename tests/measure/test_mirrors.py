"""A mirror means the same everywhere: the left-right flip of a photo, before counterclockwise turns."""

from __future__ import annotations

import pytest
import torch

from intertwine.data import load, random_flip
from intertwine.groups import O2, Cyclic, Dihedral
from intertwine.measure import parse_symmetry
from intertwine.nn import Conv2d
from intertwine.spaces import Grid2d


@pytest.fixture(scope="module")
def photo() -> torch.Tensor:
    image = load("digits").train[7][0][None].double()
    assert not torch.equal(image, image.flip(-1))
    assert not torch.equal(image, image.flip(-2))
    return image


def moved(image: torch.Tensor, plane: Grid2d, g) -> torch.Tensor:
    return plane.field(plane.stabilizer.trivial).transform(image, plane.motion([0, 0], g))


def test_d1_is_the_left_right_flip(photo):
    assert torch.equal(moved(photo, Grid2d("D1"), 1), photo.flip(-1))
    assert torch.equal(moved(photo, Grid2d(Dihedral(1)), 1), photo.flip(-1))


def test_the_named_symmetries(photo):
    assert torch.equal(parse_symmetry("hflip").apply(1, photo), photo.flip(-1))
    assert torch.equal(parse_symmetry("vflip").apply(1, photo), photo.flip(-2))
    flips = parse_symmetry("flips")
    for k, axes in enumerate([[], [-1, -2], [-1], [-2]]):
        assert torch.equal(flips.apply(k, photo), photo.flip(axes))
    assert torch.equal(random_flip(photo, torch.Generator(), probability=1.0), photo.flip(-1))


@pytest.mark.parametrize("g", range(8))
def test_d4_moves_images_as_the_plane_does(photo, g):
    image = photo.flip(-1) if g >= 4 else photo
    expected = torch.rot90(image, g % 4, (-2, -1))
    assert torch.equal(moved(photo, Grid2d("D4"), g), expected)
    assert torch.equal(parse_symmetry("d4").apply(g, photo), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_the_first_mirror_of_every_dihedral_group(photo, n):
    assert torch.equal(moved(photo, Grid2d(Dihedral(n)), n), photo.flip(-1))


def test_o2_and_its_subgroups(photo):
    group = O2()
    assert torch.equal(moved(photo, Grid2d(group), group.component_representatives[1]), photo.flip(-1))
    assert torch.equal(group.embed(Dihedral(5), 5), group.component_representatives[1])


def test_a_turn_is_counterclockwise(photo):
    """What was on the right is above after a quarter turn."""
    dot = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    dot[..., 2, 4] = 1
    assert moved(dot, Grid2d("C4"), 1)[0, 0, 0, 2] == 1
    assert torch.equal(moved(photo, Grid2d("C4"), 1), parse_symmetry("c4").apply(1, photo))


def test_a_vector_field_flips_its_first_component(photo):
    D4 = Dihedral(4)
    field = Grid2d(D4).field(D4.irrep(1))
    arrows = torch.cat([photo, photo.transpose(-2, -1)], 1)
    x, y = field.transform(arrows, Grid2d(D4).motion([0, 0], 4))[0]
    assert torch.equal(x, -arrows[0, 0].flip(-1))
    assert torch.equal(y, arrows[0, 1].flip(-1))
    assert field.rho == D4.standard


def test_layers_follow(photo):
    D1 = Dihedral(1)
    plane = Grid2d(D1)
    layer = Conv2d(plane.field(D1.trivial), plane.field(2 * D1.regular), 3, padding=1).double()
    there, back = layer(photo.flip(-1)), layer(photo).flip(-1)
    assert (there - back[:, [1, 0, 3, 2]]).abs().max() < 1e-12
    assert (layer(photo.flip(-2)) - layer(photo).flip(-2)[:, [1, 0, 3, 2]]).abs().max() > 1e-3


def test_half_turns_are_no_mirrors(photo):
    assert torch.equal(moved(photo, Grid2d(Cyclic(2)), 1), photo.flip([-1, -2]))
