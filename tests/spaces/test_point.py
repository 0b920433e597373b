"""One point: vectors under a finite or a Lie group."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, RepresentationError
from intertwine.groups import O3, SO2, Cyclic, Dihedral, Symmetric
from intertwine.spaces import HomogeneousSpace, Point
from intertwine.testing import cocycle_residual, induced_residual, mackey_residual, section_residual

FINITE = [Dihedral(4).regular, Symmetric(4).irreps[-1], Cyclic(5).irreps[1]]


def elements(group, n=4):
    generator = torch.Generator().manual_seed(0)
    if group.is_finite:
        return torch.randint(group.order, (n,), generator=generator).tolist()
    return list(group.sample(n, generator))


@pytest.mark.parametrize("rho", [*FINITE, SO2().irrep(2), O3().irrep(2, -1)], ids=str)
def test_laws(rho):
    field = Point(rho.group).field(rho)
    a, b, g, h = elements(rho.group)
    v = torch.randn(rho.dim, dtype=torch.float64)
    assert section_residual(field.space, 0) == 0
    assert cocycle_residual(field.space, 0, a, b) < 1e-10
    assert mackey_residual(field, field.lift(lambda x: v), g, h) < 1e-10
    assert induced_residual(field, lambda x: v, a, b, 0) < 1e-10


@pytest.mark.parametrize("rho", [*FINITE, SO2().irrep(2), O3().irrep(2, -1)], ids=str)
def test_vectors_are_multiplied_by_the_matrix(rho):
    field = Point(rho.group).field(rho)
    x = torch.randn(3, 2, rho.dim, dtype=torch.float64)
    a, b, *_ = elements(rho.group)
    assert torch.allclose(field.transform(x, a), torch.einsum("ij,...j->...i", rho(a), x), atol=1e-12)
    twice = field.transform(field.transform(x, b), a)
    assert torch.allclose(twice, field.transform(x, field.space.compose(a, b)), atol=1e-10)
    assert field.transform(x.float(), a).dtype == torch.float32


def test_a_finite_point_is_the_coset_space_of_the_whole_group():
    group = Dihedral(4)
    whole = HomogeneousSpace(group, group.subgroup([1, 4]))
    x = torch.randn(8, dtype=torch.float64)
    for g in range(group.order):
        other = whole.field(group.regular.restrict(whole.subgroup)).transform(x[:, None], g)[:, 0]
        assert torch.allclose(Point(group).field("regular").transform(x, g), other)


def test_names_and_equality():
    assert Point("D4") == Point(Dihedral(4)) != Point("C4")
    assert repr(Point("D4").field("2*trivial")) == "Field(2 trivial on Point(D4))"
    assert Point("D4").field("regular").dim == 8


def test_wrong_input():
    field = Point("C4").field("regular")
    with pytest.raises(InputError, match=r"a tensor \(..., 4\)"):
        field.transform(torch.zeros(2, 3), 1)
    with pytest.raises(InputError, match="a single element"):
        field.transform(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="only point"):
        field.space.section(1)
    with pytest.raises(RepresentationError):
        Point("C4").field(Dihedral(4).regular)
