"""Averages of networks: batch norm reset, REPAIR, barriers, and diagnostics, against slow or obvious twins."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.measure import (
    accuracy,
    barrier,
    channel_graph,
    gcnn_barrier,
    match,
    match_networks,
    merge,
    parse_symmetry,
    permute,
    repair,
)
from intertwine.measure.graph._permute import random_permutations
from intertwine.measure.surgery import filter_pairs, variance_collapse
from intertwine.measure.surgery._barrier import (
    Barrier,
    _without_matching,
    interpolation_curve,
    kernel_residuals,
    moved_and_matched,
)
from intertwine.measure.surgery._batch_statistics import Spread
from intertwine.measure.surgery._merge import reset_batch_norms
from intertwine.measure.surgery._repair import (
    channel_statistics,
    filter_layers,
    repair_closed_form,
    restored_layers,
    statistics,
)
from tests.measure import nets
from tests.measure.matching.test_matching import symmetric_vgg


def labeled(model, n=200, shape=(3, 8, 8)):
    x = torch.randn(n, *shape)
    with torch.no_grad():
        return x, model(x).argmax(1)


@pytest.mark.parametrize("norm", [False, True])
def test_a_network_merged_with_a_permuted_copy_of_itself(norm):
    model = nets.vgg(norm=norm).eval()
    test = labeled(model)
    graph = channel_graph(model, (3, 8, 8))
    other = permute(model, random_permutations(graph, seed=5), graph=graph)
    assert accuracy(other, test) == 1.0
    score = lambda m: accuracy(m, test)  # noqa: E731
    assert barrier(model, other, score).absolute > 0.05, "unmatched, the average is another network"
    _, permutations = match_networks(model, other, test[0], graph=graph)
    back = permute(other, permutations, graph=graph)
    matched = barrier(model, back, score)
    assert (matched.first, matched.second, matched.merged) == (1.0, 1.0, 1.0)
    assert matched.relative == 0.0
    curve = interpolation_curve(model, back, score, points=[0.0, 0.3, 1.0])
    assert curve == [(0.0, 1.0), (0.3, 1.0), (1.0, 1.0)]
    for name, p in merge([model, back]).named_parameters():
        torch.testing.assert_close(p, model.get_parameter(name), atol=1e-6, rtol=0)


def test_weighted_merge_and_errors():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    mixed = merge([a, b], weights=[0.25, 0.75])
    torch.testing.assert_close(mixed.weight, 0.25 * a.weight + 0.75 * b.weight)
    with pytest.raises(InputError, match="a difference at weight"):
        merge([a, nn.Linear(3, 2)])
    with pytest.raises(InputError, match="2 networks and 1 weights"):
        merge([a, b], weights=[1.0])
    with pytest.raises(InputError, match="images and labels"):
        accuracy(a, torch.randn(2, 1, 2, 2))


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e25])
def test_the_spread_against_float64(axis, scale):
    """Sums over positions in float32 are as good as float64, also far from zero and outside the range of squares."""
    y = scale * (torch.randn(6, 5, 7, 4) + torch.tensor([0.0, 1.0, 100.0, -1000.0])[:4])
    y[:, 2] = 3.7 * scale  # a channel that does not vary
    spread = Spread.of(y, axis % 4)
    rows = y.double().movedim(axis, 0).flatten(1)
    assert spread.count == rows.shape[1]
    torch.testing.assert_close(spread.mean, rows.mean(1), rtol=1e-7, atol=1e-6 * scale)
    torch.testing.assert_close(spread.variance, rows.var(1), rtol=1e-6, atol=1e-9 * scale**2)


def test_batch_norms_measured_anew():
    model = nets.vgg(norm=True)
    model.add_module("drop", nn.Dropout(0.9))
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.fill_(7), m.running_var.fill_(9)
    x = torch.randn(60, 3, 8, 8)
    reset = reset_batch_norms(model, x, batch_size=20)
    assert not any(m.training for m in reset.modules())
    assert model[1].running_mean[0] == 7, "the network itself is left alone"
    y = model[0](x)
    torch.testing.assert_close(reset[1].running_mean, y.mean((0, 2, 3)), atol=1e-5, rtol=1e-4)
    wanted = torch.stack([part.var((0, 2, 3)) for part in y.split(20)]).mean(0)
    torch.testing.assert_close(reset[1].running_var, wanted, atol=1e-5, rtol=1e-4)
    assert reset[1].momentum == 0.1
    plain = nets.vgg()
    assert torch.equal(reset_batch_norms(plain, x)[0].weight, plain[0].weight)


def test_repair_gives_the_statistics_of_the_ends():
    a, b = nets.vgg(12).eval(), nets.vgg(12).eval()
    x = torch.randn(100, 3, 8, 8)
    middle = merge([a, b])
    names = filter_layers(middle, x)
    assert names == ["0", "3"]
    fixed = repair(middle, [a, b], x, batch_size=100)
    goal = [channel_statistics(m, x, names, batch_size=100) for m in (a, b)]
    statistics = channel_statistics(fixed, x, names, batch_size=100)
    before = channel_statistics(middle, x, names, batch_size=100)
    for name in names:
        for k in (0, 1):
            mean = (goal[0][name][k] + goal[1][name][k]) / 2
            torch.testing.assert_close(statistics[name][k], mean, atol=2e-3, rtol=2e-3)
        assert not torch.allclose(before[name][1], mean, atol=2e-3, rtol=2e-3)
    assert [type(m) for m in fixed] == [type(m) for m in middle]
    ratios = variance_collapse(middle, [a, b], x)
    assert all(r < 0.8 for r in ratios.values()), "unmatched filters average out"
    assert all(0.8 < r < 1.2 for r in variance_collapse(fixed, [a, b], x).values())


def test_repair_of_a_network_with_itself_changes_nothing():
    model = nets.vgg(12).eval()
    x = torch.randn(100, 3, 8, 8)
    fixed = repair(model, [model, copy.deepcopy(model)], x, batch_size=100)
    torch.testing.assert_close(fixed(x), model(x), atol=1e-3, rtol=1e-2)
    graph = channel_graph(model, (3, 8, 8))
    ones = {g.name: torch.ones(g.size) for g in graph.groups}
    closed = repair_closed_form(model, [model, model], x, graph=graph, correlations=ones)
    torch.testing.assert_close(closed(x), model(x), atol=1e-5, rtol=1e-4)


def test_the_closed_form_on_linear_units_is_exact_in_the_first_layer():
    """There the correlation of units is the true one, so the standard deviation is met."""
    a, b = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Flatten(), nn.Linear(216, 2)), None
    b = copy.deepcopy(a)
    b[0].weight.data += 0.1 * torch.randn_like(b[0].weight)
    x = torch.randn(200, 3, 8, 8)
    rows = [m[0](x).movedim(1, 0).flatten(1) for m in (a, b)]
    r = torch.stack([torch.corrcoef(torch.stack([p, q]))[0, 1] for p, q in zip(*rows, strict=True)]).detach()
    graph = channel_graph(a, (3, 8, 8))
    fixed = repair_closed_form(merge([a, b]), [a, b], x, graph=graph, correlations={"0": r})
    wanted = (rows[0].std(1) + rows[1].std(1)) / 2
    torch.testing.assert_close(fixed[0](x).movedim(1, 0).flatten(1).std(1), wanted, atol=1e-4, rtol=1e-3)


def test_the_closed_form_finds_the_correlations_of_channels_that_lie_apart():
    model = nets.Residual(option_a=True, norm=False).eval()
    x = torch.randn(50, 3, 9, 9)
    graph = channel_graph(model, (3, 9, 9))
    r = {g.name: torch.ones(g.size) for g in graph.groups}
    r["b2"] = torch.tensor([1.0, 1.0, 1.0, -0.5, 0.0, 0.5])
    fixed = repair_closed_form(model, [model, model], x, graph=graph, correlations=r)
    scale = (fixed.b2.weight / model.b2.weight).mean((1, 2, 3))
    expected = torch.tensor([1.0] * 9 + [0.25, 0.5, 0.75]).rsqrt()  # σ is met if it is √((1 + r) / 2) of its goal
    torch.testing.assert_close(scale, expected, atol=1e-4, rtol=1e-4)


def test_repair_behind_residual_blocks():
    torch.manual_seed(1)
    vision = nets.torchvision()
    block = vision.models.resnet.BasicBlock
    models = [vision.models.ResNet(block, [1, 1, 1, 1], num_classes=4).eval() for _ in range(2)]
    x = torch.randn(40, 3, 33, 33)
    models = [reset_batch_norms(m, x) for m in models]
    graph = channel_graph(models[0], (3, 33, 33))
    assert graph.blocks == ("layer1.0", "layer2.0", "layer3.0", "layer4.0")
    fixed = repair(merge(models), models, x, blocks=graph.blocks)
    goal = [channel_statistics(m, x, ["layer1.0"]) for m in models]
    mean, std = channel_statistics(fixed, x, ["layer1.0"])["layer1.0"]
    torch.testing.assert_close(mean, (goal[0]["layer1.0"][0] + goal[1]["layer1.0"][0]) / 2, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(std, (goal[0]["layer1.0"][1] + goal[1]["layer1.0"][1]) / 2, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("name", ["hflip", "c4"])
def test_an_equivariant_network_has_no_barrier(name):
    symmetry = parse_symmetry(name)
    model, _, _ = symmetric_vgg(symmetry)
    test = labeled(model)
    barriers = gcnn_barrier(model, test[0], symmetry, test)
    assert barriers.untouched.absolute == pytest.approx(0, abs=0.011)
    assert barriers.repaired.absolute == pytest.approx(0, abs=0.02)
    assert barriers.reset is None
    matching = match(model, torch.cat([symmetry.apply(g, test[0]) for g in range(symmetry.order)]), symmetry)
    residuals = kernel_residuals(model, matching)
    assert max(residuals.values()) < 1e-4
    first, second = filter_pairs(model, matching, "0.weight")
    torch.testing.assert_close(first, second, atol=1e-5, rtol=0)


def test_the_control_is_the_barrier_with_every_channel_as_its_own_partner():
    symmetry = parse_symmetry("hflip")
    model, _, _ = symmetric_vgg(symmetry)
    test = labeled(model)
    barriers = gcnn_barrier(model, test[0], symmetry, test)
    still = match(model, test[0], symmetry, method="identity")
    identity = gcnn_barrier(model, test[0], symmetry, test, matching=still, control=False)
    assert barriers.unmatched == identity.repaired
    assert identity.unmatched is None
    assert barriers.unmatched.absolute > barriers.repaired.absolute + 0.03, "matching is what removes this barrier"


@pytest.mark.parametrize("name", ["plain", "norms", "blocks"])
def test_the_passes_that_barriers_share_against_one_pass_each(name):
    torch.manual_seed(0)
    model = {"plain": nets.vgg, "norms": lambda: nets.vgg(norm=True), "blocks": nets.blocks}[name]().eval()
    x, test = torch.randn(40, 3, 8, 8), labeled(model)
    matching = match(model, x, "hflip", constrained=False)
    barriers = gcnn_barrier(model, x, "hflip", test, matching=matching)
    still = match(model, x, "hflip", method="identity")
    blocks = matching.graph.blocks
    assert bool(blocks) == (name == "blocks")
    for pairs, ours in ((matching, barriers.repaired), (still, barriers.unmatched)):
        other = moved_and_matched(model, pairs, 1)
        fixed = repair(merge([model, other]), [model, other], x, blocks=blocks)
        assert ours.merged == accuracy(fixed, test)
    other = moved_and_matched(model, matching, 1)
    middle = merge([model, other])
    assert barriers.plain.merged == accuracy(reset_batch_norms(middle, x), test)
    assert barriers.untouched.merged == accuracy(middle, test)
    if barriers.reset is not None:
        assert barriers.reset == tuple(accuracy(reset_batch_norms(m, x), test) for m in (model, other))
    known = gcnn_barrier(
        model, x, "hflip", test, matching=matching, untouched=False, right=model(test[0]).argmax(1) == test[1]
    )
    assert known.untouched is None
    assert (known.plain, known.repaired) == (barriers.plain, barriers.repaired)
    # What is found by permuting is what the moved network would show itself.
    names = restored_layers(model, x, blocks)
    direct = statistics(moved_and_matched(model, still, 1), x, names).channels
    for layer, pair in _without_matching(model, statistics(other, x, names), matching, 1).channels.items():
        torch.testing.assert_close(pair, direct[layer], rtol=1e-5, atol=1e-5)


def test_the_interval_of_a_barrier_covers_it_about_as_often_as_it_says():
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(100):
        hits = torch.rand(3, 200, generator=generator) < torch.tensor([0.9, 0.9, 0.6])[:, None]
        low, high = Barrier.of_hits(*hits.double()).interval
        covered += low <= 1 / 3 <= high
    assert 88 <= covered <= 100


def test_a_network_without_symmetry_has_one():
    model = nets.vgg(norm=True).eval()
    test = labeled(model)
    barriers = gcnn_barrier(model, test[0], "hflip", test)
    assert barriers.untouched.absolute > 0.05
    assert barriers.reset is not None
    assert barriers.plain.first == 1.0
    assert barriers.after_reset.merged == barriers.plain.merged
    assert (barriers.after_reset.first, barriers.after_reset.second) == barriers.reset
    low, high = barriers.repaired.interval
    assert low <= barriers.repaired.relative <= high
    residuals = kernel_residuals(model, barriers.matching)
    assert set(residuals) == {"0.weight", "4.weight", "9.weight"}
    assert min(residuals.values()) > 0.1
