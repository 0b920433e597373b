"""Nonlinearities, normalization, pooling, sequences: values and refusals."""

from __future__ import annotations

import pytest
import torch

from intertwine.data import load
from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import O2, SO2, SO3, Cyclic, Dihedral, Icosahedral, MatrixRepresentation, Octahedral
from intertwine.nn import (
    ELU,
    AvgPool2d,
    BatchNorm,
    Conv2d,
    Conv3d,
    Exact,
    GlobalPool,
    GroupPool,
    MaxPool2d,
    NormNonlinearity,
    NormPool,
    Pointwise,
    ReLU,
    Sequential,
)
from intertwine.nn.filters._natural import channel_correlation
from intertwine.spaces import Grid2d, Grid3d
from intertwine.testing import assert_equivariant

C2, C4, D4 = Cyclic(2), Cyclic(4), Dihedral(4)
PLANE = Grid2d(D4)
MIXED = PLANE.field(D4.irrep(1) + D4.regular + D4.trivial)
REGULAR = PLANE.field(2 * D4.regular)
SKEW = Grid2d(C2).field(
    MatrixRepresentation(C2, torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, -1.0]]]), name="skew")
)


class TestRefusals:
    @pytest.mark.parametrize("layer", [ReLU, ELU, lambda t: Pointwise(t, torch.nn.SiLU())])
    def test_pointwise(self, layer):
        with pytest.raises(TypeMismatchError, match=r"got irrep\(1\) of D4. Use NormNonlinearity"):
            layer(MIXED)

    def test_what_is_refused_is_really_broken(self):
        layer = ReLU(REGULAR)
        layer.in_type = layer.out_type = PLANE.field(8 * D4.irrep(1))
        with pytest.raises(AssertionError, match="does not commute"):
            assert_equivariant(layer)

    def test_trivial_fields_of_a_lie_group(self):
        so2 = SO2()
        ReLU(Grid2d(so2).field(3 * so2.trivial))
        with pytest.raises(TypeMismatchError, match="irrep"):
            ReLU(Grid2d(so2).field(so2.trivial + so2.irrep(1)))

    def test_pools(self):
        with pytest.raises(TypeMismatchError, match="Use NormPool"):
            GroupPool(MIXED)
        with pytest.raises(TypeMismatchError, match="Use AvgPool2d"):
            MaxPool2d(MIXED, 2)

    @pytest.mark.parametrize("layer", [NormNonlinearity, NormPool, BatchNorm])
    def test_orthogonal(self, layer):
        with pytest.raises(TypeMismatchError, match="orthogonal"):
            layer(SKEW)

    def test_functions_are_modules(self):
        with pytest.raises(InputError, match="Wrap the function in a module"):
            Pointwise(REGULAR, torch.sin)


def test_norm_nonlinearity_by_hand():
    layer = NormNonlinearity(MIXED, bias=-1.0)
    x = torch.randn(2, MIXED.dim, 3, 3)
    with torch.no_grad():
        y = layer(x)
    at = 0
    for atom in MIXED.rho.atoms:
        v, out = x[:, at : at + atom.dim], y[:, at : at + atom.dim]
        norm = v.norm(dim=1, keepdim=True)
        assert torch.allclose(out, torch.relu(norm - 1) * v / norm, atol=1e-6)
        at += atom.dim


def test_norms_have_gradients_at_zero():
    for layer in (NormNonlinearity(MIXED), NormPool(MIXED)):
        x = torch.zeros(1, MIXED.dim, 2, 2, requires_grad=True)
        layer(x).sum().backward()
        assert bool(torch.isfinite(x.grad).all())


