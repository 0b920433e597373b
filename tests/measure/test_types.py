"""One symmetry object for every function: names, spaces, field types; signals, volumes, sets and vectors."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import intertwine as tw
from intertwine.errors import InputError, TypeMismatchError
from intertwine.measure import (
    Symmetry,
    agreement,
    audit,
    equivariance_error,
    gcnn_barrier,
    invariance_error,
    invariance_loss,
    layer_errors,
    match,
    parse_symmetry,
    symmetrize,
)
from intertwine.measure.graph import transform_network
from intertwine.measure.surgery import stride_artifacts
from intertwine.spaces import Grid1d, Grid2d, Grid3d, HomogeneousSpace, Point

D4 = Grid2d("D4")
C3 = tw.groups.Cyclic(3)
COLORS = Grid2d(C3, action=2 * C3.trivial).field("regular")


class Net(nn.Module):
    """Any function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def images(channels=1, size=8, n=5):
    return torch.randn(n, channels, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def slope(x):
    """Differences to the right and upward, with periodic borders: a vector field."""
    return torch.cat([x.roll(-1, -1) - x.roll(1, -1), x.roll(1, -2) - x.roll(-1, -2)], 1)


def center_of_mass(x):
    """One vector per image, to the right and upward from the middle."""
    places = D4.coordinates(x.shape[-2:])
    return torch.einsum("nchw,hwd->nd", x, places)


class TestOneObject:
    FORMS = ("D4", "d4", D4, D4.field("trivial"), Symmetry(D4), Symmetry("D4", name="all motions"))

    @pytest.fixture
    def net(self):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 3)
        ).double()  # fmt: skip

    @pytest.mark.parametrize("form", FORMS[1:], ids=repr)
    def test_every_form_means_the_same(self, net, form):
        x = images(size=7)
        labels = torch.arange(5) % 3
        for measured in (
            lambda s: invariance_error(net, x, s).values,
            lambda s: equivariance_error(net[:2], x, s).values,
            lambda s: agreement(net, x, s).values,
            lambda s: invariance_loss(net, x, s),
            lambda s: layer_errors(net, x, s).layers[0].equivariance.values,
            lambda s: match(net, x, s).permutations[3]["0"],
            lambda s: symmetrize(net, x, s, repair=False).model[0].weight,
            lambda s: transform_network(net, s, 5, input_shape=(1, 7, 7))[0].weight,
            lambda s: torch.tensor(gcnn_barrier(net, x, s, (x, labels)).plain.merged),
        ):
            assert torch.equal(measured("D4"), measured(form))
        assert bool(stride_artifacts(nn.Conv2d(1, 1, 3, 2, 1), (1, 8, 8), form))

    def test_symmetrize_with_a_space_is_exact(self, net):
        x = images(size=7)
        twin = symmetrize(net, x, D4).model
        assert invariance_error(twin, x, D4).mean < 1e-10 < 1e-2 < invariance_error(net, x, D4).mean

    def test_audit(self, net):
        x = images(size=7)
        found = audit(net, x, [D4, "hflip"])
        assert found.symmetries == ("Grid2d(D4)", "hflip")
        assert found.reading("invariance_error", "Grid2d(D4)").value == invariance_error(net, x, "D4").mean

    def test_mirrors(self):
        x = images(size=6)
        vflip = parse_symmetry("vflip")
        assert torch.equal(vflip.apply(1, x), x.flip(-2))
        assert repr(vflip) == "Symmetry(vflip: scalars on Grid2d(D1, upside down))"

    def test_transform_is_that_of_the_field_type(self):
        """Measures have no maps of their own."""
        x = images(channels=2)
        for form in ("D4", "C8", "SO(2)", D4.field("irrep1")):
            symmetry = parse_symmetry(form)
            for g, element in enumerate(symmetry.elements):
                kind = symmetry.action.type or symmetry.action.space.field("2*trivial")
                motion = kind.space.from_stabilizer(element)
                assert (symmetry.apply(g, x) - kind.transform(x, motion, padding="mirror")).abs().max() < 1e-12


