"""Metrics on networks whose symmetry is known: small where it must be, large where it is broken."""

from __future__ import annotations

import math
import warnings
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from intertwine.errors import InputError
from intertwine.measure import (
    METRICS,
    Estimate,
    Transformation,
    agreement,
    audit,
    equivariance_error,
    invariance_error,
    invariance_loss,
    layer_errors,
    lie_derivative,
    match,
    parse_symmetry,
    shift_consistency,
)
from intertwine.measure._estimate import resample_together
from intertwine.measure._flows import flow_step
from intertwine.measure.metrics._invariance import relative_difference
from intertwine.measure.metrics._lie import lie_derivatives

X = torch.rand(6, 3, 9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def network(channels: int = 4, classes: int = 5) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(classes)).double()


def invariant() -> nn.Sequential:
    """Invariant under the eight motions of the square, and under shifts of periodic images."""
    blur = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular").double()
    with torch.no_grad():
        blur.weight[:] = blur.weight.sum((2, 3), keepdim=True)
    return nn.Sequential(blur, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def broken() -> nn.Module:
    net = network()
    net(X)
    return net


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class TestCalibration:
    """Every metric in the list, on a network that has the symmetry and on one that has not."""

    measured: ClassVar = {
        "invariance_error": lambda net: invariance_error(net, X, "d4"),
        "agreement": lambda net: agreement(net, X, "d4"),
        "shift_consistency": lambda net: shift_consistency(net, X.repeat(8, 1, 1, 1), border="circular", batch_size=4),
        "lie_derivative": lambda net: lie_derivative(net, X, "translation_x", output="scores"),
        "layer_invariance_error": lambda net: layer_errors(net, X, "d4").layers[-1].invariance,
    }
    images: ClassVar = {
        "equivariance_error": lambda net: equivariance_error(net, X, "d4"),
        "layer_equivariance_error": lambda net: layer_errors(net, X, "d4").layers[0].equivariance,
    }

    @pytest.mark.parametrize("name", [*measured, *images])
    def test_both_directions(self, name):
        torch.manual_seed(3)
        good, bad = (
            (invariant(), broken())
            if name in self.measured
            else (invariant()[:1], nn.Sequential(nn.Conv2d(3, 4, 3, padding=1)).double())
        )
        if name == "lie_derivative":  # moving about a border that is mirrored changes the mean: there is no exact one
            good = nn.Sequential(nn.Flatten(), nn.Linear(243, 5)).double()
            with torch.no_grad():
                good[1].weight.zero_()
        measure = (self.measured | self.images)[name]
        low, high = measure(good), measure(bad)
        assert low.metric == high.metric == name
        if METRICS[name].better == "lower":
            assert low.mean < 1e-12
            assert high.mean > 1e-2
        else:
            assert low.mean == 1
            assert high.mean < 0.95

    def test_every_metric_of_images_is_here(self):
        own = {name for name in METRICS if name not in {*self.measured, *self.images}}
        assert not own & {"invariance_error", "equivariance_error", "lie_derivative", "shift_consistency", "agreement"}
        assert all(METRICS[name].formula and METRICS[name].meaning for name in METRICS)


class TestInvarianceError:
    def test_against_a_loop(self):
        net = broken()
        estimate = invariance_error(net, X, "c4", batch_size=4)
        expected = []
        for x in X:
            a = net(x[None])[0]
            errors = []
            for k in (1, 2, 3):
                b = net(x[None].rot90(k, (2, 3)))[0]
                errors.append((a - b).norm() / (0.5 * a.norm() + 0.5 * b.norm()))
            expected.append(torch.stack(errors).mean())
        torch.testing.assert_close(estimate.values, torch.stack(expected).detach(), rtol=1e-12, atol=0)
        assert estimate.n == 6
        assert estimate.floor is None
        assert 0 < estimate.mean < 2

    def test_zero_over_zero(self):
        zero = torch.zeros(2, 3)
        assert relative_difference(zero, zero).tolist() == [0.0, 0.0]
        assert relative_difference(zero, zero + 1).tolist() == [2.0, 2.0]

    def test_the_floor_shows_what_resampling_does(self):
        """A network that looks at fine detail reacts to resampling; one that looks at the mean hardly does."""
        fine = nn.Sequential(nn.Flatten(), nn.Linear(243, 5)).double()
        turned = invariance_error(fine, X, flow_step("rotation", 0.2))
        assert turned.floor is not None
        assert turned.floor.mean > 1e-3
        assert invariance_error(fine, X, flow_step("rotation", 2 * math.pi)).mean < 1e-9
        assert invariance_error(fine, X, "hflip").floor is None

    def test_any_data(self):
        net, labels = broken(), torch.arange(6)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, labels), batch_size=4)
        whole = invariance_error(net, X).values
        for data in ((X, labels), loader, [X[:4], X[4:]]):
            torch.testing.assert_close(invariance_error(net, data).values, whole)
        assert invariance_error(net, loader, max_images=5).n == 5
        for measure in (invariance_error, layer_errors, lie_derivative, audit, match):
            with pytest.raises(InputError, match="expected max_images to be a whole number of 1 or more"):
                measure(net, X, max_images=0)

    def test_the_network_is_left_as_it_was(self):
        net = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(), nn.Flatten()).double()
        net[1].eval()
        before = {key: value.clone() for key, value in net.state_dict().items()}
        invariance_error(net, X)
        assert [module.training for module in net] == [True, False, True]
        assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())

    @pytest.mark.parametrize(
        ("model", "data", "message"),
        [
            (nn.Identity(), torch.rand(3, 4), r"images \(n, channels, height, width\)"),
            (nn.Identity(), torch.zeros(1, 3, 4, 4, dtype=torch.int64), "Scale the images"),
            (nn.Identity(), [], "expected images; got none"),
            (nn.Identity(), [{"x": X}], "batches of images"),
            (nn.Identity(), 3, "data to be a tensor, .* or an iterable of object; got 3"),
            (nn.Threshold(0.5, float("nan")), X, "NaN or infinity for 6 of 6 images"),
            (Pair(), X, "a network that returns one tensor; got tuple"),
        ],
    )
    def test_bad_input(self, model, data, message):
        with pytest.raises(InputError, match=message):
            invariance_error(model, data)

    def test_unknown_symmetry(self):
        with pytest.raises(InputError, match=r"symmetry: expected hflip.*Did you mean hflip"):
            invariance_error(nn.Identity(), X, "hflop")

    def test_halves_when_memory_runs_out(self):
        class Small(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                if len(x) > 2:
                    raise torch.OutOfMemoryError("CUDA out of memory")
                return x.flatten(1)

        with pytest.warns(RuntimeWarning, match="do not fit into memory"):
            estimate = invariance_error(Small(), X)
        torch.testing.assert_close(estimate.values, invariance_error(nn.Flatten(), X).values)


class TestLoss:
    def test_training_with_it_makes_a_network_invariant(self):
        net = broken()
        before = invariance_error(net, X).mean
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        target = torch.randn(6, 5, dtype=torch.float64)
        for _ in range(60):
            optimizer.zero_grad()
            (invariance_loss(net, X) + (net(X) - target).square().mean()).backward()
            optimizer.step()
        assert invariance_error(net, X).mean < 0.5 * before

    def test_no_gradient_of_nan_where_both_agree(self):
        net = invariant()
        loss = invariance_loss(net, X.round())
        loss.backward()
        assert all(bool(torch.isfinite(p.grad).all()) for p in net.parameters())


class TestEstimate:
    def test_intervals_from_shared_draws_are_those_of_each_estimate_alone(self):
        values = [torch.rand(n, dtype=torch.float64) for n in (40, 7, 40, 1)]
        together = [Estimate("m", each) for each in values]
        resample_together(together)
        for each, shared in zip(values, together, strict=True):
            draws = torch.randint(len(each), (1000, len(each)), generator=torch.Generator().manual_seed(0))
            ends = each[draws].mean(1).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
            assert Estimate("m", each).interval == pytest.approx(ends, rel=1e-12)
            assert shared.interval == pytest.approx(ends, rel=1e-12)

    def test_the_interval_is_that_of_the_mean(self):
        values = torch.randn(400, generator=torch.Generator().manual_seed(1))
        low, high = Estimate("m", values).interval
        assert (high - low) == pytest.approx(3.92 * float(values.std()) / 20, rel=0.15)
        assert low < float(values.mean()) < high

    def test_one_sample(self):
        one = Estimate("m", torch.tensor([0.5]))
        assert one.interval == (0.5, 0.5)
        assert one.to_dict()["n"] == 1


class TestEquivarianceError:
    def test_strides_on_even_sizes_are_seen(self):
        """A mean over windows that do not lie symmetric in an even image does not commute with the mirror."""
        strided = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        even, odd = torch.rand(2, 1, 8, 8, dtype=torch.float64), torch.rand(2, 1, 9, 9, dtype=torch.float64)
        assert equivariance_error(strided, odd).mean < 1e-12
        assert equivariance_error(strided, even).mean > 0.1

    def test_outputs_may_move_otherwise(self):
        keep = Transformation("stay", lambda x: x, lambda x: x, exact=True)
        constant = nn.Conv2d(3, 1, 1).double()
        with torch.no_grad():
            constant.weight.zero_()
        assert equivariance_error(constant, X, "hflip", output=keep).mean == 0
        assert equivariance_error(nn.Conv2d(3, 1, 1).double(), X, "hflip", output=keep).mean > 0.01

    def test_scores_are_refused(self):
        with pytest.raises(InputError, match="use invariance_error"):
            equivariance_error(nn.Flatten(), X)


class TestLieDerivative:
    @pytest.mark.parametrize("flow", ["translation_x", "translation_y", "rotation", "scale", "shear_x", "hue"])
    def test_against_differences(self, flow):
        net = broken()
        estimate = lie_derivative(net, X, flow)
        step = 1e-6
        forth, back = flow_step(flow, step)(X), flow_step(flow, -step)(X)
        slope = (net(forth).softmax(1) - net(back).softmax(1)) / (2 * step)
        torch.testing.assert_close(estimate.values, slope.abs().mean(1).detach(), rtol=1e-3, atol=1e-6)

    @pytest.mark.parametrize("net", [broken(), nn.Conv2d(3, 2, 3, padding=1).double()], ids=["scores", "images"])
    def test_several_flows_share_a_pass(self, net):
        flows = ("translation_x", "rotation", "scale")
        for flow, shared in zip(flows, lie_derivatives(net, X, flows), strict=True):
            alone = lie_derivative(net, X, flow)
            torch.testing.assert_close(shared.values, alone.values)
            torch.testing.assert_close(shared.floor.values, alone.floor.values)

    def test_networks_that_take_one_direction_at_a_time(self):
        """A branch that depends on the values cannot run for several directions at once."""

        class Branching(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                y = x.flatten(1).square()
                return y if float(y.sum()) > 0 else -y

        class Squares(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x.flatten(1).square()

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            branching, plain = (lie_derivative(m, X, "rotation", output="scores") for m in (Branching(), Squares()))
        torch.testing.assert_close(branching.values, plain.values)

    def test_images_move_back(self):
        """The identity commutes with every motion; squaring does too; a fixed pattern does not."""

        class Squared(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x.square()

        class Patterned(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x * torch.linspace(0, 1, x.shape[-1], dtype=x.dtype)

        smooth = torch.nn.functional.interpolate(X, 45, mode="bicubic")
        assert lie_derivative(nn.Identity(), smooth, "rotation").mean < 1e-12
        squared, patterned = (lie_derivative(m, smooth, "translation_x") for m in (Squared(), Patterned()))
        assert squared.mean < squared.floor.mean, "what is left is interpolation, and the floor says so"
        assert patterned.mean > 5 * patterned.floor.mean

    def test_the_floor_falls_with_smoothness(self):
        fine = nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten()).double()
        rough = lie_derivative(fine, torch.rand(2, 3, 27, 27, dtype=torch.float64), "rotation", output="scores")
        images = torch.nn.functional.interpolate(torch.rand(2, 3, 4, 4, dtype=torch.float64), 27, mode="bicubic")
        smooth = lie_derivative(fine, images, "rotation", output="scores")
        assert smooth.floor.mean < 0.2 * rough.floor.mean
        assert lie_derivative(fine, images, "hue", output="scores").floor.mean == 0

    def test_attention_has_forward_derivatives(self):
        class Attention(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                tokens = x.flatten(2).transpose(1, 2)
                return nn.functional.scaled_dot_product_attention(tokens, tokens, tokens).mean(1)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert lie_derivative(Attention(), X, "rotation").mean > 0

    def test_without_a_forward_derivative_a_difference_is_taken(self):
        class Sampler(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                grid = nn.functional.affine_grid(torch.eye(2, 3, dtype=x.dtype).expand(len(x), 2, 3), x.shape, False)
                return nn.functional.grid_sample(x, grid, align_corners=False).flatten(1)

        with pytest.warns(RuntimeWarning, match="central difference"):
            estimate = lie_derivative(Sampler(), X, "rotation", output="scores")
        with warnings.catch_warnings(action="ignore"):
            exact = lie_derivative(nn.Flatten(), X, "rotation", output="scores")
        torch.testing.assert_close(estimate.values, exact.values, rtol=1e-6, atol=1e-8)

    def test_bad_input(self):
        with pytest.raises(InputError, match="translation_x"):
            lie_derivative(nn.Flatten(), X, "spin")
        with pytest.raises(InputError, match="3 colors"):
            lie_derivative(nn.Flatten(), X[:, :1], "hue")
        with pytest.raises(InputError, match="'scores' for any"):
            lie_derivative(nn.Identity(), X, "rotation", output="probabilities")


def test_shifts_larger_than_the_image_are_refused():
    with pytest.raises(InputError, match="half the image size"):
        shift_consistency(nn.Flatten(), X, shift=7)


def test_turns_of_images_that_are_not_square():
    """The center of a long image turns as it does alone."""
    long = torch.zeros(1, 1, 9, 21, dtype=torch.float64)
    long[..., 6:15] = X[:1, :1]
    turned = flow_step("rotation", math.pi / 2)(long)[..., 6:15]
    torch.testing.assert_close(turned, X[:1, :1].rot90(1, (2, 3)), rtol=0, atol=1e-9)


def test_the_group_law_holds_for_symmetries():
    c4 = parse_symmetry("c4")
    assert torch.equal(c4.apply(1, c4.apply(3, X)), X)