class TestBatchNorm:
    def test_regular_fields_share_their_statistics(self):
        layer = BatchNorm(REGULAR)
        x = 3 + 2 * torch.randn(4, 16, 5, 5)
        y = layer(x).view(4, 2, 8, 5, 5)
        assert torch.allclose(y.mean((0, 2, 3, 4)), torch.zeros(2), atol=1e-5)
        assert torch.allclose(y.var((0, 2, 3, 4)), torch.ones(2), atol=1e-2)
        whole = x.view(4, 2, 8, 5, 5)
        assert torch.allclose(layer.running_mean, 0.1 * whole.mean((0, 2, 3, 4)), atol=1e-5)
        assert torch.allclose(layer.running_var, 0.9 + 0.1 * whole.var((0, 2, 3, 4)), atol=1e-5)

    def test_the_short_way_is_the_long_way(self):
        short, long = BatchNorm(REGULAR), BatchNorm(REGULAR)
        assert short._flat
        long._flat = False
        x = 3 + 2 * torch.randn(4, 16, 5, 5)
        assert torch.allclose(short(x), long(x), atol=1e-5)
        assert torch.allclose(short.running_mean, long.running_mean, atol=1e-6)
        assert torch.allclose(short.running_var, long.running_var, atol=1e-6)

    def test_vectors_have_no_mean(self):
        layer = BatchNorm(MIXED)
        x = 3 + 2 * torch.randn(4, MIXED.dim, 5, 5)
        y = layer(x)
        assert layer.running_mean.shape == (2,)
        assert layer.running_var.shape == (3,)
        assert torch.allclose(y[:, :2], x[:, :2] / x[:, :2].square().mean().sqrt(), atol=1e-4)

    def test_evaluation_uses_what_was_learned(self):
        for field in (MIXED, REGULAR):
            layer = BatchNorm(field, momentum=1.0)
            x = 3 + 2 * torch.randn(64, field.dim, 5, 5)
            trained = layer(x)
            assert torch.allclose(layer.eval()(x), trained, atol=1e-2)

    def test_it_is_batch_norm_on_scalars(self):
        C1 = Cyclic(1)
        layer, plain = BatchNorm(Grid2d(C1).field(5 * C1.trivial)), torch.nn.BatchNorm2d(5)
        x = torch.randn(4, 5, 3, 3)
        assert torch.allclose(layer(x), plain(x), atol=1e-6)
        assert torch.allclose(layer.eval()(x), plain.eval()(x), atol=1e-6)


class TestPools:
    def test_group_pool(self):
        x = torch.randn(2, 16, 3, 3)
        assert torch.equal(GroupPool(REGULAR)(x), x.view(2, 2, 8, 3, 3).amax(2))

    def test_norm_pool(self):
        x = torch.randn(2, MIXED.dim)
        y = NormPool(MIXED)(x)
        assert torch.allclose(y[:, 0], x[:, :2].norm(dim=1))
        assert torch.allclose(y[:, 2], x[:, -1].abs())

    @pytest.mark.parametrize("pool", [AvgPool2d, MaxPool2d])
    def test_sizes_are_exact_or_refused(self, pool):
        for k, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 2, 0), (2, 1, 0)):
            layer = pool(REGULAR, k, stride=stride, padding=padding)
            for size in range(6, 10):
                if (size + 2 * padding - k) % stride:
                    with pytest.raises(InputError, match="would not commute with D4"):
                        layer(torch.randn(1, 16, size, size))
                else:
                    assert assert_equivariant(layer, size=size) < 1e-12

    def test_what_is_refused_is_really_broken(self):
        layer = MaxPool2d(REGULAR, 3, stride=2, padding=1, allow_asymmetric=True)
        with pytest.raises(AssertionError, match="does not commute"):
            assert_equivariant(layer, size=8)

    def test_a_window_that_is_not_square(self):
        with pytest.raises(InputError, match="equal options along height and width"):
            AvgPool2d(REGULAR, (2, 3))


class TestSequential:
    def test_the_example_of_the_design(self):
        rgb, hidden = PLANE.field(3 * D4.trivial), PLANE.field(4 * D4.regular)
        classes = PLANE.field(10 * D4.trivial)
        net = Sequential(
            Conv2d(rgb, hidden, 5, padding=2),
            BatchNorm(hidden),
            ReLU(hidden),
            Conv2d(hidden, classes, 3, padding=1),
            GlobalPool(classes),
        )
        assert isinstance(net.claim, Exact)
        assert assert_equivariant(net) < 1e-12
        assert net(torch.randn(2, 3, 9, 9)).shape == (2, 10)
        assert len(net) == 5
        assert isinstance(net[1], BatchNorm)
        assert [type(layer).__name__ for layer in net][-1] == "GlobalPool"

    def test_a_mismatch_names_both_and_the_place(self):
        with pytest.raises(TypeMismatchError) as caught:
            Sequential(ReLU(REGULAR), ReLU(REGULAR), NormNonlinearity(MIXED))
        assert "layer 2 (NormNonlinearity) to take Field(2 regular on Grid2d(D4))" in str(caught.value)
        assert "which layer 1 (ReLU) returns; got Field(irrep(1) + regular + trivial on Grid2d(D4))" in str(
            caught.value
        )

    def test_no_space_is_left(self):
        with pytest.raises(TypeMismatchError, match="without spatial axes"):
            Sequential(GlobalPool(REGULAR), Conv2d(REGULAR, REGULAR, 3))
        net = Sequential(GlobalPool(REGULAR), ReLU(REGULAR), GroupPool(REGULAR))
        assert net(torch.randn(2, 16, 5, 5)).shape == (2, 2)
        with pytest.raises(TypeMismatchError, match="without spatial axes"):
            Sequential(net, AvgPool2d(net.out_type, 2))

    def test_layers_only(self):
        with pytest.raises(InputError, match=r"got Linear.*intertwine\.nn\.Plain"):
            Sequential(ReLU(REGULAR), torch.nn.Linear(3, 3))
        with pytest.raises(InputError, match="got nothing"):
            Sequential()

    def test_sizes_are_checked_through(self):
        net = Sequential(AvgPool2d(REGULAR, 2), AvgPool2d(REGULAR, 2))
        assert net.output_sizes((12, 12)) == (3, 3)
        assert net.shift_step((12, 12)) == 4
        with pytest.raises(InputError, match="4 or 6"):
            net.output_sizes((10, 10))

    def test_in_a_torch_sequential(self):
        net = torch.nn.Sequential(Conv2d(REGULAR, REGULAR, 3), torch.nn.Flatten(), torch.nn.Linear(16, 3))
        assert net(torch.randn(2, 16, 3, 3)).shape == (2, 3)


