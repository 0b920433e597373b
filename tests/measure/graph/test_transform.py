"""Flipped and turned networks, and the layers whose stride breaks the symmetry."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from intertwine.errors import InputError
from intertwine.groups import Cyclic
from intertwine.measure import Symmetry, channel_graph, parse_symmetry
from intertwine.measure.graph import transform_network
from intertwine.measure.surgery import stride_artifacts
from intertwine.models import LeNet5, multilayer_perceptron, plain_cnn
from tests.measure import nets

EXACT = {  # networks and sizes at which every layer commutes with all of D4
    "vgg": (lambda: nets.vgg(), (3, 8, 8)),
    "vgg-bn": (lambda: nets.vgg(norm=True), (3, 8, 8)),
    "projection": (lambda: nets.Residual(option_a=False), (3, 9, 9)),
    "option-a": (lambda: nets.Residual(option_a=True), (3, 9, 9)),
    "dense": (nets.Dense, (3, 8, 8)),
    "channels-last": (nets.ChannelsLast, (3, 8, 8)),
    "tokens": (nets.Tokens, (3, 8, 8)),
    "grouped-up": (nets.GroupedUp, (3, 8, 8)),
    "mlp": (lambda: multilayer_perceptron(2, 6, 4, hidden=11), (2, 6, 6)),
    "lenet": (lambda: LeNet5(1, 12, 10), (1, 12, 12)),
    "plain-cnn": (lambda: plain_cnn(1, 10, widths=(4, 5, 6)), (1, 8, 8)),
}


@pytest.mark.parametrize("name", EXACT)
def test_the_moved_network_on_moved_images(name):
    make, shape = EXACT[name]
    symmetry = parse_symmetry("d4")
    model = make().eval().double()
    assert not stride_artifacts(model, shape, symmetry)
    x = torch.randn(2, *shape, dtype=torch.float64)
    before, graph = model(x), channel_graph(model, shape)
    for g in (1, 4, 6) if name != "vgg" else range(1, 8):
        moved = transform_network(model, symmetry, g, input_shape=shape, graph=graph)
        wanted = symmetry.apply(g, before) if before.dim() == 4 else before
        torch.testing.assert_close(moved(symmetry.apply(g, x)), wanted, atol=1e-11, rtol=0)
        assert not torch.allclose(model(symmetry.apply(g, x)), wanted, atol=1e-6), "the network itself has no symmetry"


def test_twice_is_the_identity_and_elements_compose():
    symmetry, model, shape = parse_symmetry("d4"), nets.Tokens().double(), (3, 8, 8)
    a, b = 1, 5
    graph = channel_graph(model, shape)
    one = transform_network(model, symmetry, b, input_shape=shape, graph=graph)
    two = transform_network(one, symmetry, a, input_shape=shape, graph=graph)
    product = transform_network(model, symmetry, int(symmetry.group.compose(a, b)), input_shape=shape, graph=graph)
    for (name, p), q in zip(two.named_parameters(), product.parameters(), strict=True):
        assert torch.equal(p, q), name


def test_colors_are_moved_too():
    swap = Symmetry.from_maps(Cyclic(2), [lambda x: x, lambda x: x.flip(1, 3)], name="swap and flip")
    for model in (nets.vgg().double(), nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 4)).double()):
        x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
        moved = transform_network(model, swap, 1, input_shape=(3, 8, 8))
        torch.testing.assert_close(moved(swap.apply(1, x)), model(x), atol=1e-12, rtol=0)


def test_rows_and_columns_of_different_numbers():
    model = nn.Sequential(nn.Conv2d(1, 4, (3, 1)), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 8, 3)).double()
    x = torch.randn(2, 1, 6, 8, dtype=torch.float64)
    for name, dim in (("hflip", 3), ("vflip", 2)):
        moved = transform_network(model, name, 1, input_shape=(1, 6, 8))
        torch.testing.assert_close(moved(x.flip(dim)), model(x), atol=1e-12, rtol=0)
    with pytest.raises(InputError, match="square images for quarter turns; got 6 x 8"):
        transform_network(model, "c4", 1, input_shape=(1, 6, 8))
    tall = nn.Sequential(nn.Conv2d(1, 4, (3, 1), padding=(1, 0)), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    with pytest.raises(InputError, match="on different axes"):
        transform_network(tall, "c4", 1, input_shape=(1, 6, 6))


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(InputError, match="filters along an axis that is not known"):
        transform_network(nets.Odd(kind="cumsum"), "hflip", 1, input_shape=(3, 8, 8))
    shift = Symmetry.from_maps(Cyclic(5), [lambda x, k=k: x.roll(k, 3) for k in range(5)], name="shift")
    with pytest.raises(InputError, match="element 1 of shift"):
        transform_network(nets.vgg(), shift, 1, input_shape=(3, 5, 5))


def test_even_widths_and_stride_two():
    model = nets.torchvision().models.resnet18(weights=None).eval()
    report = stride_artifacts(model, (3, 224, 224), "hflip")
    assert report.better == (225, 225)
    assert [a.layer for a in report.artifacts][:3] == ["conv1", "maxpool", "layer2.0.conv1"]
    assert report.artifacts[0].input_size == (224, 224)
    assert len(report.artifacts) == 8
    assert "use 225 x 225" in str(report)
    assert not stride_artifacts(model, (3, 225, 225), "hflip")


@pytest.mark.parametrize("size", [8, 9, 10, 11, 12, 13])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(1, 1, 3, 2, 1),
        nn.Conv2d(1, 1, 3, 3, 1),
        nn.Conv2d(1, 1, 2, 2),
        nn.Conv2d(1, 1, 3, 2, 2, dilation=2),
        nn.MaxPool2d(3, 2, 1),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False),
        nn.ConvTranspose2d(1, 1, 3, 2, 1, output_padding=1),
        nn.ConvTranspose2d(1, 1, 3, 2, 1),
        nn.ZeroPad2d((1, 0, 0, 0)),
        nn.Upsample(scale_factor=2),
        nn.Upsample(size=15),
        nn.AdaptiveAvgPool2d(3),
    ],
    ids=str,
)
def test_the_rule_agrees_with_the_layer(layer, size):
    """A layer is reported exactly if the mirrored layer on mirrored input gives something else."""
    x = torch.randn(2, 1, size, size, dtype=torch.float64)
    layer = layer.double()
    flipped = copy.deepcopy(layer)
    for p in flipped.parameters():
        p.data = p.data.flip(-1) if p.dim() == 4 else p.data
    commutes = torch.allclose(flipped(x.flip(3)), layer(x).flip(3), atol=1e-12)
    assert bool(stride_artifacts(layer, (1, size, size), "hflip")) == (not commutes)


class Sliced(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.start = start

    def forward(self, x):
        return F.relu(x[:, :, :, self.start :: 2])


def test_slices():
    assert stride_artifacts(Sliced(0), (1, 8, 8), "hflip").better == (7, 7)
    assert not stride_artifacts(Sliced(0), (1, 9, 9), "hflip")
    assert not stride_artifacts(Sliced(1), (1, 9, 9), "hflip")
    assert stride_artifacts(Sliced(1), (1, 8, 8), "hflip")
    assert not stride_artifacts(Sliced(0), (1, 8, 8), "vflip")


def test_unequal_strides_do_not_turn():
    model = nn.Conv2d(1, 2, 3, (1, 2), 1)
    assert not stride_artifacts(model, (1, 9, 9), "flips")
    report = stride_artifacts(model, (1, 9, 9), "c4")
    assert report.artifacts[0].reason == "rows and columns are sampled differently"
    assert report.better is None
    with pytest.raises(InputError, match="runs on images of this shape"):
        stride_artifacts(nets.vgg(), (4, 8, 8), "hflip")
