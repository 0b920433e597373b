"""Symmetries of images: names, laws, and how they move filters."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from intertwine.errors import GroupLawError, InputError
from intertwine.groups import Cyclic
from intertwine.measure import PlaneMap, Symmetry, parse_symmetry

NAMES = ("hflip", "vflip", "flips", "c2", "c4", "d4")


def test_the_named_maps_are_what_their_names_say():
    x = torch.randn(2, 3, 4, 6)
    assert torch.equal(parse_symmetry("hflip").apply(1, x), x.flip(3))
    assert torch.equal(parse_symmetry("vflip").apply(1, x), x.flip(2))
    assert torch.equal(parse_symmetry(" C4 ").apply(1, x), torch.rot90(x, 1, (2, 3)))
    assert parse_symmetry("d4").order == 8
    assert parse_symmetry(parse_symmetry("d4")).name == "d4"


@pytest.mark.parametrize("name", NAMES)
def test_filters_move_with_images(name):
    """The correlation of a moved image with moved filters is the moved correlation."""
    symmetry = parse_symmetry(name)
    x, w = torch.randn(2, 3, 7, 7, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)
    for g in range(symmetry.order):
        plane = symmetry.plane_maps[g]
        assert plane is not None
        moved = F.conv2d(symmetry.apply(g, x), plane(w), padding=1)
        torch.testing.assert_close(moved, symmetry.apply(g, F.conv2d(x, w, padding=1)), atol=1e-12, rtol=0)
        if g:
            assert not torch.allclose(moved, F.conv2d(x, w, padding=1))


def test_a_users_own_group():
    colors = Symmetry("colors", Cyclic(3), [lambda x, k=k: x.roll(k, 1) for k in range(3)])
    assert colors.channel_order(1, 3) == (2, 0, 1)
    assert colors.plane_maps[1] == PlaneMap()
    both = Symmetry("both", Cyclic(2), [lambda x: x, lambda x: x.flip(1, 3)])
    assert both.plane_maps[1] == PlaneMap(flip=True)
    assert both.channel_order(1, 3) == (2, 1, 0)
    shift = Symmetry("shift", Cyclic(5), [lambda x, k=k: x.roll(k, 3) for k in range(5)])
    assert shift.plane_maps[1] is None
    assert shift.channel_order(1, 3) is None
    with pytest.raises(InputError, match="element 1 of shift"):
        shift.require_plane_map(1, who="test")


def test_maps_that_are_no_group_are_refused():
    with pytest.raises(GroupLawError, match="map 1 after map 1 to be map 0"):
        Symmetry("bad", Cyclic(2), [lambda x: x, lambda x: x.rot90(1, (2, 3))])
    with pytest.raises(InputError, match="expected 2 maps"):
        Symmetry("few", Cyclic(2), [lambda x: x])
    with pytest.raises(GroupLawError, match="the identity first"):
        Symmetry("first", Cyclic(2), [lambda x: x.flip(3), lambda x: x])
    with pytest.raises(InputError, match="Did you mean hflip"):
        parse_symmetry("hflp")