class TestOutputs:
    """Networks with vectors as outputs, against errors that are computed by hand."""

    @pytest.mark.parametrize("output", ["irrep1", "standard", D4.field("irrep1")], ids=str)
    def test_a_vector_field(self, output):
        assert equivariance_error(Net(slope), images(), D4, output=output).mean < 1e-12
        # (0, 1) instead of (1, 0), √2 apart, for the quarter turns and the diagonal mirrors; opposite for the half turn
        # and the left-right mirror; the same for the up-down mirror.
        east = Net(lambda x: torch.cat([torch.ones_like(x), torch.zeros_like(x)], 1))
        error = equivariance_error(east, images(), D4, output=output)
        assert error.mean == pytest.approx((4 * math.sqrt(2) + 2 * 2) / 7, abs=1e-12)

    @pytest.mark.parametrize("output", ["irrep1", Point("C4").field("irrep1")], ids=str)
    def test_one_vector_per_image(self, output):
        assert equivariance_error(Net(center_of_mass), images(), "C4", output=output).mean < 1e-12
        # With y downward, F = diag(1, -1) and r F v = F r⁻¹ v: opposite to F r v for quarter turns, equal for the half.
        downward = Net(lambda x: center_of_mass(x) * torch.tensor([1.0, -1.0], dtype=x.dtype))
        assert equivariance_error(downward, images(), "C4", output=output).mean == pytest.approx(4 / 3, abs=1e-12)

    def test_vectors_in_and_out(self):
        vectors = Point("C4").field("irrep1")
        east = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        stretch = nn.Linear(2, 2, bias=False).double()
        with torch.no_grad():
            stretch.weight.copy_(torch.diag(torch.tensor([1.0, 3.0])))
        # r A e = (0, ±1) but A r e = (0, ±3), 2 / ½(1 + 3) = 1, for the quarter turns; equal for the half turn.
        assert equivariance_error(stretch, east, vectors, output=vectors).mean == pytest.approx(2 / 3, abs=1e-12)
        length = Net(lambda x: x.norm(dim=1, keepdim=True))
        assert invariance_error(length, torch.randn(5, 2, dtype=torch.float64), vectors).mean < 1e-12
        assert invariance_error(stretch, east, vectors).mean > 0.1

    def test_rotations_of_vectors_in_space(self):
        vectors = Point("SO(3)").field("irrep1")
        x = torch.randn(6, 3, dtype=torch.float64)
        gated = Net(lambda v: v * v.norm(dim=1, keepdim=True))
        error = equivariance_error(gated, x, vectors, output="irrep1")
        assert error.mean < 1e-12
        assert error.floor is None, "nothing is resampled"
        assert equivariance_error(Net(torch.tanh), x, vectors, output="irrep1").mean > 0.01

    def test_segmentation_is_equivariant(self):
        blur = nn.AvgPool2d(3, 1, 1)
        assert equivariance_error(blur, images(3), D4).mean < 1e-12
        assert invariance_error(blur, images(3), D4).mean > 0.5
        tilted = nn.Conv2d(3, 2, 3, padding=1).double()
        assert equivariance_error(tilted, images(3), D4).mean > 0.1

    def test_vectors_as_input_need_a_type_for_the_output(self):
        wind = D4.field("irrep1")
        x = images(2)
        assert equivariance_error(Net(lambda v: 2 * v), x, wind, output=wind).mean < 1e-12
        speed = Net(lambda v: v.norm(dim=1, keepdim=True))
        assert equivariance_error(speed, x, wind, output="trivial").mean < 1e-12
        assert invariance_error(Net(lambda v: v.flatten(1).norm(dim=1)[:, None]), x, wind).mean < 1e-12
        with pytest.raises(InputError, match="output=, the type of the output"):
            equivariance_error(speed, x, wind)

    def test_audit_with_an_output(self):
        found = audit(Net(slope), images(size=7), D4, output="irrep1")
        assert found.reading("equivariance_error").value < 1e-12
        assert audit(Net(slope), images(size=7), D4).reading("equivariance_error").value > 0.5
        vector = audit(Net(center_of_mass), images(size=7), "C4", output="irrep1")
        assert vector.reading("equivariance_error").value < 1e-12
        assert not [r for r in vector.readings if r.metric == "agreement"]

    def test_bad_outputs(self):
        with pytest.raises(InputError, match="a representation of D4"):
            Symmetry("D4", output="nothing")
        with pytest.raises(TypeMismatchError, match="output type of the group D4"):
            Symmetry("D4", output=Grid2d("C4").field("trivial"))
        with pytest.raises(InputError, match=r"2 channels, size, size\); got shape \(5, 1, 8, 8\)"):
            equivariance_error(nn.Identity(), images(), D4, output="irrep1")
        with pytest.raises(InputError, match="invariant outputs, or scalar images"):
            match(nn.Conv2d(1, 2, 3), images(), Symmetry("D4", output="irrep1"))


