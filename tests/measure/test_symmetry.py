"""Symmetries of images: names, laws, and how they move filters."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from intertwine.errors import GroupLawError, InputError
from intertwine.groups import Cyclic
from intertwine.measure import (
    Symmetry,
    equivariance_error,
    invariance_error,
    layer_errors,
    parse_symmetry,
)
from intertwine.spaces import Grid2d

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
        move = symmetry.require_axis_move(g, caller="test")
        moved = F.conv2d(symmetry.apply(g, x), move(w), padding=1)
        torch.testing.assert_close(moved, symmetry.apply(g, F.conv2d(x, w, padding=1)), atol=1e-12, rtol=0)
        if g:
            assert not torch.allclose(moved, F.conv2d(x, w, padding=1))


def test_a_users_own_group():
    colors = Symmetry.from_maps(Cyclic(3), [lambda x, k=k: x.roll(k, 1) for k in range(3)], name="colors")
    assert colors.channel_order(1, 3) == (2, 0, 1)
    assert colors.axis_move(1) == Grid2d("D4").axis_move(0)
    both = Symmetry.from_maps(Cyclic(2), [lambda x: x, lambda x: x.flip(1, 3)], name="both")
    assert both.axis_move(1) == Grid2d("D4").axis_move(4)
    assert both.channel_order(1, 3) == (2, 1, 0)
    shift = Symmetry.from_maps(Cyclic(5), [lambda x, k=k: x.roll(k, 3) for k in range(5)], name="shift")
    assert shift.axis_move(1) is None
    assert shift.channel_order(1, 3) is None
    with pytest.raises(InputError, match="element 1 of shift"):
        shift.require_axis_move(1, caller="test")


def test_maps_that_are_no_group_are_refused():
    with pytest.raises(GroupLawError, match="map 1 after map 1 to be map 0"):
        Symmetry.from_maps(Cyclic(2), [lambda x: x, lambda x: x.rot90(1, (2, 3))], name="bad")
    with pytest.raises(InputError, match="expected 2 maps"):
        Symmetry.from_maps(Cyclic(2), [lambda x: x], name="few")
    with pytest.raises(GroupLawError, match="the identity as the first map"):
        Symmetry.from_maps(Cyclic(2), [lambda x: x.flip(3), lambda x: x], name="first")
    with pytest.raises(InputError, match="Did you mean hflip"):
        parse_symmetry("hflp")


class TestOtherTensors:
    """Measures take signals, volumes and vectors when the user says how a group moves them."""

    CASES = (
        ("signals", (16,), lambda x: x.flip(-1)),
        ("volumes", (4, 4, 4), lambda x: x.flip(-3)),
        ("vectors", (), lambda x: x.flip(-1)),
    )

    @pytest.mark.parametrize(("name", "sizes", "flip"), CASES)
    def test_every_measure(self, name, sizes, flip):
        symmetry = Symmetry.from_maps(Cyclic(2), [lambda x: x, flip], sizes=sizes, name=name)
        x = torch.randn(5, 3, *sizes, dtype=torch.float64)
        odd, even = Odd(), Even(flip)
        assert float(invariance_error(even, x, symmetry)) < 1e-12 < 0.1 < float(invariance_error(odd, x, symmetry))
        assert float(equivariance_error(torch.nn.Tanh(), x, symmetry)) < 1e-12
        assert float(equivariance_error(odd, x, symmetry)) > 0.1
        layers = layer_errors(torch.nn.Sequential(torch.nn.Tanh(), odd), x, symmetry).layers
        if sizes:
            assert float(layers[0].equivariance) < 1e-12 < 0.1 < float(layers[1].equivariance)

    def test_images_where_signals_are_expected(self):
        symmetry = Symmetry.from_maps(Cyclic(2), [lambda x: x, lambda x: x.flip(-1)], sizes=(16,), name="signals")
        with pytest.raises(InputError, match="3 axes"):
            invariance_error(Odd(), torch.rand(2, 3, 8, 8), symmetry)
        with pytest.raises(InputError, match=r"images \(n, channels, height, width\)"):
            invariance_error(Odd(), torch.rand(2, 3, 8), "hflip")

    def test_maps_of_another_shape(self):
        with pytest.raises(InputError, match=r"maps of a tensor of shape \(2, 3, 16\)"):
            Symmetry.from_maps(Cyclic(2), [lambda x: x, lambda x: x.flip(-3, -4)], sizes=(16,), name="planes")

    def test_elements_that_are_not_there(self):
        with pytest.raises(InputError, match="0 to 1; got 2"):
            parse_symmetry("hflip").apply(2, torch.rand(1, 1, 4, 4))


class Odd(torch.nn.Module):
    """Weighs every place differently."""

    def forward(self, x):
        return x * torch.linspace(1, 2, x[0].numel(), dtype=x.dtype).view(x.shape[1:])


class Even(torch.nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip

    def forward(self, x):
        return x + self.flip(x)
