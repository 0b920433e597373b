"""The layerwise refit and the width: exact at every point, from the merged network to the average over the group."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from intertwine.data import load
from intertwine.errors import InputError
from intertwine.measure import accuracy, channel_graph, invariance_error, match, parse_symmetry, symmetrize
from intertwine.measure.graph._permute import full_state
from intertwine.measure.matching._moments import lockstep
from intertwine.measure.surgery import _refit
from intertwine.measure.surgery._layout import chosen_layouts
from intertwine.measure.surgery._least_squares import LinearMoments, Relabeling
from intertwine.measure.surgery._refit import Run
from intertwine.measure.surgery._schedule import Program
from intertwine.train import tune
from tests.measure import nets


class Block(nn.Module):
    """A residual block with a shortcut that cuts and pads, as in the first ResNets."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential() if stride == 1 else Cut((after - before) // 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return self.relu(y)


class Cut(nn.Module):
    def __init__(self, pad: int) -> None:
        super().__init__()
        self.pad = pad

    def forward(self, x):
        return nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))


def resnet(classes: int = 10) -> nn.Module:
    stem = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
    return nn.Sequential(
        *stem, Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, classes),
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained():
    """A small ResNet after a few epochs on mirrored digits, and the digits."""
    data = load("digits").normalized()
    (x, labels), test = data.train.as_tensors(), data.test.as_tensors()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = resnet()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(8):
            for part in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                mirrored = torch.where(torch.rand(len(part), 1, 1, 1) < 0.5, x[part].flip(3), x[part])
                nn.functional.cross_entropy(model(mirrored), labels[part]).backward()
                optimizer.step()
    return model.eval(), x[:400], test


def group_average(model, symmetry, x):
    with torch.no_grad():
        return torch.stack([model(symmetry.apply(g, x)) for g in range(symmetry.order)]).mean(0)


def test_refitting_wins_back_what_merging_costs(trained):
    model, x, test = trained
    matching = match(model, x, "hflip")

    def score(**options):
        return accuracy(symmetrize(model, x, "hflip", matching=matching, **options).model, test)

    scores = {
        "original": accuracy(model, test),
        "merged": score(refit=False),
        **{w: score(width=w) for w in (1.0, 1.5, 2.0)},
    }
    assert scores["original"] > 0.85
    assert scores["merged"] < scores["original"] - 0.05
    assert scores[1.0] > scores["merged"] + 0.03
    assert scores[1.5] > scores["original"] - 0.03
    assert scores[2.0] > scores["original"] - 0.02