O, I, SO2_, SO3_, C8 = Octahedral(), Icosahedral(), SO2(), SO3(), Cyclic(8)
DEEP = {
    "C4 regular": Grid2d(C4).field(16 * C4.regular),
    "C4 trivial": Grid2d(C4).field(48 * C4.trivial),
    "C4 irreps": Grid2d(C4).field(40 * C4.irreps[0] + 40 * C4.irrep(2) + 40 * C4.irrep(1)),
    "D4 regular": PLANE.field(8 * D4.regular),
    "D4 quotient": PLANE.field(16 * D4.quotient(D4.subgroup([4]))),
    "D4 vectors": PLANE.field(32 * D4.irrep(1)),
    "D4 mixed": PLANE.field(16 * D4.irrep(1) + 24 * D4.trivial + 6 * D4.regular),
    "D4 trivial + regular": PLANE.field(24 * D4.trivial + 6 * D4.regular),
    "D4 trivial + quotient": PLANE.field(24 * D4.trivial + 12 * D4.quotient(D4.subgroup([4]))),
    "D4 vectors + regular": PLANE.field(16 * D4.irrep(1) + 6 * D4.regular),
    "C8 regular": Grid2d(C8).field(8 * C8.regular),
    "C8 trivial + regular": Grid2d(C8).field(24 * C8.trivial + 6 * C8.regular),
    "C6 hexagonal": Grid2d(Cyclic(6), lattice="hexagonal").field(8 * Cyclic(6).regular),
    "SO(2)": Grid2d(SO2_).field(24 * SO2_.irrep(0) + 24 * SO2_.irrep(1) + 24 * SO2_.irrep(2)),
    "O(2)": Grid2d(O2()).field(32 * O2().irrep(1)),
    "octahedral regular": Grid3d(O).field(2 * O.regular),
    "octahedral vectors": Grid3d(O).field(16 * O.irreps[3]),
    "icosahedral regular": Grid3d(I).field(I.regular),
    "SO(3)": Grid3d(SO3_).field(20 * SO3_.irrep(0) + 16 * SO3_.irrep(1) + 12 * SO3_.irrep(2)),
}


def smooth_images(channels, size, dimension, count=2):
    """Images with a power spectrum 1/f², the one of natural images, of mean 0 and variance 1."""
    axes = [torch.fft.fftfreq(size)] * dimension
    frequency = torch.stack(torch.meshgrid(*axes, indexing="ij")).norm(dim=0).clamp_min(1 / size)
    noise = torch.fft.fftn(torch.randn(count, channels, *[size] * dimension), dim=tuple(range(2, 2 + dimension)))
    x = torch.fft.ifftn(noise / frequency ** (dimension / 2), dim=tuple(range(2, 2 + dimension))).real
    return (x - x.mean()) / x.std()


