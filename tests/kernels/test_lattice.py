"""Filters on lattices: known dimensions, the constraint, and convolution that commutes with motions."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d, conv3d, pad

from intertwine.errors import EmptyKernelSpaceError, InputError, TypeMismatchError
from intertwine.groups import Cyclic, Dihedral, Octahedral
from intertwine.kernels import solve
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace


@pytest.mark.parametrize(
    ("group", "dims"), [(Cyclic(4), (7, 25, 100)), (Dihedral(4), (6, 25, 200)), (Cyclic(1), (25, 25, 25))], ids=str
)
def test_five_by_five(group, dims):
    plane = Grid2d(group)
    one, many = plane.field(group.trivial), plane.field(group.regular)
    assert tuple(solve(a, b, kernel_size=5).dim for a, b in ((one, one), (one, many), (many, many))) == dims


def null_space_dim(group, plane, rho1, rho2, k):
    """The constraint κ(rx) = ρ2(r) κ(x) ρ1(r)⁻¹ written out for all taps and generators, and its null space."""
    taps = plane.coordinates((k, k)).reshape(-1, 2)
    rows = []
    n = len(taps) * rho2.dim * rho1.dim
    for r in group.generators:
        source = torch.cdist(taps @ plane.matrices(r).T, taps).argmin(1)  # tap rx for each tap x
        shift = torch.eye(len(taps), dtype=torch.float64)[source]
        twist = torch.kron(rho2(r).contiguous(), rho1(int(group.inverse(r))).T.contiguous())
        left = torch.kron(shift, torch.eye(rho2.dim * rho1.dim, dtype=torch.float64))
        right = torch.kron(torch.eye(len(taps), dtype=torch.float64), twist)
        rows.append(left - right)
    return n - int(torch.linalg.matrix_rank(torch.cat(rows)))


@pytest.mark.parametrize("group", [Cyclic(2), Cyclic(4), Dihedral(1), Dihedral(2), Dihedral(4)], ids=str)
@pytest.mark.parametrize("k", [2, 3])
def test_against_the_null_space_of_the_constraint(group, k):
    plane = Grid2d(group)
    for rho1 in group.irreps:
        for rho2 in (*group.irreps, group.regular):
            basis = solve(plane.field(rho1), plane.field(rho2), kernel_size=k, allow_empty=True)
            assert basis.dim == null_space_dim(group, plane, rho1, rho2, k)


@pytest.mark.parametrize("group", [Cyclic(4), Dihedral(1), Dihedral(2), Dihedral(4)], ids=str)
@pytest.mark.parametrize("k", [3, 4, 5])
def test_convolution_commutes_with_motions(group, k):
    plane = Grid2d(group)
    in_type, out_type = plane.field(group.regular + group.irreps[-1]), plane.field(group.irreps[-1] + group.trivial)
    basis = solve(in_type, out_type, kernel_size=k)
    filters = basis.filters(basis.combine(torch.randn(basis.dim, dtype=torch.float64)))
    f = torch.randn(1, in_type.dim, 9, 9, dtype=torch.float64)

    def layer(f):
        return conv2d(pad(f, ((k - 1) // 2, k // 2) * 2, mode="circular"), filters)

    for r in range(group.order):
        # An even filter is centered between pixels, half a pixel off the sample to which its output is written.
        turn, back = plane.motion([0, 0], r), plane.motion([0, 0], 0)
        if k % 2 == 0:
            half = torch.tensor([0.5, -0.5], dtype=torch.float64)
            back = plane.motion(plane.matrices(r) @ half - half, 0)
        left = layer(in_type.transform(f, turn))
        right = out_type.transform(out_type.transform(layer(f), turn), back)
        assert (left - right).abs().max() < 1e-12
    shift = plane.motion([2, -1], 0)
    assert (layer(in_type.transform(f, shift)) - out_type.transform(layer(f), shift)).abs().max() < 1e-12


def test_an_unconstrained_filter_does_not_commute():
    group = Cyclic(4)
    field = Grid2d(group).field(group.regular)
    filters = torch.randn(4, 4, 3, 3, dtype=torch.float64)
    f = torch.randn(1, 4, 9, 9, dtype=torch.float64)
    turn = field.space.motion([0, 0], 1)

    def layer(f):
        return conv2d(pad(f, (1,) * 4, mode="circular"), filters)

    assert (layer(field.transform(f, turn)) - field.transform(layer(f), turn)).abs().max() > 1


@pytest.mark.parametrize("group", [Octahedral(), Octahedral(reflections=True)], ids=str)
def test_convolution_in_space(group):
    space = Grid3d(group)
    in_type, out_type = space.field(group.standard + group.trivial), space.field(group.irreps[2] + group.standard)
    basis = solve(in_type, out_type, kernel_size=3)
    filters = basis.filters(basis.combine(torch.randn(basis.dim, dtype=torch.float64)))
    f = torch.randn(1, in_type.dim, 5, 5, 5, dtype=torch.float64)

    def layer(f):
        return conv3d(pad(f, (1,) * 6, mode="circular"), filters)

    for r in range(0, group.order, 5):
        g = space.motion([1, 2, 0], r)
        assert (layer(in_type.transform(f, g)) - out_type.transform(layer(f), g)).abs().max() < 1e-12


@pytest.mark.parametrize("group", [Cyclic(6), Dihedral(6), Cyclic(3)], ids=str)
def test_hexagonal_lattice(group):
    plane = Grid2d(group, lattice="hexagonal")
    assert plane.exact
    in_type, out_type = plane.field(group.regular), plane.field(group.irreps[-1])
    basis = solve(in_type, out_type, kernel_size=5)
    if group.order >= 6:
        assert basis.points == 19  # a hexagon of radius 2
    filters = basis.filters(basis.combine(torch.randn(basis.dim, dtype=torch.float64)))
    f = torch.randn(1, in_type.dim, 7, 7, dtype=torch.float64)

    def layer(f):
        return conv2d(pad(f, (2,) * 4, mode="circular"), filters)

    for r in range(group.order):
        g = plane.motion([1, 2], r)
        assert (layer(in_type.transform(f, g)) - out_type.transform(layer(f), g)).abs().max() < 1e-12


def test_realizations():
    group = Dihedral(4)
    plane = Grid2d(group)
    basis = solve(plane.field(group.regular), plane.field(group.irrep(1)), kernel_size=3)
    on_taps, on_group = basis.on_cosets(), basis.on_group()
    assert on_group.shape == (basis.dim, 9, 8, 2, 8)
    assert torch.equal(on_group[:, :, 0], on_taps)
    gram = torch.einsum("kxab,lxab->kl", on_taps, on_taps)
    assert (gram - torch.eye(basis.dim, dtype=torch.float64)).abs().max() < 1e-10
    values = basis.cosets_to_double_cosets(on_taps)
    assert (basis.double_cosets_to_cosets(values) - on_taps).abs().max() < 1e-10
    assert [c.points for c in basis.double_cosets] == [4, 4, 1]
    assert basis.double_cosets[0].representative == (-1.0, 1.0)


class TestErrors:
    def test_no_size(self):
        field = Grid2d(Cyclic(4)).field(Cyclic(4).trivial)
        with pytest.raises(InputError, match="expected kernel_size for fields on a grid"):
            solve(field, field)
        with pytest.raises(InputError, match="a positive kernel size, or 2 of them; got 0"):
            solve(field, field, kernel_size=0)
        with pytest.raises(InputError, match=r"got \(3, 3, 3\)"):
            solve(field, field, kernel_size=(3, 3, 3))

    def test_two_planes(self):
        a, b = Cyclic(4), Dihedral(4)
        with pytest.raises(TypeMismatchError, match="two field types on one grid"):
            solve(Grid2d(a).field(a.trivial), Grid2d(b).field(b.trivial), kernel_size=3)
        with pytest.raises(TypeMismatchError, match="two field types on one grid"):
            solve(Grid2d(a).field(a.trivial), HomogeneousSpace(a, a).field(a.trivial), kernel_size=3)

    def test_empty(self):
        group = Dihedral(4)
        plane = Grid2d(group)
        sign = group.irrep(0, -1)
        with pytest.raises(EmptyKernelSpaceError, match="larger filter"):
            solve(plane.field(group.trivial), plane.field(sign), kernel_size=1)
