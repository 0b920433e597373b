"""VGG11 and its mirrored variants: the sizes of the paper, exact symmetry, and the plain twin."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.models import GVGG11, VGG11


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_the_parameter_counts_of_the_paper():
    assert count(VGG11()) == 9_225_610
    assert count(GVGG11()) == 4_612_810
    assert count(GVGG11(mirrored=2)) == 9_187_786


def test_the_gcnn_is_invariant_and_others_are_not():
    x = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    for model, invariant in (
        (GVGG11(width=0.125), True),
        (GVGG11(width=0.125, mirrored=2), False),
        (VGG11(width=0.125), False),
    ):
        model.double()
        model.classifier.weight.data *= 1000  # scores of the size of 1, so that a difference would show
        error = (model(x.flip(3)) - model(x)).abs().max()
        assert (error < 1e-10) == invariant
        assert model(x).std() > 1e-4


def test_every_mirrored_layer_exchanges_the_channels_of_pairs():
    model = GVGG11(width=0.125).double()
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    h, mirrored, partners = x, x.flip(3), iter(model.partners())
    for layer in model.features:
        h, mirrored = layer(h), layer(mirrored)
        if hasattr(layer, "lifting"):
            p = next(partners)
        torch.testing.assert_close(mirrored, h[:, p].flip(3), atol=1e-12, rtol=0)
        assert not torch.allclose(mirrored, h.flip(3)) or h.shape[-1] == 1


@pytest.mark.parametrize("mirrored", [8, 2, 1])
def test_the_plain_twin(mirrored):
    model = GVGG11(width=0.125, mirrored=mirrored).double()
    twin = model.to_plain()
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    assert type(twin) is VGG11
    torch.testing.assert_close(twin(x), model(x), atol=1e-12, rtol=0)
    assert [p.shape for p in twin.parameters()] == [p.shape for p in VGG11(width=0.125).parameters()]


def test_gradients_and_errors():
    model = GVGG11(width=0.0625)
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with pytest.raises(InputError, match="at least 32 x 32; got 28 x 28"):
        VGG11(width=0.0625)(torch.zeros(1, 3, 28, 28))
    with pytest.raises(InputError, match="1 to 8"):
        GVGG11(mirrored=0)