def deep_variance(field, x, draws, kernel_size=3, redraw=lambda layer: layer.reset_parameters()):
    """Mean square after ten layers on fields of variance 1, or on images: the median of a few draws of the weights."""
    conv = Conv2d if field.space.dimension == 2 else Conv3d
    options = {"padding": kernel_size // 2, "padding_mode": "circular", "bias": False}
    layer = first = conv(field, field, kernel_size, **options)
    if x.shape[1] != field.dim:
        first = conv(field.space.field(x.shape[1] * field.space.stabilizer.trivial), field, kernel_size, **options)
    mean_squares = []
    with torch.no_grad():
        for seed in range(draws):
            torch.manual_seed(seed)
            y = x
            for each in (first, *[layer] * 9):
                redraw(each)
                y = each.train()(y)
            mean_squares.append(float(y.square().mean()))
    return sorted(mean_squares)[draws // 2]


@pytest.mark.parametrize("name", DEEP)
def test_variance_of_smooth_fields_through_ten_layers(name):
    field = DEEP[name]
    torch.manual_seed(0)
    draws, size = (5, 16) if field.space.dimension == 2 else (3, 8)
    assert 0.2 < deep_variance(field, smooth_images(field.dim, size, field.space.dimension), draws) < 5


MIXTURES = [name for name in DEEP if "+" in name or name == "D4 mixed"]


@pytest.mark.parametrize("name", [*MIXTURES, "D4 quotient"])
def test_variance_of_smooth_images_through_ten_layers(name):
    """The channels of a regular field made from images are alike, unlike those of random fields."""
    torch.manual_seed(0)
    assert 0.2 < deep_variance(DEEP[name], smooth_images(3, 16, 2), 5) < 5


def test_variance_of_smooth_volumes_through_ten_layers():
    torch.manual_seed(0)
    volumes = torch.nn.functional.interpolate(smooth_images(3, 6, 3, 4)[:2], scale_factor=2, mode="trilinear")
    mixture = Grid3d(O).field(24 * O.trivial + 2 * O.regular)
    assert 0.2 < deep_variance(mixture, (volumes - volumes.mean()) / volumes.std(), 5) < 5


@pytest.mark.parametrize("name", ["D4 regular", "D4 mixed", "D4 trivial + regular", "D4 vectors + regular"])
def test_the_channels_of_a_field_are_as_alike_as_the_first_weights_assume(name):
    """The mean over ten layers on images, of the correlation between channels of one regular field."""
    field = DEEP[name]
    torch.manual_seed(0)
    y, seen = smooth_images(3, 16, 2), []
    field_before = PLANE.field(3 * D4.trivial)
    with torch.no_grad():
        for _ in range(10):
            y = Conv2d(field_before, field, 3, padding=1, padding_mode="circular", bias=False)(y)
            regular = y[:, field.dim - 8 * field.rho.atoms.count(D4.regular) :].unflatten(1, (-1, 8))
            total, mean = regular.square().mean(), regular.mean(2).square().mean()
            seen.append(float((8 * mean / total - 1) / 7))
            field_before = field
    scalars, permuted = field.rho.atoms.count(D4.trivial), 8 * field.rho.atoms.count(D4.regular)
    assert abs(sum(seen) / 10 - channel_correlation(scalars / field.dim, permuted / field.dim)) < 0.2


@pytest.mark.parametrize("name", ["C4 regular", "C4 irreps", "D4 regular", "C8 regular", "SO(2)", *MIXTURES])
def test_variance_of_digits_through_ten_layers(name):
    """With 5 x 5 taps, on real images."""
    digits = torch.nn.functional.interpolate(load("digits").train.as_tensors()[0][:2], scale_factor=2, mode="bilinear")
    assert 0.2 < deep_variance(DEEP[name], (digits - digits.mean()) / digits.std(), 5, kernel_size=5) < 5


def scaled_to_white_noise(layer):
    """The same draw, with unit variance on white noise instead."""
    layer.reset_parameters()
    with torch.no_grad():
        energy = layer.expand()[0].square().sum((1, 2, 3)).mean().sqrt()
        for weight in layer.weights:
            weight /= energy


@pytest.mark.parametrize("name", ["C4 trivial", "C8 regular", "SO(2)"])
def test_unit_variance_on_white_noise_is_not_enough(name):
    torch.manual_seed(0)
    assert deep_variance(DEEP[name], smooth_images(3, 16, 2), 5, 5, scaled_to_white_noise) > 8


@pytest.mark.parametrize("name", [name for name in DEEP if DEEP[name].space.dimension == 2])
def test_all_taps_are_used_from_the_start(name):
    """The share of the center would be 1/25 if all taps were alike; sampled kernels leave out the corners."""
    torch.manual_seed(0)
    energy = Conv2d(DEEP[name], DEEP[name], 5, padding_mode="circular").expand()[0].detach().square().sum((0, 1))
    share = energy / energy.sum()
    rings = torch.stack([share[2, 2], share[1:4, 1:4].sum() - share[2, 2], 1 - share[1:4, 1:4].sum()])
    assert rings[0] < 0.25
    assert rings[1] > 0.15
    assert rings[2] > 0.15
