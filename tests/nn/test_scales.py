"""Scalings: spaces, lifting, convolution and pooling, against direct sums, and cases that must fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch import nn as torch_nn

from intertwine import testing
from intertwine.errors import InputError, TypeMismatchError
from intertwine.kernels import HermiteKernelBasis
from intertwine.nn import (
    Approximate,
    BatchNorm,
    Conv2d,
    InstanceNorm,
    Layer,
    LayerNorm,
    ReLU,
    ScaleConv2d,
    ScaleLift2d,
    ScalePool,
    Sequential,
)
from intertwine.spaces import Grid2d, ScalePlane, ScaleSpace

PLANE = ScalePlane()
SCALES = ScaleSpace(base=1.25, count=6)
GRAY, LIFTED = PLANE.field("trivial"), SCALES.field("2*trivial")


# -- the spaces -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [PLANE, SCALES])
def test_group_laws(space: ScalePlane | ScaleSpace) -> None:
    a, b, c = space.zoom(1.5, (1.0, 2.0)), space.zoom(0.7, (-3.0, 0.5)), space.zoom(2.0, (0.0, 1.0))
    left, right = space.compose(space.compose(a, b), c), space.compose(a, space.compose(b, c))
    torch.testing.assert_close(left.translation, right.translation)
    assert left.factor == pytest.approx(right.factor)
    unit = space.compose(a, space.inverse(a))
    torch.testing.assert_close(unit.translation, torch.zeros(2, dtype=torch.float64))
    assert unit.factor == pytest.approx(1)
    x = space.project(b)
    assert space.cocycle(x, a) == 0
    moved, twice = space.act(a, space.act(c, x)), space.act(space.compose(a, c), x)
    torch.testing.assert_close(space.section(moved).translation, space.section(twice).translation)


def test_a_power_of_the_base_moves_whole_scales() -> None:
    f = torch.rand(1, 2, 6, 9, 9, dtype=torch.float64)
    moved = LIFTED.transform(f, SCALES.zoom(1.25**2))
    assert bool((moved[:, :, :2] == 0).all())
    images = PLANE.field("8*trivial").transform(f[:, :, :4].flatten(1, 2), PLANE.zoom(1.25**2))
    torch.testing.assert_close(moved[:, :, 2:].flatten(1, 2), images, rtol=0, atol=1e-12)


def test_translations_compose_with_scalings() -> None:
    """π(t)π(s) = π(t, s), on a smooth field."""
    axis = torch.arange(-20, 21, dtype=torch.float64)
    f = torch.exp(-(axis[:, None] ** 2 + (axis - 2) ** 2) / 50)[None, None]
    once = GRAY.transform(f, PLANE.zoom(1.3, (3.0, -2.0)))
    twice = GRAY.transform(GRAY.transform(f, PLANE.zoom(1.3)), PLANE.zoom(1.0, (3.0, -2.0)))
    torch.testing.assert_close(once[..., 8:-8, 8:-8], twice[..., 8:-8, 8:-8], rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ScaleSpace(base=1.0, count=4),
        lambda: ScaleSpace(base=float("nan"), count=4),
        lambda: PLANE.zoom(0.0),
        lambda: PLANE.zoom(1.0, (1.0,)),
        lambda: LIFTED.transform(torch.rand(1, 2, 5, 9, 9), SCALES.zoom(2.0)),
        lambda: GRAY.transform(torch.rand(9, 9), PLANE.zoom(2.0)),
        lambda: HermiteKernelBasis(order=-1, sigma=1.0),
        lambda: HermiteKernelBasis(order=2, sigma=0.0),
    ],
)
def test_wrong_input(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError):
        wrong()


# -- the layers against their definition ----------------------------------------------------------------------------


def test_hermite_functions_are_orthonormal() -> None:
    basis = HermiteKernelBasis(order=4, sigma=8.0)
    filters = basis.filters(1.0).flatten(1) * 8  # (1/σ²) ψ, so that Σ ψψ' σ² ≈ the integral
    torch.testing.assert_close(filters @ filters.T, torch.eye(15, dtype=torch.float64), rtol=0, atol=1e-2)


def test_convolution_is_the_sum_over_scales_and_positions() -> None:
    torch.manual_seed(0)
    space = ScaleSpace(base=1.5, count=3)
    layer = ScaleConv2d(space.field("2*trivial"), space.field("3*trivial"), reach=2).double()
    x = torch.randn(1, 2, 3, 41, 41, dtype=torch.float64)
    out, basis = layer(x), HermiteKernelBasis(order=2, sigma=0.8)
    for k, scale in enumerate(space.scales):
        r = basis.radius(scale)
        seen = x[0, :, :, 20 - r : 21 + r, 20 - r : 21 + r]
        expected = layer.bias.detach().clone()
        for j in range(min(2, 3 - k)):
            expected += torch.einsum("oim,mxy,ixy->o", layer.weight[:, :, j], basis.filters(scale), seen[:, k + j])
        torch.testing.assert_close(out[0, :, k, 20, 20], expected)


def test_a_larger_reach_leaves_the_largest_scales_incomplete() -> None:
    """The largest scale sees itself only; the next larger ones are missing."""
    layer = ScaleConv2d(LIFTED, LIFTED, reach=2, bias=False)
    x = torch.randn(1, 2, 6, 9, 9)
    with torch.no_grad():
        layer.weight[:, :, 0] = 0
    out = layer(x)
    assert bool((out[:, :, 5] == 0).all())
    assert bool((out[:, :, 4] != 0).any())


def test_initial_weights_keep_the_variance() -> None:
    torch.manual_seed(0)
    axis = torch.arange(64, dtype=torch.float64)
    distance = torch.cdist(torch.cartesian_prod(axis[:24], axis[:24]), torch.cartesian_prod(axis[:24], axis[:24]))
    root = torch.linalg.cholesky(torch.exp(-distance / 8) + 1e-9 * torch.eye(576, dtype=torch.float64))
    images = (root @ torch.randn(576, 8 * 16, dtype=torch.float64)).T.reshape(8, 16, 24, 24)  # as natural images
    space = ScaleSpace(base=1.25, count=3)
    layer = ScaleLift2d(PLANE.field("16*trivial"), space.field("64*trivial")).double()
    middle = layer(images)[..., 9:15, 9:15].detach()
    assert 0.7 < float(middle.std()) < 1.4


def test_weights_do_not_depend_on_the_number_of_scales() -> None:
    few, many = (ScaleLift2d(GRAY, ScaleSpace(base=1.25, count=n).field("2*trivial")) for n in (3, 6))
    many.load_state_dict(few.state_dict())
    x = torch.randn(1, 1, 17, 17)
    torch.testing.assert_close(many(x)[:, :, :3], few(x))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ScaleLift2d(LIFTED, LIFTED), TypeMismatchError),
        (lambda: ScaleLift2d(GRAY, GRAY), TypeMismatchError),
        (lambda: ScaleConv2d(GRAY, LIFTED), TypeMismatchError),
        (lambda: ScaleConv2d(LIFTED, ScaleSpace(base=1.25, count=5).field("trivial")), TypeMismatchError),
        (lambda: ScaleConv2d(LIFTED, LIFTED, reach=7), InputError),
        (lambda: ScaleConv2d(LIFTED, LIFTED, order=-1), InputError),
        (lambda: ScaleLift2d(GRAY, LIFTED, stride=2)(torch.rand(1, 1, 16, 17)), InputError),
        (lambda: ScalePool(GRAY), TypeMismatchError),
        (lambda: ScalePool(LIFTED, mode="mean", keep_plane=False), InputError),
        (lambda: Conv2d(LIFTED, LIFTED, 3), TypeMismatchError),
        (lambda: Sequential(ScaleLift2d(GRAY, LIFTED), ReLU(GRAY)), TypeMismatchError),
    ],
)
def test_wrong_types_and_options(wrong, error) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error):
        wrong()


# -- claims, and cases that must fail -------------------------------------------------------------------------------


def network(pool: ScalePool | None = None) -> Sequential:
    torch.manual_seed(0)
    layers = ScaleLift2d(GRAY, LIFTED), BatchNorm(LIFTED), ReLU(LIFTED), ScaleConv2d(LIFTED, LIFTED, reach=2)
    return Sequential(*layers) if pool is None else Sequential(*layers, pool)


def test_a_network_keeps_its_claim() -> None:
    assert testing.assert_equivariant(network()) < 1e-10


class Broken(ScaleLift2d):
    """A lifting layer that breaks the symmetry in a chosen way."""

    def __init__(self, way: str) -> None:
        super().__init__(GRAY, LIFTED)
        self.way = way

    def compute(self, x: Tensor) -> Tensor:
        out = super().compute(x)
        if self.way == "same filter at all scales":
            return out[:, :, :1].expand_as(out)
        if self.way == "no 1/scale²":
            return out * torch.tensor(SCALES.scales, dtype=x.dtype).square().view(-1, 1, 1)
        if self.way == "a weight per scale":
            return out * torch.tensor([1.0, 2.0, 1.0, 2.0, 1.0, 2.0], dtype=x.dtype).view(-1, 1, 1)
        if self.way == "scales in reverse":
            return out.flip(2)
        return out


@pytest.mark.parametrize("way", ["same filter at all scales", "no 1/scale²", "a weight per scale", "scales in reverse"])
def test_layers_that_break_the_symmetry_are_found_out(way: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match="does not commute with the scaling"):
        testing.assert_equivariant(Broken(way))
    assert testing.assert_equivariant(Broken("not at all")) < 1e-10


class Plain(Layer):
    """An ordinary convolution of images, which claims too much."""

    def __init__(self) -> None:
        super().__init__(GRAY, GRAY, Approximate("it is not", bound=0.1))
        self.conv = torch_nn.Conv2d(1, 1, 7, padding=3, bias=False)
        with torch.no_grad():
            self.conv.weight -= self.conv.weight.mean()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        return iter(())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out

    def interior(self, sizes):  # type: ignore[no-untyped-def]
        return 1, 3

    def shift_step(self, sizes):  # type: ignore[no-untyped-def]
        return None

    def to_plain(self) -> torch_nn.Module:
        return self.conv


def test_a_plain_convolution_does_not_commute_with_scalings() -> None:
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match="does not commute with the scaling"):
        testing.assert_equivariant(Plain())


def test_too_few_scales_to_test() -> None:
    few = ScaleSpace(base=1.25, count=4).field("trivial")
    with pytest.raises(InputError, match="5 scales or more"):
        testing.assert_equivariant(ScaleLift2d(GRAY, few))


def test_means_over_the_plane_promise_nothing_under_scalings() -> None:
    """A scaling changes areas: batch statistics in training, and instance norm always."""
    norm = BatchNorm(LIFTED)
    assert norm.claim.bound == float("inf")
    assert norm.eval().claim.bound == 0.1
    assert InstanceNorm(LIFTED).claim.bound == float("inf")
    assert BatchNorm(Grid2d("C4").field("regular")).claim == norm_claim()
    assert LayerNorm(LIFTED).claim.bound == float("inf")


def norm_claim() -> object:
    return BatchNorm(Grid2d("C4").field("regular")).eval().claim


def test_the_maximum_over_scales_and_positions_is_invariant() -> None:
    """A blob twice as wide and elsewhere has the same features, away from the ends of the scales."""
    torch.manual_seed(0)
    field = ScaleSpace(base=2**0.5, count=6).field("8*trivial")
    net = Sequential(ScaleLift2d(GRAY, field), ReLU(field), ScalePool(field, keep_plane=False)).double()
    with torch.no_grad():
        net[0].weight[..., 0] = 0  # derivatives only: others see the mean, and respond most at one end
        net[0].weight[..., 3:] = 0
    axis = torch.arange(-32, 33, dtype=torch.float64)

    def blob(width: float, x: float, y: float) -> Tensor:
        return torch.exp(-((axis[:, None] - y) ** 2 + (axis - x) ** 2) / (2 * width**2))[None, None]

    net.requires_grad_(False)
    here, there = net(blob(2.0, 0, 0)), net(blob(4.0, 4, -3))
    torch.testing.assert_close(here, there, rtol=0.06, atol=1e-4)
    one_scale = net[0](blob(2.0, 0, 0))[:, :, 0].amax((2, 3)), net[0](blob(4.0, 4, -3))[:, :, 0].amax((2, 3))
    assert float((one_scale[0] / one_scale[1]).mean()) > 1.3  # without the maximum over scales they differ
