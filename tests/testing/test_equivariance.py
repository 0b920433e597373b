"""The checker of layers is shown what must pass and what must fail."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import SO2, Cyclic, Dihedral
from intertwine.nn import AvgPool2d, Conv2d, Exact, Layer, Sequential
from intertwine.spaces import Grid2d
from intertwine.testing import assert_equivariant

C4, D4 = Cyclic(4), Dihedral(4)
FIELD = Grid2d(C4).field(2 * C4.regular)


class Free(Layer):
    """A convolution with any filter."""

    def __init__(self, field, filters, padding_mode="zeros"):
        super().__init__(field, field, Exact())
        self.conv = torch.nn.Conv2d(field.dim, field.dim, filters.shape[-1], padding=1, padding_mode=padding_mode)
        self.conv.weight = torch.nn.Parameter(filters)

    @classmethod
    def examples(cls):
        return iter(())

    def forward(self, x):
        return self.conv(x)

    def to_plain(self):
        return self.conv

    def shift_step(self, sizes):
        return 1 if self.conv.padding_mode == "circular" else None


def constrained():
    return Conv2d(FIELD, FIELD, 3, padding=1, bias=False).expand()[0].detach()


def free(filters, **options):
    layer = Free(FIELD, filters, **options)
    torch.nn.init.zeros_(layer.conv.bias)
    return layer


def test_a_users_own_layer():
    assert assert_equivariant(free(constrained())) < 1e-12
    assert assert_equivariant(free(constrained(), padding_mode="circular")) < 1e-12


def test_an_unconstrained_filter_fails():
    message = (
        r"Free from Field\(2 regular on Grid2d\(C4\)\) to .* does not commute with element 1 of C4: relative error"
    )
    with pytest.raises(AssertionError, match=message):
        assert_equivariant(free(torch.randn(8, 8, 3, 3)))


def test_a_small_perturbation_fails():
    with pytest.raises(AssertionError, match=r"relative error [0-9.]+e-0[5-7]"):
        assert_equivariant(free(constrained() + 1e-6 * torch.randn(8, 8, 3, 3)))
    assert assert_equivariant(free(constrained() + 1e-6 * torch.randn(8, 8, 3, 3)), tolerance=1e-4) > 1e-8


def test_a_false_claim_about_translations_fails():
    layer = free(constrained())
    layer.shift_step = lambda sizes: 1
    with pytest.raises(AssertionError, match=r"the translation by \(2, -1\)"):
        assert_equivariant(layer)


def test_a_bias_outside_the_invariants_fails():
    layer = Free(FIELD, constrained())
    with torch.no_grad():
        layer.conv.bias[0] = 1.0
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer)


def test_nan_fails():
    layer = free(constrained() * float("nan"))
    with pytest.raises(AssertionError, match="relative error inf"):
        assert_equivariant(layer)


def test_a_filter_that_is_no_good_at_45_degrees_fails():
    so2 = SO2()
    field = Grid2d(so2).field(so2.irrep(1) + so2.trivial)
    layer = Conv2d(field, field, 3, padding=1)
    assert assert_equivariant(layer) < 1e-12
    # Any filter that C4 allows commutes with quarter turns, and with nothing between.
    same = Grid2d(C4).field(C4.irrep(1) + C4.trivial)
    lattice = Conv2d(same, same, 7, padding=3)
    broken = free(constrained())
    broken.in_type = broken.out_type = field
    broken.conv = lattice.to_plain()
    broken._claim = layer.claim
    with pytest.raises(AssertionError, match="a random turn in SO"):
        assert_equivariant(broken)


def test_the_layer_is_left_as_it_was():
    layer = Conv2d(FIELD, FIELD, 3)
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    assert_equivariant(layer)
    assert layer.training
    assert all(torch.equal(before[key], value) for key, value in layer.state_dict().items())


def test_sizes():
    fours = Sequential(AvgPool2d(FIELD, 2), AvgPool2d(FIELD, 2))
    assert assert_equivariant(fours) < 1e-12
    with pytest.raises(InputError, match="accepts none of"):
        assert_equivariant(AvgPool2d(FIELD, 100))
    with pytest.raises(InputError, match="Derive yours from"):
        assert_equivariant(torch.nn.ReLU())
