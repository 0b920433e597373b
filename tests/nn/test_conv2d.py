"""Convolution: values, the kept filter, strides and sizes, options, errors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.functional import conv2d, cross_entropy

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import O2, SO2, Cyclic, Dihedral
from intertwine.nn import Approximate, Conv2d, Exact
from intertwine.nn._centers import moving_axes
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace
from intertwine.testing import assert_equivariant

C4, D4, C8, D1 = Cyclic(4), Dihedral(4), Cyclic(8), Dihedral(1)
PLANE = Grid2d(C4)
REGULAR = PLANE.field(2 * C4.regular)


def test_scalar_filters_are_ring_by_ring():
    one = PLANE.field(C4.trivial)
    layer = Conv2d(one, one, 3, bias=False)
    assert [tuple(w.shape) for w in layer.weights] == [(1, 1, 3)]
    filters, bias = layer.expand()
    assert bias is None
    assert torch.equal(filters, filters.rot90(1, (-2, -1)))
    assert len(filters.unique()) == 3


def test_group_convolution_by_hand():
    layer = Conv2d(PLANE.field(C4.trivial), PLANE.field(C4.regular), 3, padding=1)
    x = torch.randn(1, 1, 9, 9)
    filters, _ = layer.expand()
    turned = torch.cat([filters[:1].rot90(h, (-2, -1)) for h in range(4)])  # one filter and its turns
    assert (layer(x) - conv2d(x, turned, padding=1)).abs().max() < 1e-6


class TestKeptFilter:
    """A filter that is kept in evaluation must never be stale."""

    def made(self):
        layer = Conv2d(REGULAR, REGULAR, 3).eval()
        x = torch.randn(1, 8, 7, 7)
        with torch.no_grad():
            before = layer(x)
        assert layer._cache._value is not None
        return layer, x, before

    def check(self, layer, x, before):
        with torch.no_grad():
            after = layer(x)
            fresh = copy.deepcopy(layer)(x)
        assert torch.equal(after, fresh)
        assert not torch.allclose(after, before)

    @pytest.mark.parametrize(("gradients", "frozen"), [(True, False), (False, False), (True, True)])
    def test_when_it_is_kept(self, gradients, frozen):
        """In plain evaluation mode the weights could still need a gradient, so the filter is recomputed."""
        layer = Conv2d(REGULAR, REGULAR, 3).eval().requires_grad_(not frozen)
        with torch.set_grad_enabled(gradients):
            layer(torch.randn(1, 8, 5, 5))
        assert (layer._cache._value is not None) == (frozen or not gradients)

    def test_it_is_kept(self):
        layer, x, before = self.made()
        kept = layer._cache._value
        with torch.no_grad():
            assert torch.equal(layer(x), before)
        assert layer._cache._value is kept

    def test_in_place(self):
        layer, x, before = self.made()
        with torch.no_grad():
            layer.weights[0].mul_(2)
        self.check(layer, x, before)

    def test_in_place_through_data(self):
        layer, x, before = self.made()
        layer.weights[0].data.mul_(2)
        self.check(layer, x, before)

    def test_bias(self):
        layer, x, before = self.made()
        layer.bias.data.add_(1)
        self.check(layer, x, before)

    @pytest.mark.parametrize("assign", [False, True])
    @pytest.mark.parametrize("strict", [False, True])
    def test_loading(self, assign, strict):
        layer, x, before = self.made()
        state = Conv2d(REGULAR, REGULAR, 3).state_dict()
        layer.load_state_dict(state, assign=assign, strict=strict)
        self.check(layer, x, before)

    def test_a_new_parameter(self):
        layer, x, before = self.made()
        layer.weights[0] = torch.nn.Parameter(torch.randn_like(layer.weights[0]))
        self.check(layer, x, before)

    def test_optimizer(self):
        layer, x, before = self.made()
        layer(x).square().sum().backward()  # fine tuning in evaluation mode: gradients flow
        torch.optim.SGD(layer.parameters(), 0.1).step()
        self.check(layer, x, before)

    def test_precision(self):
        layer, x, before = self.made()
        with torch.no_grad():
            assert (layer.double()(x.double()) - before).abs().max() < 1e-5
        assert layer._cache._value[0].dtype == torch.float64

    def test_training_forgets(self):
        layer, _, _ = self.made()
        layer.train()
        assert layer._cache._value is None

    def test_inference_mode_leaves_nothing_unusable(self):
        layer = Conv2d(REGULAR, REGULAR, 3).eval().requires_grad_(False)
        x = torch.randn(1, 8, 7, 7)
        with torch.inference_mode():
            layer(x)
        y = x.clone().requires_grad_()
        layer(y).sum().backward()
        assert y.grad.abs().sum() > 0


def test_functional_calls():
    layer = Conv2d(REGULAR, REGULAR, 3)
    x = torch.randn(3, 8, 7, 7)
    for mode in (True, False):
        layer.train(mode)
        state = {key: 2 * value.detach() for key, value in layer.named_parameters()}
        with torch.no_grad():
            doubled = torch.func.functional_call(layer, state, (x,))
        assert (doubled - 2 * layer(x)).abs().max() < 1e-5

        def loss(state, x):
            return torch.func.functional_call(layer, state, (x[None],)).square().sum()

        each = torch.func.vmap(torch.func.grad(loss), (None, 0))(dict(layer.named_parameters()), x)
        layer.zero_grad()
        layer(x).square().sum().backward()
        assert torch.allclose(each["weights.0"].sum(0), layer.weights[0].grad, rtol=1e-3, atol=1e-3)


class TestStride:
    def test_other_sizes_are_refused(self):
        layer = Conv2d(REGULAR, REGULAR, 3, stride=2, padding=1)
        layer(torch.randn(1, 8, 33, 33))
        with pytest.raises(InputError, match=r"expected 31 or 33 along the height.*got 32.*not commute with C4"):
            layer(torch.randn(1, 8, 32, 33))
        with pytest.raises(InputError, match=r"expected 31 or 33 along the width"):
            layer(torch.randn(1, 8, 33, 32))

    def test_what_is_refused_is_really_broken(self):
        layer = Conv2d(REGULAR, REGULAR, 3, stride=2, padding=1, allow_asymmetric=True)
        assert isinstance(layer.claim, Approximate)
        assert assert_equivariant(layer, size=33) < 1e-12
        with pytest.raises(AssertionError, match="does not commute with element 1 of C4"):
            assert_equivariant(layer, size=32)

    @pytest.mark.parametrize(
        ("k", "stride", "padding", "dilation"), [(4, 2, 1, 1), (2, 2, 0, 1), (3, 3, 1, 2), (5, 4, 2, 1)]
    )
    def test_every_size_is_either_exact_or_refused(self, k, stride, padding, dilation):
        layer = Conv2d(REGULAR, REGULAR, k, stride=stride, padding=padding, dilation=dilation)
        taken = []
        for size in range(8, 20):
            try:
                layer.output_sizes((size, size))
            except InputError:
                continue
            taken.append(size)
            assert assert_equivariant(layer, size=size) < 1e-12
        assert len(taken) in (12 // stride, 12 // stride + 1)

    def test_one_mirror_leaves_the_other_axis_free(self):
        field = Grid2d(D1).field(D1.regular)
        layer = Conv2d(field, field, 3, stride=2, padding=1)
        axes = moving_axes(field.space)
        assert len(axes) == 1
        good = (33, 32) if axes == (0,) else (32, 33)
        layer(torch.randn(1, 2, *good))
        with pytest.raises(InputError, match="not commute with D1"):
            layer(torch.randn(1, 2, *good[::-1]))

    def test_no_symmetry_no_question(self):
        C1 = Cyclic(1)
        field = Grid2d(C1).field(3 * C1.trivial)
        assert Conv2d(field, field, 3, stride=2)(torch.randn(1, 3, 32, 17)).shape == (1, 3, 15, 8)


class TestOptions:
    def test_uneven_options(self):
        for options in ({"stride": (1, 2)}, {"padding": (1, 0)}, {"dilation": (2, 1)}):
            with pytest.raises(InputError, match="C4 mixes them"):
                Conv2d(REGULAR, REGULAR, 3, **options)
        with pytest.raises(InputError, match=r"kernel_size=\(3, 5\)"):
            Conv2d(REGULAR, REGULAR, (3, 5))
        field = Grid2d(D1).field(D1.regular)
        assert assert_equivariant(Conv2d(field, field, (3, 5), padding=(0, 2), dilation=(2, 1))) < 1e-12

    @pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
    def test_padding_modes(self, mode):
        layer = Conv2d(REGULAR, REGULAR, 5, padding=2, padding_mode=mode)
        assert assert_equivariant(layer) < 1e-12
        assert (layer.shift_step((9, 9)) == 1) == (mode == "circular")

    def test_same(self):
        layer = Conv2d(REGULAR, REGULAR, 3, padding="same", dilation=2)
        assert layer(torch.randn(1, 8, 9, 9)).shape == (1, 8, 9, 9)
        with pytest.raises(InputError, match="odd kernel"):
            Conv2d(REGULAR, REGULAR, 4, padding="same")

    def test_groups(self):
        four = PLANE.field(4 * C4.regular)
        layer = Conv2d(four, PLANE.field(2 * C4.regular), 3, groups=2)
        assert tuple(layer.expand()[0].shape) == (8, 8, 3, 3)
        assert assert_equivariant(layer) < 1e-12
        x = torch.randn(1, 16, 7, 7)
        y = x.clone()
        y[:, 8:] = 0
        assert torch.allclose(layer(x)[:, :4], layer(y)[:, :4], atol=1e-6)
        with pytest.raises(TypeMismatchError, match="groups=3 equal parts"):
            Conv2d(four, four, 3, groups=3)
        with pytest.raises(TypeMismatchError, match="groups=2 equal parts"):
            Conv2d(PLANE.field(C4.trivial + C4.regular), four, 3, groups=2)

    def test_bias_lives_in_the_trivial_components(self):
        plane = Grid2d(D4)
        mixed = plane.field(D4.irrep(1) + 2 * D4.regular + D4.irrep(0, -1) + D4.trivial)
        layer = Conv2d(mixed, mixed, 3)
        assert layer.bias.shape == (3,)
        assert Conv2d(mixed, plane.field(D4.irrep(1)), 3).bias is None
        with torch.no_grad():
            layer.bias.normal_()
        bias = layer.expand()[1].double()
        for h in range(D4.order):
            assert (mixed.rho(h) @ bias - bias).abs().max() < 1e-6

    def test_hexagons(self):
        C6 = Cyclic(6)
        plane = Grid2d(C6, lattice="hexagonal")
        field = plane.field(C6.regular)
        layer = Conv2d(field, field, 5, padding=2, padding_mode="circular")
        assert isinstance(layer.claim, Exact)
        assert assert_equivariant(layer, size=9) < 1e-12

    def test_errors(self):
        with pytest.raises(TypeMismatchError, match="field types on one plane"):
            Conv2d(REGULAR, Grid2d(D4).field(D4.trivial), 3)
        with pytest.raises(TypeMismatchError, match="field types on one plane"):
            Conv2d(*[HomogeneousSpace(C4, C4).field(C4.trivial)] * 2, 3)
        with pytest.raises(InputError, match="kernel_size of at least 1"):
            Conv2d(REGULAR, REGULAR, 0)
        with pytest.raises(InputError, match="padding_mode"):
            Conv2d(REGULAR, REGULAR, 3, padding_mode="mirror")
        with pytest.raises(InputError, match="at least 5 along the height"):
            Conv2d(REGULAR, REGULAR, 5)(torch.randn(1, 8, 4, 9))


@pytest.mark.parametrize("k", [3, 5, 7])
@pytest.mark.parametrize("group", [C8, Cyclic(16), Dihedral(8), SO2(), O2()], ids=str)
def test_turns_by_45_degrees(group, k):
    plane = Grid2d(group)
    rho = group.regular if group.is_finite else group.irrep(0) + group.irrep(1) + group.irrep(2)
    field = plane.field(rho)
    layer = Conv2d(field, field, k, padding=k // 2)
    assert isinstance(layer.claim, Approximate)
    layer._claim = Approximate(layer.claim.because, bound=0.04)
    assert assert_equivariant(layer, size=49) < 1e-12
    layer._claim = Approximate(layer.claim.because, bound=1e-5)
    with pytest.raises(AssertionError, match="allowed 1e-05"):
        assert_equivariant(layer, size=49)


def test_single_precision_error():
    for group in (C4, D4):
        field = Grid2d(group).field(2 * group.regular)
        layer = Conv2d(field, field, 5, padding=2)
        x = torch.randn(1, field.dim, 33, 33)
        g = field.space.motion([0, 0], 1)
        with torch.no_grad():
            left, right = layer(field.transform(x, g)), field.transform(layer(x), g)
        assert (left - right).norm() < 5e-7 * right.norm()


def test_made_elsewhere_and_filled_later():
    with torch.device("meta"):
        layer = Conv2d(REGULAR, REGULAR, 3)
    assert all(t.device.type == "meta" for t in (*layer.parameters(), *layer.buffers()))
    twin = Conv2d(REGULAR, REGULAR, 3)
    layer = layer.to_empty(device="cpu")
    layer.load_state_dict(twin.state_dict())
    x = torch.randn(1, 8, 7, 7)
    assert torch.equal(layer(x), twin(x))


def test_it_learns():
    torch.manual_seed(0)
    layer = Conv2d(PLANE.field(C4.trivial), PLANE.field(4 * C4.trivial), 5)
    x, y = torch.randn(8, 1, 5, 5), torch.arange(8) % 4
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = cross_entropy(layer(x)[..., 0, 0], y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    turned = layer(x.rot90(1, (-2, -1)))
    assert torch.allclose(turned, layer(x), atol=1e-4)


def test_a_solid_is_not_a_plane():
    from intertwine.groups import Octahedral

    cube = Octahedral()
    field = Grid3d(cube).field(cube.trivial)
    with pytest.raises(TypeMismatchError, match="field types on one plane"):
        Conv2d(field, field, 3)
