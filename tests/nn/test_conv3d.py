"""Convolution in 3-space: values, sizes, groups, recorded facts of other libraries."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv3d

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import O3, SO3, Cyclic, Icosahedral, Octahedral, Tetrahedral
from intertwine.kernels import solve
from intertwine.nn import Approximate, AvgPool3d, Conv2d, Conv3d, Exact, MaxPool3d
from intertwine.nn._centers import mixed_axes, moving_axes
from intertwine.spaces import Grid2d, Grid3d
from intertwine.testing import assert_equivariant

CUBE, OH, SO, ICO = Octahedral(), Octahedral(reflections=True), SO3(), Icosahedral()
SPACE = Grid3d(CUBE)


def turned(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """(x(r⁻¹ p)) on a cube by flips and transpositions: x, y, z run with the last, middle and first axis."""
    out = torch.empty_like(x)
    n = x.shape[-1]
    c = (n - 1) / 2
    for z in range(n):
        for y in range(n):
            for w in range(n):
                p = matrix.T @ torch.tensor([w - c, y - c, z - c], dtype=torch.float64) + c
                i, j, k = (round(float(v)) for v in p)
                out[..., z, y, w] = x[..., k, j, i]
    return out


def test_group_convolution_by_hand():
    layer = Conv3d(SPACE.field(CUBE.trivial), SPACE.field(CUBE.regular), 3, padding=1)
    filters, _ = layer.expand()
    first = filters[:1]
    by_hand = torch.cat([turned(first, CUBE.standard(h)) for h in range(CUBE.order)])
    assert torch.equal(filters, by_hand), "one filter and its 24 turns"
    x = torch.randn(1, 1, 7, 7, 7)
    assert (layer(x) - conv3d(x, by_hand, padding=1)).abs().max() < 1e-6


@pytest.mark.parametrize("group", [CUBE, OH], ids=str)
def test_regular_fields_commute_exactly(group):
    field = Grid3d(group).field(group.regular)
    layer = Conv3d(field, field, 3, padding=1)
    assert isinstance(layer.claim, Exact)
    assert layer.expansion.blocks[0].way == "gather"
    assert assert_equivariant(layer, size=5) < 1e-12
    with torch.no_grad():
        layer.expansion.blocks[0].flat[0] += 1  # a wrong entry must show
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer, size=5)


@pytest.mark.parametrize("number", range(1, len(CUBE.subgroup_classes())))
def test_every_subgroup_of_the_cube(number):
    group = CUBE.subgroup_classes()[number].representative
    field = Grid3d(group).field(group.regular + group.irreps[-1])
    layer = Conv3d(field, field, 3, padding=1, padding_mode="circular")
    assert isinstance(layer.claim, Exact)
    assert assert_equivariant(layer, size=5) < 1e-12


@pytest.mark.parametrize("group", [ICO, pytest.param(Icosahedral(reflections=True), marks=pytest.mark.slow)], ids=str)
def test_icosahedron(group):
    space = Grid3d(group)
    field = space.field(group.regular)
    layer = Conv3d(field, field, 3, padding=1)
    assert [block.way for block in layer.expansion.blocks] == ["regular"]
    # K[h2, h1, x] = κ(h2⁻¹ h1, h2⁻¹ x): under the 12 rotations that keep the lattice, tap by tap.
    filters = layer.double().expand()[0].flatten(2)
    taps = space.coordinates((3, 3, 3)).reshape(-1, 3)
    kept = [h for h in range(group.order) if torch.equal(space.matrices(h), space.matrices(h).round())]
    assert len(kept) == 12 * group.order // 60
    for h in kept:
        place = torch.cdist(taps @ space.matrices(h).T, taps).argmin(1)
        to = group.table[h]
        assert (filters[to][:, to][..., place] - filters).abs().max() < 1e-12


@pytest.mark.slow
def test_turns_of_the_icosahedron_that_leave_the_lattice():
    field = Grid3d(ICO).field(ICO.regular)
    layer = Conv3d(field, field, 3, padding=1)
    layer._claim = Approximate("sampled", bound=0.1)
    assert assert_equivariant(layer) < 1e-12


@pytest.mark.parametrize(("group", "k"), [(SO, 5), (O3(), 3)], ids=str)
def test_irreducibles(group, k):
    space = Grid3d(group)
    field = space.field(group.irrep(0) + group.irrep(1))
    layer = Conv3d(field, field, k, padding=k // 2)
    layer._claim = Approximate("sampled", bound=0.1)
    assert assert_equivariant(layer) < 1e-12
    layer._claim = Approximate("sampled", bound=1e-6)
    with pytest.raises(AssertionError, match="a random turn"):
        assert_equivariant(layer)


def test_a_composite_summand_is_the_sum_of_its_irreducibles():
    space = Grid3d(SO)
    product = space.field(SO.irrep(1) @ SO.irrep(1))
    layer = Conv3d(product, product, 5, padding=2)
    assert [block.way for block in layer.expansion.blocks] == ["harmonic"]
    pieces = space.field(SO.irrep(0) + SO.irrep(1) + SO.irrep(2))
    count = sum(w.numel() for w in Conv3d(pieces, pieces, 5).weights)
    assert sum(w.numel() for w in layer.weights) == count
    assert assert_equivariant(layer, size=9) < 1e-12


class TestSizes:
    FIELD = SPACE.field(CUBE.trivial + CUBE.irreps[3])

    @pytest.mark.parametrize(("k", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (4, 3, 1)])
    def test_every_size_is_either_exact_or_refused(self, k, stride, padding):
        layer = Conv3d(self.FIELD, self.FIELD, k, stride=stride, padding=padding)
        loose = Conv3d(self.FIELD, self.FIELD, k, stride=stride, padding=padding, allow_asymmetric=True)
        for size in range(5, 9):
            try:
                layer.output_sizes((size,) * 3)
            except InputError:
                with pytest.raises(AssertionError, match="does not commute"):
                    assert_equivariant(loose, size=size)
                continue
            assert assert_equivariant(layer, size=size) < 1e-12

    def test_the_message_names_the_axis(self):
        layer = Conv3d(self.FIELD, self.FIELD, 3, stride=2, padding=1)
        for axis, name in enumerate(("depth", "height", "width")):
            sizes = [7, 7, 7]
            sizes[axis] = 8
            with pytest.raises(InputError, match=rf"expected 7 or 9 along the {name}"):
                layer(torch.zeros(1, 4, *sizes))

    def test_a_turn_about_one_axis_leaves_it_free(self):
        about_z = CUBE.subgroup([h for h in range(24) if CUBE.standard(h)[2, 2] == 1])
        assert about_z.order == 4
        space = Grid3d(about_z)
        assert moving_axes(space) == (1, 2)
        assert mixed_axes(space) == ((1, 2),)
        field = space.field(about_z.regular)
        layer = Conv3d(field, field, (2, 3, 3), stride=(3, 2, 2), padding=(0, 1, 1))
        x = torch.randn(1, 4, 9, 7, 7, dtype=torch.float64)
        layer = layer.double()
        assert layer.output_sizes((9, 7, 7)) == (3, 4, 4)
        for h in range(4):
            g = space.motion([0, 0, 0], h)
            assert (layer(field.transform(x, g)) - field.transform(layer(x), g)).abs().max() < 1e-12
        with pytest.raises(InputError, match="along the width"):
            layer(torch.zeros(1, 4, 9, 7, 8, dtype=torch.float64))
        with pytest.raises(InputError, match=r"equal options along height and width.*kernel_size=\(3, 3, 5\)"):
            Conv3d(field, field, (3, 3, 5))

    def test_axes_that_only_change_places_need_no_center(self):
        swap = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64)
        group = Cyclic(2)
        action = group.representation(torch.stack([torch.eye(3, dtype=torch.float64), swap]), name="x with y")
        space = Grid3d(group, action=action)
        assert moving_axes(space) == ()
        assert mixed_axes(space) == ((1, 2),)
        field = space.field(group.regular)
        layer = Conv3d(field, field, 3, stride=2)
        assert assert_equivariant(layer, size=8) < 1e-12


def test_pools():
    field = SPACE.field(CUBE.regular)
    for pool in (AvgPool3d, MaxPool3d):
        with pytest.raises(InputError, match="expected 6 or 8 along the depth"):
            pool(field, 2)(torch.zeros(1, 24, 7, 8, 8))
        loose = pool(field, 2, allow_asymmetric=True)
        with pytest.raises(AssertionError, match="does not commute"):
            assert_equivariant(loose, size=7)
    with pytest.raises(TypeMismatchError, match="permutes the channels"):
        MaxPool3d(SPACE.field(CUBE.irreps[3]), 2)
    with pytest.raises(TypeMismatchError, match="field types on one 3-space"):
        AvgPool3d(Grid2d(Cyclic(4)).field(Cyclic(4).regular), 2)


def test_a_plane_is_not_a_solid():
    field = Grid2d(Cyclic(4)).field(Cyclic(4).regular)
    with pytest.raises(TypeMismatchError, match="field types on one 3-space"):
        Conv3d(field, field, 3)


class TestRecordedFacts:
    """Numbers of parameters that escnn 1.0.11 has for the same layers, biases counted."""

    def count(self, layer):
        return sum(p.numel() for p in layer.parameters())

    @pytest.mark.parametrize(("order", "counts"), [(8, {3: 3080, 5: 5640, 7: 9224}), (16, {3: 1540, 5: 2820, 7: 4612})])
    def test_plane_off_the_lattice(self, order, counts):
        group = Cyclic(order)
        field = Grid2d(group).field(64 // order * group.regular)
        assert {k: self.count(Conv2d(field, field, k)) for k in counts} == counts

    @pytest.mark.parametrize(
        ("name", "counts"), [("C4", {3: 6160, 5: 11280, 7: 18448}), ("D4", {3: 3080, 5: 5640, 7: 9224})]
    )
    def test_plane_on_the_lattice(self, name, counts):
        """There the other library keeps to band-limited filters, while ours are all: every tap is free."""
        from intertwine.groups import parse_finite

        group = parse_finite(name)
        regular, copies = Grid2d(group).field(group.regular), 64 // group.order
        field = Grid2d(group).field(copies * group.regular)
        for k, count in counts.items():
            limited = solve(regular, regular, kernel_size=k, method="steerable").dim
            assert copies**2 * limited + copies == count
            assert self.count(Conv2d(field, field, k)) == copies**2 * group.order * k**2 + copies

    @pytest.mark.parametrize(("copies", "k", "count"), [(1, 3, 241), (2, 3, 962), (2, 5, 1826)])
    def test_cube(self, copies, k, count):
        """As in the plane: functions up to the band limit with all their turns there, all functions here."""
        limited = (
            CUBE.order
            * solve(SPACE.field(CUBE.trivial), SPACE.field(CUBE.regular), kernel_size=k, method="steerable").dim
        )
        assert copies**2 * limited + copies == count
        field = SPACE.field(copies * CUBE.regular)
        assert self.count(Conv3d(field, field, k)) == copies**2 * CUBE.order * k**3 + copies

    def test_icosahedron(self):
        field = Grid3d(ICO).field(ICO.regular)
        assert self.count(Conv3d(field, field, 3)) == 601

    @pytest.mark.parametrize(
        ("degrees", "copies", "k", "count"),
        [
            ((1, 1, 1), 4, 5, 532),
            ((1, 3), 4, 5, 1252),  # functions on the group up to degree 1
            ((1, 3, 5), 2, 3, 858),  # and up to degree 2
            ((1, 3, 5), 2, 5, 1574),
        ],
    )
    def test_rotations(self, degrees, copies, k, count):
        pieces = [n * SO.irrep(l) for l, n in enumerate(degrees)]
        rho = sum(pieces[1:], pieces[0])
        field = Grid3d(SO).field(copies * rho)
        assert self.count(Conv3d(field, field, k)) == count


ORDER = [1, 2, 0]  # e3nn's polar axis is y: its coordinates are ours in this order


@pytest.mark.parametrize("l1", range(3))
@pytest.mark.parametrize("l2", range(3))
def test_kernels_are_those_of_e3nn(l1, l2):
    """Wigner's 3j symbols times spherical harmonics: the same kernel up to a factor for every degree J."""
    o3 = pytest.importorskip("e3nn.o3")
    space = Grid3d(SO)
    basis = solve(space.field(SO.irrep(l1)), space.field(SO.irrep(l2)), kernel_size=7, rings=[2.0], band_limit=4)
    x = torch.nn.functional.normalize(torch.randn(40, 3, dtype=torch.float64), dim=1)
    ours = basis.evaluate(2 * x)  # on the shell, where the radial factor is one number
    degrees = range(abs(l1 - l2), l1 + l2 + 1)
    assert len(ours) == len(degrees)
    for j, kernel in zip(degrees, ours, strict=True):
        y = o3.spherical_harmonics(j, x[:, ORDER], normalize=True, normalization="integral")
        theirs = torch.einsum("abm,pm->pab", o3.wigner_3j(l2, l1, j, dtype=torch.float64), y)
        factor = (kernel * theirs).sum() / theirs.square().sum()
        assert (kernel - factor * theirs).abs().max() < 1e-11 * kernel.abs().max()
        wrong = torch.einsum("abm,pm->pab", o3.wigner_3j(l2, l1, j, dtype=torch.float64), y[torch.randperm(40)])
        if j:
            assert (kernel - factor * wrong).abs().max() > 0.01 * kernel.abs().max()


def test_tetrahedron_of_complex_type():
    group = Tetrahedral()
    field = Grid3d(group).field(2 * group.irreps[1] + group.irreps[-1])
    layer = Conv3d(field, field, 3, padding=1)
    assert assert_equivariant(layer, size=5) < 1e-12
