"""Which channels move together: by tracing, on every kind of wiring, checked by the output of the permuted network."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.measure import channel_graph, permute
from intertwine.measure.graph._permute import full_state, random_permutations, require_preserved, with_state
from intertwine.models import LeNet5, SimpleNet, multilayer_perceptron, plain_cnn
from tests.measure import nets

SMALL = {
    "vgg": (lambda: nets.vgg(), (3, 8, 8), [8, 16]),
    "vgg-bn": (lambda: nets.vgg(norm=True), (3, 8, 8), [8, 16]),
    "projection": (lambda: nets.Residual(option_a=False), (3, 8, 8), [6, 5, 9, 12]),
    # The stem's 6 channels run through all stages; the 3 + 3 padded ones of the last stage are on their own.
    "option-a": (lambda: nets.Residual(option_a=True), (3, 8, 8), [6, 5, 9, 6]),
    "padded": (nets.Padded, (3, 9, 9), [4, 6, 4, 7, 8]),
    # Channels that a norm counts apart, that are sliced, or that meet different numbers, are not exchanged.
    "padded, norm": (lambda: nets.Padded("norm"), (3, 9, 9), [2, 2, 6, 2, 2, 7, 4, 4]),
    "padded, front": (lambda: nets.Padded("front"), (3, 9, 9), [4, 6, 4, 7, 4, 4]),
    "padded, numbers": (lambda: nets.Padded("numbers"), (3, 9, 9), [4, 6, 4, 7, 4, 4]),
    "padded, twice": (lambda: nets.Padded("twice"), (3, 9, 9), [4, 6, 4, 7, 8, 8]),
    # 8 + 4 in the concatenation, cut further by the 4 groups of 3 inputs, the group norm, and the cut 9 + 5
    "dense": (nets.Dense, (3, 8, 8), None),
    "channels-last": (nets.ChannelsLast, (3, 8, 8), [8, 20]),
    "tokens": (nets.Tokens, (3, 8, 8), [8, 6, 7, 9]),
    "grouped-up": (nets.GroupedUp, (3, 8, 8), [4, 4, 6, 6]),
    "tied": (nets.Tied, (5,), [7]),
    "mlp": (lambda: multilayer_perceptron(1, 6, 4, hidden=11), (1, 6, 6), [11]),
    "lenet": (lambda: LeNet5(1, 12, 10), (1, 12, 12), [6, 16, 120, 84]),
    "plain-cnn": (lambda: plain_cnn(1, 10, widths=(4, 5, 6)), (1, 8, 8), [4, 5, 6]),
    "simple": (lambda: SimpleNet(1, 12, 4, width=6), (1, 12, 12), [6, 6, 6]),
}


@pytest.mark.parametrize("name", SMALL)
def test_permuting_preserves_the_output(name):
    make, shape, sizes = SMALL[name]
    model = make().eval()
    graph = channel_graph(model, shape)
    assert graph.untraced == ()
    if sizes is not None:
        assert [g.size for g in graph.groups] == sizes
    assert 0 <= require_preserved(model, graph, shape) <= 1e-10
    x = torch.randn(3, *shape)
    other = permute(model, random_permutations(graph, seed=1), graph=graph)
    changed = [n for n, p in model.named_parameters() if not torch.equal(p, other.get_parameter(n))]
    assert changed, "something must have moved"
    torch.testing.assert_close(other(x), model(x), atol=1e-5, rtol=1e-4)


def _exchanged(model, graph, i, j):
    """A copy of the network with channels i and j of its last residual stream exchanged."""
    order = torch.arange(16)
    order[[i, j]] = order[[j, i]]
    state = full_state(model)
    stream = graph.axes["norm2.weight"][0]
    for name, label in graph.axes.items():
        for k, axis in enumerate(label):
            if axis == stream:
                state[name] = state[name].index_select(k, order)
    return with_state(model, state)


def test_channels_that_meet_the_zeros_of_a_padding_are_one_group():
    model = nets.Padded().eval().double()
    graph = channel_graph(model, (3, 9, 9))
    assert graph.describe("head.weight") == "(f4) (b2:4 + a2:2 + stem:4 + a2:2 + b2:4)"
    x = torch.randn(3, 3, 9, 9, dtype=torch.float64)
    with torch.no_grad():
        expected = model(x)
        swapped = permute(model, {"b2": torch.arange(8).roll(4), "a2": torch.tensor([2, 1, 0, 3])}, graph=graph)
        order = [12, 13, 14, 15, 10, 5, 6, 7, 8, 9, 4, 11, 0, 1, 2, 3]
        assert torch.equal(swapped.b2.weight, model.b2.weight[order])
        torch.testing.assert_close(swapped(x), expected, atol=1e-12, rtol=0)
        torch.testing.assert_close(_exchanged(model, graph, 1, 14)(x), expected, atol=1e-12, rtol=0)
        # A channel that meets zeros and one that meets another channel are not alike.
        assert (_exchanged(model, graph, 1, 5)(x) - expected).abs().max() > 1e-3


def test_every_group_is_really_free():
    """Moving one group alone changes weights on both of its sides, and never the input or output axes."""
    model, shape = nets.Dense().eval(), (3, 8, 8)
    graph = channel_graph(model, shape)
    x = torch.randn(2, *shape)
    for group in graph.groups:
        other = permute(model, {group.name: torch.arange(group.size).roll(1)}, graph=graph)
        assert not torch.equal(torch.cat([p.flatten() for p in other.parameters()]),
                               torch.cat([p.flatten() for p in model.parameters()]))  # fmt: skip
        torch.testing.assert_close(other(x), model(x), atol=1e-5, rtol=1e-4)


def test_axes_in_words():
    graph = channel_graph(nets.Tokens().eval(), (3, 8, 8))
    assert graph.describe("position") == "(f1) (f1 + h4·w4) (token:8)"
    assert graph.describe("patch.weight") == "(token:8) (i3) (h2) (w2)"
    assert graph.describe("mixer.2.weight") == "(f1 + h4·w4) (mixer.0:9)"
    assert graph.describe("head.weight") == "(f3) (token:8)"


def test_what_is_not_understood_is_named_and_pinned():
    model = nets.Odd(kind="cumsum").eval()
    graph = channel_graph(model, (3, 8, 8))
    assert [g.size for g in graph.groups] == [6]
    assert len(graph.untraced) == 1
    assert "network (cumsum)" in graph.untraced[0].where
    assert graph.untraced[0].channels == 8
    assert len(graph.lost) == 1, "behind an unknown operation, rows and columns are not known either"
    require_preserved(model, graph, (3, 8, 8))


def test_shuffled_channels_move_inside_their_half_and_with_it():
    model = nets.Odd(kind="shuffle").eval()
    graph = channel_graph(model, (3, 8, 8))
    assert [(g.size, g.heads is not None) for g in graph.groups] == [(2, False), (8, True), (6, False)]
    assert not graph.untraced
    require_preserved(model, graph, (3, 8, 8))


def test_the_check_refuses_a_wrong_graph():
    """A graph that forgets one consumer is caught, and the group is named."""
    model = nets.Residual(option_a=False).eval()
    graph = channel_graph(model, (3, 8, 8))
    del graph.axes["down.weight"]
    with pytest.raises(InputError, match="from stem"):
        require_preserved(model, graph, (3, 8, 8))


def test_the_check_is_not_fooled_by_zero_weights():
    model = nets.vgg().eval()
    for p in model.parameters():
        p.data.zero_()
    graph = channel_graph(model, (3, 8, 8))
    require_preserved(model, graph, (3, 8, 8))
    del graph.axes["3.weight"]
    with pytest.raises(InputError, match="preserve the output"):
        require_preserved(model, graph, (3, 8, 8))


def test_unfit_input():
    with pytest.raises(InputError, match=r"torch.export can trace on an input of shape \(2, 4, 8, 8\)"):
        channel_graph(nets.vgg(), (4, 8, 8))
    model = nets.vgg()
    graph = channel_graph(model, (3, 8, 8))
    with pytest.raises(InputError, match=r"permutations of 0 \(8\), 3 \(16\)"):
        permute(model, {"0": torch.tensor([0, 0, 1, 2, 3, 4, 5, 6])}, graph=graph)
    assert model.training, "the network is left in the mode it came in"


def test_unused_and_shared_parameters():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    model.extra = nn.Parameter(torch.randn(9))
    graph = channel_graph(model, (3, 8, 8))
    assert [g.size for g in graph.groups] == [4]
    assert 0 <= require_preserved(model, graph, (3, 8, 8)) < 1e-10


def test_every_group_has_a_place_to_watch():
    graph = channel_graph(nets.Residual(option_a=True).eval(), (3, 8, 8))
    assert all(graph.sites[g.name] for g in graph.groups)
    watched = graph.sites["stem"]
    # The stem's channels are seen at the stem, after the first block, and inside the padded stream of the last one.
    assert {s.runs for s in watched} == {((0, 6),), ((3, 6),)}
    assert {s.runs for s in graph.sites["b2"]} == {((0, 3), (9, 3))}
    assert {s.size for s in graph.sites["b2"]} == {6}
    assert all(s.axis == 1 for s in watched)


FOREIGN = [
    *(("torchvision", n, 64, 0) for n in ("resnet18", "resnet50", "vgg11", "vgg11_bn", "densenet121", "mobilenet_v2")),
    *(("torchvision", n, 64, 0) for n in ("mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "resnext50_32x4d")),
    *(("timm", n, 64, 0) for n in ("resnet18", "resnet50d", "densenet121", "mobilenetv3_small_100", "efficientnet_b0")),
    *(("timm", n, 64, 0) for n in ("convnext_tiny", "seresnet18", "regnety_002", "vgg11_bn", "resnetblur50")),
    ("timm", "mixer_s32_224", 224, 0),
    ("timm", "vit_tiny_patch16_224", 224, 0),
    ("torchvision", "shufflenet_v2_x0_5", 64, 16),
]


@pytest.mark.slow
@pytest.mark.parametrize(("library", "name", "size", "untraced"), FOREIGN)
def test_networks_from_elsewhere(library, name, size, untraced):
    vision = nets.torchvision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library == "timm":
            import timm

            model = timm.create_model(name).eval()
        else:
            model = getattr(vision.models, name)(weights=None).eval()
        graph = channel_graph(model, (3, size, size))
    assert len(graph.untraced) == untraced
    assert sum(g.size for g in graph.groups) > 1000
    assert 0 < require_preserved(model, graph, (3, size, size)) <= 1e-10


def test_one_network_from_elsewhere():
    model = nets.torchvision().models.resnet18(weights=None).eval()
    graph = channel_graph(model, (3, 32, 32))
    # stem with stage 1, three further stages, one private group in each of eight blocks
    assert [g.size for g in graph.groups] == [64, 64, 64, 128, 128, 128, 256, 256, 256, 512, 512, 512]
    assert len(graph.blocks) == 8
    assert 0 < require_preserved(model, graph, (3, 32, 32)) <= 1e-10
