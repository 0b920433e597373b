"""The same kernels on the group, on cosets and on double cosets."""

from __future__ import annotations

import pytest
import torch

from intertwine.groups import Dihedral, Symmetric, parse_subgroup
from intertwine.kernels import Realization, realizations, solve
from intertwine.kernels._realizations import rank
from intertwine.spaces import Grid2d, HomogeneousSpace


def coset_basis():
    s4 = Symmetric(4)
    h1, h2 = parse_subgroup(s4, "S3"), parse_subgroup(s4, "D4")
    return solve(HomogeneousSpace(s4, h1).field(h1.trivial), HomogeneousSpace(s4, h2).field(h2.regular))


def test_the_dimension_is_the_same_on_the_group_on_cosets_and_on_double_cosets():
    basis = coset_basis()
    assert [each.dimension for each in realizations(basis)] == [basis.dim] * 3
    assert [each.on for each in realizations(basis)] == ["G", "G/H1", "H2\\G/H1"]
    assert [each.points for each in realizations(basis)] == [24, 4, len(basis.double_cosets)]


def test_filters_on_a_lattice():
    plane = Grid2d(Dihedral(4))
    basis = solve(plane.field("trivial"), plane.field("regular"), kernel_size=5)
    assert [each.dimension for each in realizations(basis)] == [basis.dim] * 3
    assert realizations(basis)[1] == Realization("taps", 25, 25 * 8, basis.dim)


def test_the_dimension_of_a_large_basis_is_not_computed():
    basis = coset_basis()
    numbers = basis.dim * realizations(basis)[1].numbers
    assert [each.dimension for each in realizations(basis, max_numbers=numbers)] == [None, basis.dim, basis.dim]


@pytest.mark.parametrize("kernels", [3, 5])
def test_dependent_kernels_do_not_count(kernels):
    generator = torch.Generator().manual_seed(0)
    independent = torch.randn(2, 4, 3, 3, dtype=torch.float64, generator=generator)
    mixture = torch.randn(kernels, 2, dtype=torch.float64, generator=generator)
    dependent = torch.einsum("kj,jxab->kxab", mixture, independent)
    assert rank([dependent]) == 2
    assert rank([independent, dependent, independent[:0]]) == 4
