"""Angular times radial kernels: exact as functions of x, and convolution that commutes up to the sampling."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d, conv3d, pad

from intertwine.errors import EmptyKernelSpaceError, InputError, TypeMismatchError
from intertwine.groups import O2, O3, SO2, SO3, Cyclic, Dihedral, FiniteGroup, Icosahedral, Octahedral
from intertwine.kernels import SteerableKernelBasis, solve
from intertwine.spaces import Grid2d, Grid3d

CASES = [
    (SO2(), lambda g: g.irrep(0) + g.irrep(1) + g.irrep(2), lambda g: g.irrep(2) + g.irrep(3), 7),
    (O2(), lambda g: g.irrep(0) + g.irrep(0, -1) + g.irrep(1), lambda g: g.irrep(1) + g.irrep(0, -1), 5),
    (Cyclic(8), lambda g: g.regular, lambda g: g.regular + g.irrep(1), 5),
    (Dihedral(5), lambda g: g.regular + g.trivial, lambda g: g.irreps[-1], 5),
    (Cyclic(3), lambda g: g.quotient(g.subgroup([])), lambda g: g.irreps[1] @ g.irreps[1], 3),
    (SO3(), lambda g: g.irrep(0) + g.irrep(1), lambda g: g.irrep(1) + g.irrep(2), 5),
    (O3(), lambda g: g.irrep(1) + g.irrep(1, 1), lambda g: g.irrep(0) + g.irrep(2), 5),
    (Icosahedral(), lambda g: g.regular, lambda g: g.irreps[3], 3),
    (Octahedral(), lambda g: g.standard, lambda g: g.standard + g.trivial, 5),
]


def basis_of(case, **options) -> SteerableKernelBasis:
    group, first, second, k = case
    space = Grid2d(group) if group.standard.dim == 2 else Grid3d(group)
    return solve(space.field(first(group)), space.field(second(group)), kernel_size=k, method="steerable", **options)


def some_elements(group):
    if isinstance(group, FiniteGroup):
        return torch.arange(0, group.order, max(1, group.order // 5))
    elements = group.sample(4, torch.Generator().manual_seed(0))
    return (group.component_representatives[:, None] @ elements).flatten(0, 1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_constraint_holds_at_every_point(case):
    basis = basis_of(case)
    group, rho1, rho2 = basis.group, basis.in_type.rho, basis.out_type.rho
    assert basis.dim == basis.mackey_dim > 0
    assert basis.residual < 1e-10
    x = 2 * torch.randn(7, basis.space.dimension, dtype=torch.float64)
    values = basis.evaluate(x)
    for k in some_elements(group):
        g = int(k) if isinstance(group, FiniteGroup) else k
        moved = basis.evaluate(x @ basis.space.action(g).T)
        assert (moved - rho2(g) @ values @ rho1(group.inverse(g))).abs().max() < 1e-10


def test_a_wrong_representation_violates_it():
    basis = basis_of(CASES[0])
    x = torch.randn(7, 2, dtype=torch.float64)
    g = SO2().from_angle(0.4)
    untwisted = basis.evaluate(x @ g.T) - basis.evaluate(x)
    assert untwisted.abs().max() > 0.01


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_realizations(case):
    basis = basis_of(case)
    radii = torch.tensor([0.0, 0.7, 1.6], dtype=torch.float64)
    on_radii = basis.on_double_cosets(radii)
    assert on_radii.shape == (basis.dim, 3, basis.out_type.dim, basis.in_type.dim)
    # At the origin the whole group is the stabilizer: the value commutes with it.
    for k in some_elements(basis.group):
        g = int(k) if isinstance(basis.group, FiniteGroup) else k
        center = on_radii[:, 0]
        assert (basis.out_type.rho(g) @ center - center @ basis.in_type.rho(g)).abs().max() < 1e-10
    filters = basis.filters()
    assert filters.shape == (basis.dim, basis.out_type.dim, basis.in_type.dim, *basis.kernel_size)
    flat = filters.flatten(1)
    assert torch.linalg.matrix_rank(flat) == basis.dim
    weights = torch.randn(basis.dim, dtype=torch.float64)
    mixed = basis.filters(basis.combine(weights))
    assert (mixed - torch.einsum("k,k...->...", weights, filters)).abs().max() < 1e-12
    elements = some_elements(basis.group)[:3]
    on_group = basis.on_group(basis.coordinates[:3], elements)
    assert (on_group - basis.on_cosets()[:, :3] @ basis.in_type.rho(elements)).abs().max() < 1e-12


def test_known_dimensions():
    """SO(2): frequencies m1 → m2 take |m2 - m1| and m2 + m1; SO(3): every degree from |l1 - l2| to l1 + l2."""
    so2 = SO2()
    plane = Grid2d(so2)
    one_ring = {"kernel_size": 9, "rings": [3.0], "band_limit": 6}

    def planar(m1, m2):
        return solve(plane.field(so2.irrep(m1)), plane.field(so2.irrep(m2)), allow_empty=True, **one_ring).dim

    assert [planar(0, 0), planar(0, 2), planar(1, 1), planar(1, 3), planar(3, 4)] == [1, 2, 4, 4, 2]
    so3 = SO3()
    space = Grid3d(so3)
    one_shell = {"kernel_size": 7, "rings": [3.0], "band_limit": 4}

    def spatial(l1, l2):
        return solve(space.field(so3.irrep(l1)), space.field(so3.irrep(l2)), allow_empty=True, **one_shell).dim

    assert [spatial(0, 0), spatial(0, 2), spatial(1, 1), spatial(1, 2), spatial(2, 3)] == [1, 1, 3, 3, 4]
    o3 = O3()
    full = Grid3d(o3)
    vector, pseudo = full.field(o3.irrep(1)), full.field(o3.irrep(1, 1))
    assert solve(vector, vector, **one_shell).dim == 2
    assert solve(vector, pseudo, **one_shell).dim == 1


def smooth_field(field, size, sigma):
    x = torch.arange(size, dtype=torch.float64) - size // 2
    blur = torch.exp(-(x**2) / (2 * sigma**2))
    noise = torch.randn(field.dim, size, size, dtype=torch.float64)
    spectrum = torch.fft.fft(noise, dim=-1) * torch.fft.fft(torch.fft.ifftshift(blur))
    spectrum = torch.fft.fft(spectrum, dim=-2) * torch.fft.fft(torch.fft.ifftshift(blur))[:, None]
    smooth = torch.fft.ifft2(spectrum).real
    taper = torch.exp(-(((x[:, None] ** 2 + x**2) / (0.3 * size) ** 2) ** 2))
    return smooth * taper


def rotation_error(basis, angle):
    in_type, out_type = basis.in_type, basis.out_type
    filters = basis.filters(basis.combine(torch.randn(basis.dim, dtype=torch.float64)))
    f = smooth_field(in_type, 65, 2.5)
    g = basis.space.motion([0, 0], angle)
    k = basis.kernel_size[0] // 2

    def layer(f):
        return conv2d(pad(f[None], (k,) * 4), filters)[0]

    left, right = layer(in_type.transform(f, g, padding="zeros")), out_type.transform(layer(f), g, padding="zeros")
    return float((left - right).norm() / right.norm())


def test_convolution_commutes_with_turns_of_the_lattice_exactly():
    for group, turn in ((Cyclic(8), 2), (SO2(), SO2().from_angle(torch.pi / 2))):
        first, second = (
            (group.regular,) * 2 if group == Cyclic(8) else (group.irrep(1) + group.irrep(0), group.irrep(2))
        )
        plane = Grid2d(group)
        basis = solve(plane.field(first), plane.field(second), kernel_size=5)
        assert isinstance(basis, SteerableKernelBasis)
        assert rotation_error(basis, turn) < 1e-12


def test_convolution_commutes_with_other_turns_up_to_the_sampling():
    plane = Grid2d(SO2())
    group = SO2()
    basis = solve(plane.field(group.irrep(0) + group.irrep(1)), plane.field(group.irrep(1)), kernel_size=5)
    assert rotation_error(basis, group.from_angle(torch.pi / 4)) < 0.02
    eighth = Cyclic(8)
    plane8 = Grid2d(eighth)
    basis8 = solve(plane8.field(eighth.regular), plane8.field(eighth.regular), kernel_size=5)
    assert rotation_error(basis8, 1) < 0.02


def test_a_plain_filter_does_not():
    plane = Grid2d(SO2())
    field = plane.field(SO2().trivial)
    basis = solve(field, field, kernel_size=5)
    basis.combine = lambda w: torch.randn(25, 1, 1, dtype=torch.float64)
    assert rotation_error(basis, SO2().from_angle(torch.pi / 4)) > 0.1


def test_convolution_in_space_commutes_with_quarter_turns():
    group = SO3()
    space = Grid3d(group)
    in_type, out_type = space.field(group.irrep(0) + group.irrep(1)), space.field(group.irrep(2))
    basis = solve(in_type, out_type, kernel_size=3)
    filters = basis.filters(basis.combine(torch.randn(basis.dim, dtype=torch.float64)))
    f = torch.randn(in_type.dim, 6, 6, 6, dtype=torch.float64)

    def layer(f):
        return conv3d(pad(f[None], (1,) * 6, mode="circular"), filters)[0]

    for r in Octahedral().standard.matrices[[1, 7, 16]]:
        g = space.motion([0, 0, 0], r)
        assert (layer(in_type.transform(f, g)) - out_type.transform(layer(f), g)).abs().max() < 1e-12


def test_lattice_and_steerable_kernels_overlap():
    """On the lattice the steerable basis is a subspace of the exact one."""
    group = Dihedral(4)
    plane = Grid2d(group)
    types = plane.field(group.regular), plane.field(group.irrep(1))
    steerable = solve(*types, kernel_size=5, method="steerable").filters().flatten(1)
    exact = solve(*types, kernel_size=5).filters().flatten(1)
    assert (steerable @ exact.T @ exact - steerable).abs().max() < 1e-10


class TestErrors:
    def test_band_limit_beyond_the_taps(self):
        field = Grid2d(Cyclic(2)).field(Cyclic(2).trivial)
        with pytest.raises(InputError, match=r"a band limit that the taps resolve; got \d+ kernels.*3 x 3 taps"):
            solve(field, field, kernel_size=3, method="steerable", band_limit=lambda r: 8)

    def test_negative(self):
        field = Grid2d(SO2()).field(SO2().trivial)
        with pytest.raises(InputError, match="got radius -1 with band limit"):
            solve(field, field, kernel_size=3, rings=[-1])
        with pytest.raises(InputError, match=r"positive widths sigma; got .* width 0"):
            solve(field, field, kernel_size=3, sigma=0)

    def test_empty(self):
        group = SO2()
        plane = Grid2d(group)
        with pytest.raises(EmptyKernelSpaceError, match=r"no harmonic .* couples"):
            solve(plane.field(group.irrep(0)), plane.field(group.irrep(6)), kernel_size=3)

    def test_two_grids(self):
        with pytest.raises(TypeMismatchError, match="two field types on one grid"):
            solve(Grid2d(SO2()).field(SO2().trivial), Grid2d(O2()).field(O2().trivial), kernel_size=3)

    def test_lattice_method_for_another_group(self):
        field = Grid2d(Cyclic(8)).field(Cyclic(8).trivial)
        with pytest.raises(TypeMismatchError, match="a group that maps the lattice to itself"):
            solve(field, field, kernel_size=3, method="lattice")

    def test_weights(self):
        field = Grid2d(SO2()).field(SO2().trivial)
        basis = solve(field, field, kernel_size=3)
        with pytest.raises(InputError, match="2 weights"):
            basis.combine(torch.zeros(5))
