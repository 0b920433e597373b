"""The network of the experiments on soft equivariance: its sizes, its symmetry, its gradients."""

from __future__ import annotations

import copy

import pytest
import torch

from intertwine.errors import InputError
from intertwine.models import SOFT_RESNETS, SoftResNet
from intertwine.relaxed import PartialGroupConv2d, SoftGroupConv2d, relaxation_penalty, relaxation_table

COUNTS = {
    "T(2) strict": (451898, 457748),
    "T(2) soft": (452282, 458132),
    "SE(2) strict": (451898, 457748),
    "SE(2) partial": (469615, 475465),
    "SE(2) soft": (469802, 475652),
    "E(2) strict": (469802, 475652),
    "E(2) partial": (469812, 475662),
}


@pytest.mark.parametrize("row", COUNTS)
def test_numbers_of_weights_are_the_published_ones(row):
    for classes, count in zip((10, 100), COUNTS[row], strict=True):
        net = SoftResNet(3, classes, **SOFT_RESNETS[row])
        assert sum(p.numel() for p in net.parameters()) == count


def test_the_published_count_line_by_line():
    net = SoftResNet(3, 10, **SOFT_RESNETS["SE(2) strict"])
    parts = {name: sum(p.numel() for p in m.parameters()) for name, m in net.named_modules()}
    assert parts["lift"] == 4320
    assert parts["blocks.0.first"] == parts["blocks.0.second"] == 34976
    assert parts["blocks.1.first"] == 68768
    assert parts["blocks.1.second"] == parts["last"] == 136352
    assert parts["blocks.1.shortcut"] == 35120
    assert "blocks.0.shortcut" not in parts
    assert parts["head"] == 650
    assert sum(parts[name] for name in ("first_norm", "blocks.0.norm", "blocks.1.norm", "last_norm")) == 384
    assert parts["blocks.0.inner"] == 0
    assert sum(p.numel() for p in SoftResNet(3, 10, **SOFT_RESNETS["SE(2) soft"]).blocks[0].shortcut.parameters()) == (
        17712 + 16
    )


def test_learned_frequencies_are_one_or_two_numbers_a_relaxed_layer():
    for row, more in (("SE(2) soft", 7), ("T(2) soft", 12)):
        counts = [
            sum(p.numel() for p in SoftResNet(3, 10, learn=learn, **SOFT_RESNETS[row]).parameters())
            for learn in (False, True)
        ]
        assert counts[1] - counts[0] == more


def test_angles_on_the_circle_cost_one_more_coordinate_per_angle():
    circle = {"angles": "circle"}
    for row, angles in (("SE(2) strict", 5 * 32 + 16), ("SE(2) soft", 2 * (5 * 32 + 2 * 16)), ("T(2) soft", 176)):
        net = SoftResNet(3, 10, **{**SOFT_RESNETS[row], **circle})
        assert sum(p.numel() for p in net.parameters()) == COUNTS[row][0] + angles


def test_frequencies_and_angles_reach_every_layer():
    for options in ({}, {"partial": True}, {"rotation_softness": 1.0}):
        net = small(net="fourier", frequency=0.5, rotation_frequency=2.0, angles="integer", samples=4, **options)
        layers = [m for m in net.modules() if isinstance(m, SoftGroupConv2d | PartialGroupConv2d)]
        assert {(m.frequency, m.rotation_frequency, m.angles) for m in layers} == {(0.5, 2.0, "integer")}, options


def small(**options):
    return SoftResNet(1, 3, width=2, hidden=4, kernel_size=3, **options)


@pytest.mark.parametrize("row", COUNTS)
def test_gradients_reach_every_weight(row):
    options = {"samples": 8, **SOFT_RESNETS[row]}
    net = small(learn=True, **options)
    net(torch.randn(4, 1, 17, 17)).square().sum().backward()
    # A single sample always has the relative angle 0; the bias in front of a norm has no effect at all.
    assert all(p.grad is not None for p in net.parameters())
    for name, p in net.named_parameters():
        if "softness" in name or "extent" in name:
            assert p.grad.abs().sum() > 0, name


def test_the_extents_and_frequencies_are_listed():
    net = small(samples=4, rotation_softness=0.5, learn=True)
    assert len(relaxation_table(net).rows) == 8
    assert float(relaxation_penalty(net, weight=2.0).detach()) == pytest.approx(2 * 7 * 0.25)


@pytest.mark.parametrize("samples", [4, 8])
def test_a_strict_network_cannot_tell_an_image_from_its_turn(samples):
    net = small(samples=samples, sampling="grid").double().eval()
    # Pooling by pairs keeps the center where sizes are even: 20, 10, 5.
    x = torch.randn(3, 1, 20, 20, dtype=torch.float64)
    with torch.no_grad():
        y = net(x)
        for quarters in (1, 2, 3):
            assert (net(x.rot90(quarters, (-2, -1))) - y).abs().max() < 1e-10 * y.abs().max()
        soft = small(samples=samples, sampling="grid", rotation_softness=1.0).double().eval()
        assert (soft(x.rot90(2, (-2, -1))) - soft(x)).abs().max() > 1e-4


def test_reflections():
    net = small(samples=8, mirrored=True, sampling="grid").double().eval()
    x = torch.randn(3, 1, 20, 20, dtype=torch.float64)
    with torch.no_grad():
        assert (net(x.flip(-1)) - net(x)).abs().max() < 1e-10
        plain = small(samples=8, sampling="grid").double().eval()
        assert (plain(x.flip(-1)) - plain(x)).abs().max() > 1e-4


def test_random_samples_repeat_by_seed_and_stay_in_evaluation_if_asked():
    x = torch.randn(2, 1, 16, 16)
    net = small(samples=4).eval()
    with torch.no_grad():
        torch.manual_seed(1)
        first = net(x)
        torch.manual_seed(1)
        assert torch.equal(net(x), first)
        assert not torch.equal(net(x), first)
        calm = small(samples=4, sampling="train").eval()
        assert torch.equal(calm(x), calm(x))
        other = copy.deepcopy(net).eval()
        torch.manual_seed(1)
        assert torch.equal(other(x), first)


def test_it_learns_which_way_is_up():
    torch.manual_seed(0)
    up = torch.zeros(16, 1, 16, 16)
    up[:, :, 3:6, 4:12] = 1
    up += 0.1 * torch.randn_like(up)
    x, labels = torch.cat([up, up.rot90(2, (-2, -1))]), torch.arange(2).repeat_interleave(16)
    accuracies = {}
    for name, options in {"strict": {}, "soft": {"rotation_softness": 1.0}}.items():
        torch.manual_seed(0)
        net = SoftResNet(1, 2, width=4, hidden=8, kernel_size=3, samples=4, sampling="grid", **options)
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        for _ in range(12):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), labels).backward()
            optimizer.step()
        with torch.no_grad():
            accuracies[name] = float((net(x).argmax(1) == labels).float().mean())
    assert accuracies["strict"] == 0.5
    assert accuracies["soft"] == 1.0


def test_bad_options_are_explained():
    with pytest.raises(InputError, match="partial or soft layers; got both"):
        small(partial=True, rotation_softness=1.0)
    with pytest.raises(InputError, match="separate samples for partial layers"):
        small(partial=True, tied=True)
    with pytest.raises(InputError, match="several samples"):
        small(partial=True, samples=1)
