"""Adaptive pooling and antialiased max pooling: values, sizes, refusals."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import max_pool2d

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import Cyclic, Dihedral
from intertwine.nn import AdaptiveAvgPool, AdaptiveMaxPool, BlurPool2d, MaxBlurPool, MaxPool2d, NormMaxPool, Plain
from intertwine.nn import Exact as ExactClaim
from intertwine.spaces import Grid1d, Grid2d
from intertwine.testing import assert_equivariant

C4, C8, D1, D4 = Cyclic(4), Cyclic(8), Dihedral(1), Dihedral(4)
REGULAR = Grid2d(C4).field(C4.regular)


@pytest.mark.parametrize(("n", "m"), [(7, 3), (8, 3), (9, 4), (10, 7), (32, 5)])
def test_uneven_windows_commute(n, m):
    for layer in (AdaptiveAvgPool(Grid2d(D4).field(D4.irrep(1)), m), AdaptiveMaxPool(Grid2d(D4).field(D4.regular), m)):
        assert assert_equivariant(layer, size=n) < 1e-12


def test_windows_by_hand():
    x = torch.randn(2, 2, 7)
    y = AdaptiveAvgPool(Grid1d("D1").field("regular"), 3)(x)
    by_hand = torch.stack([x[..., :3].mean(-1), x[..., 2:5].mean(-1), x[..., 4:].mean(-1)], -1)
    assert torch.allclose(y, by_hand, atol=1e-6)


def test_adaptive_windows_in_another_order_break_it():
    """Windows that all start early, as n // m with a remainder left out, do not commute."""
    early = Plain(torch.nn.AvgPool2d(2, stride=2), REGULAR, REGULAR, ExactClaim())
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(early, size=7)


def test_adaptive_refusals():
    with pytest.raises(InputError, match="equal output sizes along height and width, which C4 mixes"):
        AdaptiveMaxPool(REGULAR, (2, 3))
    assert AdaptiveAvgPool(Grid2d(D1).field(D1.regular), (2, 3))(torch.zeros(1, 2, 8, 8)).shape == (1, 2, 2, 3)
    with pytest.raises(InputError, match="at least 9 samples along the height"):
        AdaptiveAvgPool(REGULAR, 9)(torch.zeros(1, 4, 8, 8))
    uneven = AdaptiveAvgPool(Grid2d(C8).field(C8.regular), 3)
    assert uneven(torch.zeros(1, 8, 9, 9)).shape == (1, 8, 3, 3)
    with pytest.raises(InputError, match="a multiple of 3 along the height"):
        uneven(torch.zeros(1, 8, 8, 8))
    with pytest.raises(TypeMismatchError, match="Use AdaptiveAvgPool"):
        AdaptiveMaxPool(Grid2d(C4).field(C4.irrep(1)), 3)
    C6 = Cyclic(6)
    with pytest.raises(InputError, match="the square lattice"):
        AdaptiveAvgPool(Grid2d(C6, lattice="hexagonal").field(C6.regular), 3)


def test_antialiased_max_pooling_is_max_then_blur():
    x = torch.randn(2, 4, 12, 12)
    layer = MaxBlurPool(REGULAR, 3, blur=4)
    assert torch.allclose(layer(x), BlurPool2d(REGULAR, 4)(max_pool2d(x, 3, 1, 1)))
    assert layer.window.output_sizes((12, 12)) == (6, 6)


def test_a_shift_changes_it_less_than_max_pooling():
    """The reason for the layer: the mean change under a shift by one sample of a smooth field, and of an edge."""
    x = torch.zeros(1, 4, 32, 32)
    x[..., 8:21, 9:22] = 1.0
    moved = x.roll(1, -1)
    change = {}
    for layer in (MaxBlurPool(REGULAR), MaxPool2d(REGULAR, 2)):
        y = layer(x)
        change[type(layer)] = float((layer(moved) - y).square().sum() / y.square().sum())
    assert change[MaxBlurPool] < change[MaxPool2d] / 1.5, change


def test_sizes_that_break_antialiased_pooling():
    with pytest.raises(InputError, match=r"MaxBlurPool: expected 11 or 13 along the height"):
        MaxBlurPool(REGULAR, 2, blur=4)(torch.zeros(1, 4, 12, 12))
    loose = MaxBlurPool(REGULAR, 2, blur=4, allow_asymmetric=True)
    assert loose(torch.zeros(1, 4, 12, 12)).shape == (1, 4, 5, 5)
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(loose, size=12)
    with pytest.raises(TypeMismatchError, match="Use BlurPool2d or BlurPool3d"):
        MaxBlurPool(Grid2d(C4).field(C4.irrep(1)))
    with pytest.raises(TypeMismatchError, match="Use MaxPool1d"):
        MaxBlurPool(Grid1d("D1").field("regular"))


def test_the_longest_vector_of_each_window():
    field = Grid2d(C4).field(C4.irrep(1) + C4.regular)
    x = torch.randn(2, 6, 6, 6)
    y = NormMaxPool(field, 2)(x)
    for channels in (slice(0, 2), slice(2, 6)):
        part = x[:, channels, 2:4, 4:6].flatten(2)
        best = part.norm(dim=1).argmax(1)
        assert torch.equal(y[:, channels, 1, 2], torch.stack([part[b, :, best[b]] for b in range(2)]))
    with pytest.raises(InputError, match=r"NormMaxPool: expected 6 or 8 along the height"):
        NormMaxPool(field, 2)(torch.zeros(1, 6, 7, 7))
    mixed = Plain(torch.nn.MaxPool2d(2), field, field, ExactClaim())  # channel by channel
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(mixed, size=6)