@pytest.mark.parametrize("width", [1.0, 1.5])
def test_orbits_may_lie_on_both_sides_of_a_padded_shortcut(width):
    """On odd sizes the shortcut stays as it is, so the number of channels on each side cannot change."""
    model, x = nets.Padded().eval(), torch.randn(60, 3, 9, 9)
    matching = match(model, x, "hflip")
    matching.permutations[1]["b2"] = torch.arange(8).roll(4)
    matching.permutations[1]["a2"] = torch.tensor([3, 1, 2, 0])
    twin = symmetrize(model, x, "hflip", matching=matching, width=width)
    assert twin.error < 1e-12
    assert twin.windows == ()
    assert twin.fields["b2"] == {2: 4}
    assert twin.fields["a2"] == {1: 2, 2: 1}
    assert (len(twin.model.b1.weight) > 7) == (width > 1)
    weight = twin.model.b2.weight
    torch.testing.assert_close(weight.sum((1, 2, 3))[:4], weight.sum((1, 2, 3))[12:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("symmetry", ["hflip", pytest.param("c4", marks=pytest.mark.slow), "d4"])
def test_every_width_is_exact_and_keeps_the_budget(trained, symmetry):
    model, x, _ = trained
    order = parse_symmetry(symmetry).order
    channels, parameters = [], []
    for width in (1.0, (1 + order) / 2):
        twin = symmetrize(model, x[:100], symmetry, width=width)
        assert twin.error < 1e-12
        assert invariance_error(twin.model, x[:50], symmetry).mean < 1e-5
        sizes = {name: sum(size * n for size, n in fields.items()) for name, fields in twin.fields.items()}
        assert sizes["3.conv1"] == len(twin.model[3].conv1.weight) == len(twin.model[3].bn1.running_mean)
        channels.append(sum(sizes.values()))
        assert channels[-1] <= width * channels[0]
        parameters.append(sum(p.numel() for p in twin.model.parameters()))
    assert channels[0] == 8 * 2 + 16 * 3
    assert channels[0] < channels[1]
    assert parameters[0] < parameters[1]


@pytest.mark.parametrize("symmetry", ["hflip", pytest.param("c4", marks=pytest.mark.slow), "d4"])
@pytest.mark.parametrize("name", ["strided", "flat", "projection", "images"])
def test_the_full_width_is_the_average_over_the_group(name, symmetry):
    torch.manual_seed(0)
    model, shape = {
        "strided": (resnet(), (1, 8, 8)),
        "flat": (nets.vgg(4, norm=True), (3, 8, 8)),
        "projection": (nets.Residual(option_a=False), (3, 8, 8)),
        "images": (nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)), (3, 8, 8)),
    }[name]
    model, symmetry = model.double().eval(), parse_symmetry(symmetry)
    x = torch.randn(12, *shape, dtype=torch.float64)
    twin = symmetrize(model, x, symmetry, width=symmetry.order)
    if name == "images":
        moves = [symmetry.require_axis_move(g, caller="test") for g in range(symmetry.order)]
        wanted = torch.stack([m.inverse(model(m(x))) for m in moves]).mean(0)
    else:
        wanted = group_average(model, symmetry, x)
    torch.testing.assert_close(twin.model(x), wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("make", [lambda: nets.vgg(6), lambda: nets.vgg(6, norm=True), nets.Dense, nets.ChannelsLast])
def test_refitting_brings_the_outputs_closer_to_the_average(make):
    """Even of random weights, on images that were not used."""
    torch.manual_seed(0)
    symmetry, model = parse_symmetry("hflip"), make().eval()
    x = torch.randn(500, 3, 8, 8).cumsum(2).cumsum(3) / 8
    wanted = group_average(model, symmetry, x[400:])
    wanted = wanted - wanted.mean(0)

    matching = match(model, x[:400], symmetry)

    def gap(**options):
        with torch.no_grad():
            out = symmetrize(model, x[:400], symmetry, matching=matching, **options).model(x[400:])
        return float((out - out.mean(0) - wanted).norm() / wanted.norm())

    fitted = gap()
    assert fitted < 0.8 * gap(refit=False)
    assert gap(width=1.6) < fitted + 0.02


def test_it_repeats_by_seed_and_reports_its_progress(trained):
    model, x, _ = trained
    calls = []
    options = {"width": 1.2, "batch_size": 50}
    first = symmetrize(model, x[:100], "hflip", progress=lambda *call: calls.append(call), **options)
    again = symmetrize(model, x[:100], "hflip", **options)
    assert all(
        torch.equal(a, b)
        for a, b in zip(full_state(first.model).values(), full_state(again.model).values(), strict=True)
    )
    other = symmetrize(model, x[:100], "hflip", seed=1, **options)
    assert not torch.equal(first.model[3].conv1.weight, other.model[3].conv1.weight)
    total = calls[0][1]
    assert [call[0] for call in calls] == list(range(total + 1))
    assert "3.conv1" in {call[2] for call in calls}


def test_the_network_trains_and_exports(trained):
    model, x, test = trained
    twin = symmetrize(model, x, "hflip", width=1.2)
    kept = copy.deepcopy(twin.model)
    better = tune(twin, test, lr=1e-3, epochs=1)
    assert invariance_error(better.model, x, "hflip").mean < 1e-5
    assert not torch.allclose(better.model(x), kept(x), atol=1e-3)
    program = torch.export.export(twin.model, (x[:2],)).module()
    torch.testing.assert_close(program(x[:2]), twin.model(x[:2]))
    twin.model.train()
    assert twin.model(x[:50]).shape == (50, 10)
    # In training mode the norms see the statistics that they were given.
    torch.testing.assert_close(twin.model.train()(x), twin.model.eval()(x), atol=1.0, rtol=0.5)


def test_no_width_outside_one_and_the_order_of_the_group():
    model, x = nets.vgg(), torch.randn(20, 3, 8, 8)
    for width in (0.5, 2.5, float("nan")):
        with pytest.raises(InputError, match="a width from 1 to 2"):
            symmetrize(model, x, "hflip", width=width)


def test_orbits_that_match_worst_stay_apart():
    model, x = nets.vgg(8), torch.randn(40, 3, 8, 8)
    matching = match(model, x, "hflip")
    layouts = chosen_layouts(matching, 1.3)
    scores: dict[bool, list[float]] = {True: [], False: []}
    for name, layout in layouts.items():
        merged = set(layout.source[0][layout.copy < 0].tolist())
        for channel, value in enumerate(matching.correlations[1][name].tolist()):
            scores[channel in merged].append(value)
    assert max(scores[False]) < sum(scores[True]) / len(scores[True])
    assert chosen_layouts(matching, 1.0)["0"].size == 8


def test_moments_are_those_of_all_moved_samples():
    """Samples moved by hand, and a solution in closed form."""
    torch.manual_seed(0)
    x, t = torch.randn(60, 2, 3, dtype=torch.float64), torch.randn(60, 4, dtype=torch.float64)
    moved = Relabeling(torch.tensor([2, 3, 0, 1]), torch.tensor([1, 0]), torch.tensor([[2, 1, 0], [2, 1, 0]]))
    still = Relabeling(torch.arange(4), torch.arange(2), torch.arange(3).expand(2, -1))
    one, both = LinearMoments(2, 3, 4), LinearMoments(2, 3, 4)
    one.add(x, t)
    both.add(x, t)
    both.add(x[:, [1, 0]][:, :, [2, 1, 0]], t[:, [2, 3, 0, 1]])
    mean = one.averaged([still, moved])
    torch.testing.assert_close(mean.xx, both.xx / both.count)
    torch.testing.assert_close(mean.tx, both.tx / both.count)
    weight, bias = mean.solution(torch.zeros(4, 3), ridge=0.0, with_bias=True)
    ones = torch.ones(120, 1, dtype=torch.float64)
    stacked = torch.cat([torch.cat([x, x[:, [1, 0]][:, :, [2, 1, 0]]])[:, 0], ones], 1)
    wanted = torch.linalg.lstsq(stacked, torch.cat([t, t[:, [2, 3, 0, 1]]])[:, :2]).solution
    torch.testing.assert_close(torch.cat([weight[:2], bias[:2, None]], 1), wanted.T, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(weight[:2], weight[2:].flip(1), atol=1e-9, rtol=0)


def test_the_program_that_is_refitted_changes_no_value():
    """relu_ and += become operations that leave their inputs as they are, with the same outputs."""
    torch.manual_seed(0)
    model, x = resnet().eval(), torch.randn(6, 1, 8, 8)
    graph = channel_graph(model, (1, 8, 8))
    program = Program(graph)
    assert not any(getattr(n.target, "_schema", None) and n.target._schema.is_mutable for n in program.nodes)
    run = Run(program, full_state(model), [x[:4], x[4:]])
    seen = []
    for k in program.order[:-1]:
        run.advance(k)
        node = program.nodes[k]
        if node.op == "call_function" and node is program.nodes[-1].args[0][0]:
            seen = [run.at(k, b) for b in range(2)]
    torch.testing.assert_close(torch.cat(seen), model(x))
    *_, (_, (wanted,)) = lockstep(graph, [full_state(model)], x, set())
    torch.testing.assert_close(torch.cat(seen), wanted)
    fits = program.fits()
    assert [f.layer for f in fits][:3] == ["0", "3.conv1", "3.conv2"]
    assert next(f for f in fits if f.layer == "3.conv2").other is not None, "corrects the sum"
    assert len(fits) == 8


def test_feature_maps_stay_within_memory(monkeypatch):
    """Fewer images are used if their feature maps do not fit; the peak is what a run keeps."""
    model, x = resnet().eval(), torch.randn(30, 1, 8, 8)
    program = Program(channel_graph(model, (1, 8, 8)))
    run, highest = Run(program, full_state(model), [x]), 0
    for k in program.order:
        run.advance(k)
        highest = max(highest, sum(v.numel() for v in run.values[0].values() if isinstance(v, torch.Tensor)))
    assert highest <= 30 * program.peak() <= 2 * highest
    seen = []
    monkeypatch.setattr(Run, "__init__", lambda self, p, s, images, init=Run.__init__: (
        seen.append(sum(map(len, images))), init(self, p, s, images))[1])  # fmt: skip
    monkeypatch.setattr(_refit, "MEMORY", 4 * 10 * 3 * program.peak())
    twin = symmetrize(model, x, "hflip", batch_size=8)
    assert twin.error < 1e-12
    assert len(seen) == 3
    assert all(8 <= n <= 11 for n in seen)