class TestInputs:
    def test_networks_that_take_a_view(self):
        """Moved inputs are contiguous, as those that a network was trained on."""
        for x, group in ((images(), "D4"), (torch.rand(2, 1, 4, 4, 4), "Oh")):
            assert invariance_error(Net(lambda x: x.view(len(x), -1)), x, group).mean > 0.1

    def test_signals(self):
        x = torch.randn(5, 3, 16, dtype=torch.float64)
        pooled, tilted = nn.AdaptiveAvgPool1d(1), nn.Conv1d(3, 4, 3, padding=1).double()
        assert invariance_error(pooled, x, Grid1d("D1")).mean < 1e-12
        assert equivariance_error(nn.AvgPool1d(3, 1, 1), x, Grid1d("D1")).mean < 1e-12
        assert equivariance_error(tilted, x, Grid1d("D1")).mean > 0.1
        layers = layer_errors(nn.Sequential(nn.AvgPool1d(3, 1, 1), tilted), x, "Grid1d(D1)").layers
        assert layers[0].equivariance.mean < 1e-12 < 0.1 < layers[1].equivariance.mean
        derivative = Net(lambda x: x.roll(-1, -1) - x.roll(1, -1))
        line = Grid1d("D1")
        assert equivariance_error(derivative, x, line, output=line.field(3 * line.action)).mean < 1e-12
        found = audit(nn.Sequential(pooled, nn.Flatten()), x, line)
        assert found.reading("invariance_error").value < 1e-12
        with pytest.raises(InputError, match="3 axes"):
            invariance_error(pooled, images(), Grid1d("D1"))

    def test_volumes(self):
        x = torch.randn(3, 1, 5, 5, 5, dtype=torch.float64)
        assert invariance_error(nn.AdaptiveAvgPool3d(1), x, Grid3d("Oh")).mean < 1e-12
        assert equivariance_error(nn.AvgPool3d(3, 1, 1), x, "O").mean < 1e-12
        assert equivariance_error(nn.Conv3d(1, 1, 3, padding=1).double(), x, "O").mean > 0.1
        assert audit(nn.AvgPool3d(3, 1, 1), x, Grid3d("O")).reading("equivariance_error").value < 1e-12

    @pytest.mark.parametrize("n", [4, 6])  # 24 elements, all of them; 720, some of them
    def test_sets(self, n):
        group = tw.groups.Symmetric(n)
        points = HomogeneousSpace(group, group.fixing(0))
        x = torch.randn(5, 3, n, dtype=torch.float64)
        deep = Net(lambda x: torch.tanh(x) - x.mean(-1, keepdim=True))
        assert invariance_error(Net(lambda x: deep(x).sum(-1)), x, points).mean < 1e-12
        assert equivariance_error(deep, x, points).mean < 1e-12
        ordered = Net(lambda x: x * torch.arange(n))
        assert equivariance_error(ordered, x, points).mean > 0.1
        assert invariance_error(Net(lambda x: ordered(x).sum(-1)), x, f"S{n}").mean > 0.1
        assert Symmetry(points).order == (24 if n == 4 else 9)

    def test_colors(self):
        x = images(3)
        gray = Net(lambda x: x.mean((1, 2, 3))[:, None])
        assert invariance_error(gray, x, COLORS).mean < 1e-12
        red = Net(lambda x: x[:, 0].mean((1, 2))[:, None])
        assert invariance_error(red, x, COLORS).mean > 0.1
        assert equivariance_error(nn.AvgPool2d(3, 1, 1), x, COLORS, output=COLORS).mean < 1e-12
        assert Symmetry(COLORS).channel_order(1, 3) == (2, 0, 1)
        net = nn.Sequential(nn.Conv2d(3, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(324, 4)).double()
        twin = symmetrize(net, x, COLORS).model
        assert invariance_error(twin, x, COLORS).mean < 1e-10 < 0.01 < invariance_error(net, x, COLORS).mean

    def test_colors_that_are_mixed_otherwise(self):
        turning = Grid2d(C3, action=2 * C3.trivial).field("irrep1 + trivial")
        assert Symmetry(turning).channel_order(1, 3) is None
        with pytest.raises(InputError, match="mixes the 3 input channels"):
            transform_network(nn.Conv2d(3, 2, 3), turning, 1, input_shape=(3, 8, 8))

    def test_wrong_channels(self):
        with pytest.raises(InputError, match="3 channels"):
            invariance_error(nn.Flatten(), images(1), COLORS)

    @pytest.mark.parametrize("still", [Point("D4"), Grid2d(C3, action=2 * C3.trivial), Grid2d("C1"), "Grid1d(C4)"])
    def test_a_group_that_moves_nothing(self, still):
        with pytest.raises(InputError, match="a group that moves something"):
            invariance_error(nn.Flatten(), images(), still)

    def test_the_sphere(self):
        sphere = tw.spaces.Sphere()
        grid = sphere.grid("gauss-legendre", band_limit=5)
        waves = torch.randn(4, 1, 36, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        x = tw.spaces.SpinTransform(grid, tw.groups.SO2().trivial).synthesis(waves)
        integral = Net(lambda f: (f.square() * grid.weights).sum((-2, -1)))
        assert invariance_error(integral, x, sphere).mean < 1e-12
        assert equivariance_error(Net(lambda f: 3 * f), x, "sphere").mean < 1e-12
        north = Net(lambda f: f * grid.points[..., 2])
        assert equivariance_error(north, x, sphere).mean > 0.1
        assert equivariance_error(north, x, sphere).floor.mean > 0, "degree 6 does not fit the grid"
        wind = sphere.field("irrep1")
        y = tw.spaces.SpinTransform(grid, wind.rho).synthesis(torch.randn(4, 2, 36, dtype=torch.float64))
        assert equivariance_error(Net(lambda f: -f), y, wind, output=wind).mean < 1e-12
        assert (
            equivariance_error(
                Net(lambda f: f * torch.tensor([1.0, 0.0])[:, None, None]), y, wind, output="irrep1"
            ).mean
            > 0.1
        )


class TestResampled:
    """Elements that do not map pixels to themselves."""

    def smooth(self):
        x = D4.coordinates((33, 33)) / 8
        return torch.stack([torch.exp(-((x - torch.tensor([0.1 * k, 0.3])) ** 2).sum(-1) * 8) for k in range(4)])[
            :, None
        ]

    @pytest.mark.parametrize("group", ["C8", "SO(2)"])
    def test_floor(self, group):
        x = self.smooth()
        pooled = Net(lambda x: x.mean((1, 2, 3))[:, None])
        error = invariance_error(pooled, x, group)
        assert error.mean < 1e-2
        assert error.floor is not None
        corner = Net(lambda x: x[:, 0, :17, :17].mean((1, 2))[:, None])
        assert invariance_error(corner, x, group).mean > 0.1
        assert equivariance_error(nn.AvgPool2d(3, 1, 1), x, group).floor.mean < 0.02
        layer = layer_errors(nn.Sequential(nn.AvgPool2d(3, 1, 1)), x, group).layers[0]
        assert layer.equivariance.floor.mean < 0.02
        assert layer.equivariance.mean < 0.05

    def test_lattice_elements_have_no_floor(self):
        assert invariance_error(nn.Flatten(), self.smooth(), "D4").floor is None
        assert [Symmetry("C8").is_exact(g) for g in range(8)] == [True, False] * 4

    def test_samples_repeat_by_seed(self):
        x = self.smooth()
        first, again, other = (Symmetry("SO(2)", samples=3, seed=seed) for seed in (0, 0, 1))
        assert first.order == 4
        assert torch.equal(first.elements[1], again.elements[1])
        assert not torch.equal(first.elements[1], other.elements[1])
        net = nn.Flatten()
        assert invariance_error(net, x, first).mean == invariance_error(net, x, again).mean

    def test_filters_do_not_follow(self):
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2)).double()
        for group, message in (("C8", "flips and quarter turns"), ("SO(2)", "finite group of at most 64")):
            for cut in (match, symmetrize):
                with pytest.raises(InputError, match=message):
                    cut(net, images(), group)
        found = audit(net, images(), "C8")
        assert not [r for r in found.readings if r.metric == "matched_correlation"]
        assert found.reading("invariance_error").floor is not None


@pytest.mark.parametrize("name", ["D4", "C8", "SO(2)"])
def test_another_default_device(name):
    """Tables stay on the CPU, and data where they are."""
    x = images()
    expected = Symmetry(name).apply(1, x), tw.data.RandomMotion(name)(x, torch.Generator().manual_seed(0))
    with torch.device("meta"):
        symmetry, augment = Symmetry(Grid2d(name)), tw.data.RandomMotion(Grid2d(name))
        moved = symmetry.apply(1, x), augment(x, torch.Generator().manual_seed(0))
        on_device = symmetry.apply(1, x.to("meta"))
    assert all(torch.equal(*pair) for pair in zip(moved, expected, strict=True))
    assert on_device.device.type == "meta"
    assert on_device.shape == x.shape
