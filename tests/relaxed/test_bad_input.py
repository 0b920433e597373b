"""What cannot work is refused where it is written down, by every layer that could be given it, and the error says who,
what was expected and what was found."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.models import SimpleNet, SoftResNet
from intertwine.relaxed import (
    InputLowRankLocalConv2d,
    LocallyConnected2d,
    LowRankLocalConv2d,
    PartialGroupConv2d,
    SoftConv2d,
    SoftGroupConv2d,
    SpatialBias2d,
    to_locally_connected,
)

LOW_RANK = (LowRankLocalConv2d, InputLowRankLocalConv2d)
SOFT = (SoftConv2d, SoftGroupConv2d)
DISKS = (SoftConv2d, SoftGroupConv2d, PartialGroupConv2d)


def for_eight() -> list[nn.Module]:
    """Every layer that is made for one size of image, made for 8 x 8 with 2 channels."""
    low = LowRankLocalConv2d(2, 3, 3, rank=2, input_size=8)
    return [
        low,
        LowRankLocalConv2d(2, 3, 3, rank=2, input_size=8, path="build"),
        InputLowRankLocalConv2d(2, 3, 3, rank=2, input_size=8),
        LocallyConnected2d(2, 3, 3, input_size=8),
        low.to_locally_connected(),
        to_locally_connected(nn.Sequential(low)),
        SpatialBias2d(2, input_size=8),
    ]


@pytest.mark.parametrize("layer", for_eight(), ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("shape", [(1, 2, 9, 8), (1, 2, 8, 7), (1, 2, 16, 16), (1, 1, 8, 8), (2, 8, 8), (0,)])
def test_another_size_than_built_for(layer, shape):
    layer(torch.zeros(1, 2, 8, 8))
    with pytest.raises(InputError, match=r"expected .*\(batch, 2, 8, 8\)"):
        layer(torch.zeros(shape))


def test_a_network_of_such_layers_says_the_same_of_its_images():
    net = SimpleNet(1, 12, 3, layer="low-rank", where=3, rank=2, width=4)
    with pytest.raises(InputError, match=r"SimpleNet: expected images \(1, 12, 12\); got \(1, 13, 12\)"):
        net(torch.zeros(1, 1, 13, 12))


@pytest.mark.parametrize("kind", LOW_RANK)
@pytest.mark.parametrize("rank", [0, -3, 1.5, math.nan, "2", None])
def test_a_rank_that_is_none(kind, rank):
    with pytest.raises(InputError, match=f"{kind.__name__}: expected rank (of 1 or more|to be a whole number)"):
        kind(2, 3, 3, rank=rank, input_size=8)


@pytest.mark.parametrize("kind", LOW_RANK)
def test_a_rank_above_the_number_of_positions(kind):
    kind(2, 3, 3, rank=36, input_size=8)  # as many as places is allowed
    with pytest.raises(InputError, match=r"rank of at most 36, the number of places \(6 x 6\); got 37"):
        kind(2, 3, 3, rank=37, input_size=8)
    with pytest.raises(InputError, match=r"rank of at most 9, the number of places \(3 x 3\); got 10"):
        kind(2, 3, 3, rank=10, input_size=8, stride=2)


@pytest.mark.parametrize("kind", DISKS)
@pytest.mark.parametrize("kernel_size", [2, 6])
def test_an_even_kernel_has_no_disk(kind, kernel_size):
    with pytest.raises(InputError, match=rf"{kind.__name__}: expected an odd kernel_size, .*; got {kernel_size}\."):
        kind(2, 3, kernel_size=kernel_size)
    if kind is SoftConv2d:  # a square of even size has a meaning
        assert kind(2, 3, kernel_size=kernel_size, support="square", padding="valid").support.taps == kernel_size**2


@pytest.mark.parametrize("bad", [-0.5, -1e-9, math.nan, math.inf, -math.inf])
class TestDomainFrequency:
    @pytest.mark.parametrize("learn", [True, False])
    def test_of_translations(self, bad, learn):
        with pytest.raises(InputError, match=r"SoftConv2d: expected .*finite softness of 0 or more"):
            SoftConv2d(2, 3, softness=bad, learn=learn)
        with pytest.raises(InputError, match="finite softness of 0 or more"):
            SoftConv2d(2, 3, softness=(0.5, bad), learn=learn)

    def test_of_a_group(self, bad):
        with pytest.raises(InputError, match=r"SoftGroupConv2d: expected .*finite softness of 0 or more"):
            SoftGroupConv2d(2, 3, rotation_softness=bad)
        with pytest.raises(InputError, match="finite softness of 0 or more"):
            SoftGroupConv2d(2, 3, translation_softness=bad)

    def test_of_a_network(self, bad):
        with pytest.raises(InputError, match="finite softness of 0 or more"):
            SoftResNet(1, 3, samples=4, rotation_softness=bad)


@pytest.mark.parametrize("kind", [SoftGroupConv2d, PartialGroupConv2d])
@pytest.mark.parametrize("samples", [0, -1, 0.5, 4.0, math.nan, "8"])
def test_fewer_than_one_group_sample(kind, samples):
    with pytest.raises(
        InputError,
        match=f"{kind.__name__}: expected (at least 1 group sample|samples to be a whole number or None); got "
        f"{samples!r}",
    ):
        kind(2, 3, samples=samples)
    with pytest.raises(InputError, match=r"an even number of group samples, 2 or more|samples to be a whole number"):
        kind(2, 3, samples=samples, mirrored=True)


def test_fewer_than_one_group_sample_in_a_network():
    with pytest.raises(InputError, match="at least 1 group sample; got 0"):
        SoftResNet(1, 3, samples=0)
