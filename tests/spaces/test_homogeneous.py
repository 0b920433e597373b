"""Finite homogeneous spaces and the fields on them: section, cocycle, Mackey functions, induction, reciprocity."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from intertwine.errors import InputError, RepresentationError, SubgroupError, TypeMismatchError
from intertwine.groups import SO3, Cyclic, Dihedral, Octahedral, Symmetric
from intertwine.spaces import FieldType, HomogeneousSpace, frobenius
from intertwine.testing import cocycle_residual, induced_residual, mackey_residual, section_residual
from tests.strategies import groups, representations, small_groups, subgroups


@st.composite
def spaces(draw, source=None):
    group = draw(source if source is not None else groups())
    return HomogeneousSpace(group, draw(subgroups(group)))


@st.composite
def fields(draw):
    space = draw(spaces(st.sampled_from(small_groups())))
    return space.field(draw(representations(space.subgroup)))


def element(data, space):
    return data.draw(st.integers(0, space.group.order - 1))


def sampled_field(field: FieldType) -> torch.Tensor:
    return torch.randn(field.dim, field.space.points, dtype=torch.float64)


@given(spaces(), st.data())
def test_section_and_cocycle(space, data):
    x = data.draw(st.integers(0, space.points - 1))
    g1, g2 = element(data, space), element(data, space)
    assert section_residual(space, x) == 0
    assert cocycle_residual(space, x, g1, g2) == 0
    assert int(space.cocycle_table[g1, x]) == space.cocycle(x, g1)
    assert space.act(g1, space.act(g2, x)) == space.act(space.compose(g1, g2), x)


def test_cocycle_checker_sees_a_wrong_section():
    group = Symmetric(3)
    space = HomogeneousSpace(group, group.subgroup([1]))

    class Wrong(HomogeneousSpace):
        def section(self, x):
            return 0

    wrong = Wrong(group, group.subgroup([1]))
    assert section_residual(wrong, 1) > 0
    assert max(section_residual(space, x) for x in range(3)) == 0


@given(fields(), st.data())
def test_mackey_and_induced_laws(field, data):
    space = field.space
    samples = sampled_field(field)
    a, b, g = (element(data, space) for _ in range(3))
    x = data.draw(st.integers(0, space.points - 1))
    h = data.draw(st.integers(0, space.subgroup.order - 1))

    def f(point):
        return samples[:, point]

    assert mackey_residual(field, field.lift(f), g, h) < 1e-10
    assert induced_residual(field, f, a, b, x) < 1e-10


@given(fields(), st.data())
def test_samples_agree_with_functions(field, data):
    space = field.space
    samples = sampled_field(field)
    g = element(data, space)
    as_function = field.transform(lambda x: samples[:, x], g)
    moved = torch.stack([as_function(x) for x in range(space.points)], dim=1)
    assert (field.transform(samples, g) - moved).abs().max() < 1e-10
    lifted = field.lift(samples)
    assert field.mackey_residual(lifted) < 1e-10
    assert (field.lower(lifted) - samples).abs().max() < 1e-10
    left = field.lift(field.transform(samples, g))
    assert (left - field.transform_mackey(lifted, g)).abs().max() < 1e-10


def test_mackey_checker_sees_an_arbitrary_function_on_the_group():
    group = Dihedral(4)
    field = HomogeneousSpace(group, group.subgroup([4])).field(group.subgroup([4]).irreps[1])
    assert field.mackey_residual(torch.randn(1, 8, dtype=torch.float64)) > 0.1


def test_induced_checker_sees_a_wrong_twist():
    group = Dihedral(4)
    h = group.find_subgroup("C4")
    field = HomogeneousSpace(group, h).field(h.irreps[1])
    samples = sampled_field(field)

    class Untwisted(FieldType):
        def transform(self, f, g, **options):
            return lambda x: f(self.space.act(self.space.inverse(g), x))

    wrong = Untwisted(field.space, field.rho)
    assert induced_residual(field, lambda x: samples[:, x], 5, 6, 0) < 1e-10
    assert induced_residual(wrong, lambda x: samples[:, x], 5, 6, 0) > 1e-3


@given(fields())
def test_induced_matrices_are_the_induced_representation(field):
    space = field.space
    if field.total_dim > 40:
        return
    reference = space.group.induce(field.rho)  # points run slowest there, fastest here
    order = torch.arange(field.total_dim).reshape(space.points, field.dim).T.flatten()
    for g in space.group.generators:
        assert (field.induced(g) - reference(g)[order][:, order]).abs().max() < 1e-10


@given(fields(), st.data())
def test_frobenius_reciprocity(field, data):
    space = field.space
    sigma = data.draw(st.sampled_from(space.group.irreps))
    if field.total_dim * sigma.dim > 150:
        return
    both = frobenius(sigma, field)
    assert both.dims[0] == both.dims[1] == space.group.intertwining_number(sigma, space.group.induce(field.rho))
    if both.dims[0]:
        there = both.to_group(both.on_stabilizer)
        assert (both.to_stabilizer(there) - both.on_stabilizer).abs().max() < 1e-10
        assert (both.to_group(both.to_stabilizer(both.on_group)) - both.on_group).abs().max() < 1e-10
        g = element(data, space)
        left = torch.stack([field.transform(t, g) for t in there.movedim(-1, 1)])
        assert (left - (there @ sigma(g)).movedim(-1, 1)).abs().max() < 1e-9


class TestErrors:
    def test_stranger(self):
        with pytest.raises(SubgroupError, match=r"HomogeneousSpace: expected a subgroup of D4.*got C3"):
            HomogeneousSpace(Dihedral(4), Cyclic(3))

    def test_subgroup_of_another_group(self):
        with pytest.raises(SubgroupError, match="a subgroup of C8"):
            HomogeneousSpace(Dihedral(4), Cyclic(8).subgroup([4]))

    def test_lie_group(self):
        with pytest.raises(InputError, match=r"expected a finite group G; got SO\(3\)"):
            HomogeneousSpace(SO3(), SO3())

    def test_representation_of_the_whole_group(self):
        group = Dihedral(4)
        with pytest.raises(RepresentationError, match=r"representation of the stabilizer.*rho.restrict"):
            HomogeneousSpace(group, group.subgroup([4])).field(group.regular)

    def test_whole_group_as_stabilizer(self):
        group = Octahedral()
        assert HomogeneousSpace(group, group).field(group.regular).dim == 24

    def test_wrong_shape(self):
        group = Dihedral(4)
        field = HomogeneousSpace(group, group.subgroup([4])).field(group.subgroup([4]).regular)
        with pytest.raises(InputError, match=r"expected a tensor \(..., 2 channels, 4 points\); got shape \(4, 2\)"):
            field.transform(torch.zeros(4, 2), 1)

    def test_point_out_of_range(self):
        group = Dihedral(4)
        with pytest.raises(InputError, match=r"points 0..3; got 4"):
            HomogeneousSpace(group, group.subgroup([4])).section(4)

    def test_frobenius_with_a_representation_of_the_stabilizer(self):
        group = Dihedral(4)
        h = group.subgroup([4])
        with pytest.raises(TypeMismatchError, match="a representation σ of D4"):
            frobenius(h.trivial, HomogeneousSpace(group, h).field(h.trivial))
