"""Partial group convolution: the learned part of the circle, its gradient, its limits."""

from __future__ import annotations

import math

import pytest
import torch

from intertwine.errors import InputError
from intertwine.relaxed import Orientations, PartialGroupConv2d, SoftGroupConv2d, extent_penalty
from intertwine.relaxed._orientations import angle_and_mirror, from_angles, grid


def angles_of(samples: Orientations) -> torch.Tensor:
    return angle_and_mirror(samples.elements.detach())[0]


def test_the_whole_circle_is_the_strict_layer():
    partial = PartialGroupConv2d(2, 3, samples=8, kernel_size=3, hidden=8).double()
    strict = SoftGroupConv2d(2, 3, samples=8, kernel_size=3, hidden=8).double()
    strict.load_state_dict({k: v for k, v in partial.state_dict().items() if k != "extent"})
    x = torch.randn(1, 16, 7, 7, dtype=torch.float64)
    # Output angles start at −π instead of 0.
    assert (partial(x).unflatten(1, (3, 8)).roll(4, 2).flatten(1, 2) - strict(x)).abs().max() < 1e-10


@pytest.mark.parametrize(("extent", "count"), [(1.0, 8), (0.9, 8), (0.5, 4), (0.51, 5), (0.1, 1), (0.01, 1)])
def test_number_and_range_of_the_angles(extent, count):
    layer = PartialGroupConv2d(1, 1, samples=8, kernel_size=3, extent=extent, sampling="random")
    for _ in range(20):
        angles = angles_of(layer.draw())
        assert len(angles) == count
        assert angles.min() >= -math.pi * extent - 1e-6
        assert angles.max() <= math.pi * extent + 1e-6
        assert torch.allclose(angles.diff(), torch.full((count - 1,), 2 * math.pi * extent / count).double())


def test_the_draw_is_uniform_on_its_range():
    layer = PartialGroupConv2d(1, 1, samples=4, kernel_size=3, extent=0.5, sampling="random")
    angles = torch.cat([angles_of(layer.draw()) for _ in range(2000)]) / (math.pi * 0.5)
    assert abs(angles.mean()) < 0.05
    assert abs(angles.square().mean() - 1 / 3) < 0.03


def test_the_gradient_of_the_extent():
    """Against a finite difference with the grid held at its place: only the shift carries the gradient."""
    layer = PartialGroupConv2d(2, 3, samples=4, kernel_size=3, extent=0.6, hidden=8).double()
    x, before = torch.randn(1, 8, 5, 5, dtype=torch.float64), grid(4)
    g = torch.randn(1, 9, 5, 5, dtype=torch.float64)
    (layer(x) * g).sum().backward()

    def value(shift: float) -> torch.Tensor:
        after = layer.draw()
        moved = Orientations(from_angles(angles_of(after) - math.pi * shift))
        return (layer(x, before, moved) * g).sum().detach()

    step = 1e-6
    difference = (value(step) - value(-step)) / (2 * step)
    assert abs(layer.extent.grad - difference) < 1e-6 * abs(difference)
    assert abs(difference) > 1e-3


def test_reflections_are_kept_by_chance():
    layer = PartialGroupConv2d(1, 2, samples=8, kernel_size=3, mirrored=True, keep=0.3, sampling="random")
    counts = [len(layer.draw()) for _ in range(300)]
    assert set(counts) == {4, 8}
    assert abs(counts.count(8) / 300 - 0.3) < 0.1
    sure = PartialGroupConv2d(1, 2, samples=8, kernel_size=3, mirrored=True, hidden=4)
    x = torch.randn(1, 8, 5, 5)
    y = sure(x)
    y.square().sum().backward()
    # d/dp Σ y² with the reflected half multiplied with p
    assert sure.keep.grad == pytest.approx(
        float(2 * y.unflatten(1, (2, 8))[:, :, 4:].detach().square().sum()), rel=1e-4
    )
    with torch.no_grad():
        sure.keep.fill_(0.2)
        assert sure(x).shape[1] == 8
        assert torch.allclose(sure(x), y.unflatten(1, (2, 8))[:, :, :4].flatten(1, 2), atol=1e-5)


def test_random_input_samples_have_to_be_given():
    layer = PartialGroupConv2d(1, 2, samples=4, kernel_size=3, sampling="train")
    x = torch.randn(1, 4, 5, 5)
    with pytest.raises(InputError, match="in_samples"):
        layer(x)
    assert layer(x, grid(4, offset=0.2)).shape == (1, 8, 5, 5)
    assert torch.equal(layer.eval()(x), layer(x))


def test_later_layers_are_held_to_earlier_ones():
    layers = torch.nn.ModuleList(PartialGroupConv2d(1, 1, kernel_size=3, extent=t) for t in (0.5, 0.8, 0.7, 1.0))
    total = extent_penalty(layers)
    assert float(total.detach()) == pytest.approx(0.6)
    total.backward()
    assert [float(layer.extent.grad) for layer in layers] == [-1, 1, -1, 1]
    assert extent_penalty(torch.nn.Linear(1, 1)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extent": 0.0}, "an extent above 0"),
        ({"extent": 1.5}, "at most 1"),
        ({"extent": float("nan")}, "an extent"),
        ({"samples": 0}, "at least 1 group sample"),
        ({"mirrored": True, "keep": 2.0}, "a probability"),
    ],
)
def test_bad_options_are_explained(options, message):
    with pytest.raises(InputError, match=message):
        PartialGroupConv2d(2, 3, **options)
