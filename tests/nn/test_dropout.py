"""Dropout: whole fields, the right share of them, nothing in evaluation."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import Cyclic, Dihedral
from intertwine.nn import Dropout, Layer, to_plain
from intertwine.spaces import Grid2d
from intertwine.testing import assert_equivariant

C4, D4 = Cyclic(4), Dihedral(4)
FIELD = Grid2d(D4).field(D4.irrep(1) + D4.regular + 2 * D4.trivial)


@pytest.mark.parametrize("everywhere", [True, False])
def test_whole_fields(everywhere):
    torch.manual_seed(0)
    y = Dropout(FIELD, 0.25, everywhere=everywhere)(torch.ones(2000, FIELD.dim, 2, 3))
    at = 0
    for atom in FIELD.rho.atoms:
        part = y[:, at : at + atom.dim].flatten(2)
        assert torch.equal(part.amin(1), part.amax(1)), "the channels of a field share their fate"
        assert set(part.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
        assert abs(float((part == 0).float().mean()) - 0.25) < 0.03
        assert torch.equal(part.amin(2), part.amax(2)) == everywhere
        at += atom.dim


def test_nothing_happens_in_evaluation():
    x = torch.randn(2, FIELD.dim)
    assert torch.equal(Dropout(FIELD, 0.9).eval()(x), x)
    assert torch.equal(Dropout(FIELD, 0.0)(x), x)
    assert isinstance(to_plain(Dropout(FIELD)), torch.nn.Identity)


def test_each_draw_commutes_or_not():
    for seed in range(3):
        assert assert_equivariant(Dropout(FIELD), training=True, seed=seed) < 1e-12
    assert assert_equivariant(Dropout(FIELD, everywhere=False)) < 1e-12
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(Dropout(FIELD, everywhere=False), training=True)


def test_the_trial_leaves_the_random_numbers_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    assert_equivariant(Dropout(FIELD), training=True)
    assert torch.equal(torch.rand(3), expected)


class PlainDropout(Layer):
    """Channels dropped one by one: what Dropout must not do."""

    @classmethod
    def examples(cls):
        return iter(())

    def forward(self, x):
        return torch.nn.functional.dropout2d(x, 0.5, self.training)

    def to_plain(self):
        return torch.nn.Dropout2d()


def test_single_channels_would_break_it():
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(PlainDropout(FIELD, FIELD, Dropout(FIELD).claim), training=True)


@pytest.mark.parametrize(("p", "text"), [(1.0, "0 <= p < 1"), (-0.1, "0 <= p < 1"), ("a half", "p to be a number")])
def test_probabilities(p, text):
    with pytest.raises(InputError, match=text):
        Dropout(FIELD, p)


def test_channel_by_channel():
    """Equivariant in distribution only: a rotated field with the same draw is another one."""
    torch.manual_seed(0)
    layer = Dropout(Grid2d(C4).field(50 * C4.regular), p=0.5, per="channel")
    y = layer(torch.ones(20, 200, 2, 2)).view(20, 50, 4, 4)
    kept = y[..., 0] > 0
    assert ((y == 0) | (y == 2)).all()
    assert (y.amin(3) == y.amax(3)).all()  # all positions of a channel alike
    assert abs(kept.double().mean() - 0.5) < 0.05
    assert (kept.any(2) & ~kept.all(2)).any()  # not whole fields
    assert torch.equal(layer.eval()(torch.ones(1, 200)), torch.ones(1, 200))
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer, training=True)
    with pytest.raises(TypeMismatchError, match="Use per='field'"):
        Dropout(Grid2d(C4).field(C4.irrep(1)), per="channel")
