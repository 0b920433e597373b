"""VGG11 and its mirrored variants: the sizes of the paper, exact symmetry, and the plain twin."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.models import GVGG11, VGG11
from intertwine.nn import Conv2d, Layer, Sequential
from intertwine.testing import assert_equivariant


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
        for weight in model.classifier.parameters():
            weight.data *= 1000  # scores of the size of 1, so that a difference would show
        error = (model(x.flip(3)) - model(x)).abs().max()
        assert (error < 1e-10) == invariant
        assert model(x).std() > 1e-4


def test_every_mirrored_layer_exchanges_the_channels_of_pairs():
    model = GVGG11(width=0.125).double()
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    h, mirrored, partners = x, x.flip(3), iter(model.partners())
    for layer in model.features:
        h, mirrored = layer(h), layer(mirrored)
        if isinstance(layer, Conv2d):
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


def test_the_gcnn_is_made_of_layers_that_keep_their_claims():
    model = GVGG11(width=0.0625)
    assert all(isinstance(layer, Layer) for layer in [*model.features, model.classifier])
    assert assert_equivariant(Sequential(*model.features)) < 1e-10
    assert assert_equivariant(model.classifier) < 1e-10


@pytest.mark.parametrize("layer", [0, 2, -1])
def test_first_weights_are_those_of_a_plain_network(layer):
    """Entries of the filters are uniform within 1/√fan-in, as in the published code; so are the biases."""
    torch.manual_seed(0)
    plain = GVGG11(width=0.25).to_plain()
    modules = [m for m in [*plain.features, plain.classifier] if hasattr(m, "weight")]
    weight, bias = modules[layer].weight.detach(), modules[layer].bias.detach()
    bound = weight[0].numel() ** -0.5
    assert 0.9 * bound < weight.abs().max() <= bound
    assert abs(weight.std() / (bound / 3**0.5) - 1) < 0.1
    assert 0.5 * bound < bias.abs().max() <= bound


def test_old_checkpoints_are_refused_with_a_reason():
    old = VGG11(width=0.0625).state_dict()
    with pytest.raises(InputError, match="of version 0"):
        GVGG11(width=0.0625).load_state_dict(old)
    with pytest.raises(InputError, match="of version 0"):
        torch.nn.Sequential(GVGG11(width=0.0625)).load_state_dict({f"0.{name}": value for name, value in old.items()})
    model = GVGG11(width=0.0625)
    GVGG11(width=0.0625).load_state_dict(model.state_dict())


def test_gradients_and_errors():
    model = GVGG11(width=0.0625)
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with pytest.raises(InputError, match="at least 32 x 32; got 28 x 28"):
        VGG11(width=0.0625)(torch.zeros(1, 3, 28, 28))
    with pytest.raises(InputError, match="1 to 8"):
        GVGG11(mirrored=0)
