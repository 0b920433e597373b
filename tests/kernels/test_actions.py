"""Lie groups that act on the plane and on space in other than the standard way."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, RepresentationError, TypeMismatchError
from intertwine.groups import (
    O2,
    O3,
    SE2,
    SO2,
    SO3,
    Cyclic,
    Dihedral,
    LieRepresentation,
    Representation,
    Translations,
)
from intertwine.kernels import angular_solutions, solve
from intertwine.kernels._angular import angular_residual
from intertwine.nn import Conv2d, Conv3d, Restrict
from intertwine.spaces import Grid2d, Grid3d
from intertwine.testing import assert_equivariant

so2, o2, so3, o3 = SO2(), O2(), SO3(), O3()


def turned(rho: Representation, name: str) -> LieRepresentation:
    """The same representation in a basis that does not fit the lattice."""
    q = so3.exp(torch.tensor([0.3, -0.5, 0.8], dtype=torch.float64))
    return LieRepresentation(rho.group, lambda g: q @ rho(g) @ q.T, dim=3, degree=1, name=name, is_orthogonal=True)


PLANE = {
    "twice as fast": (so2, so2.irrep(2), so2.irrep(0) + so2.irrep(1), so2.irrep(1) + so2.irrep(2)),
    "backwards": (
        so2,
        LieRepresentation(so2, lambda g: g.mT, dim=2, degree=1, name="backwards", is_orthogonal=True),
        so2.irrep(0) + so2.irrep(1),
        so2.irrep(1) + so2.irrep(2),
    ),
    "reflections only": (o2, o2.irrep(0, -1) + o2.trivial, o2.irrep(1) + o2.trivial, o2.irrep(0, -1) + o2.irrep(1)),
}
SPACE = {
    "another order": (so3, so3.irrep(1), so3.irrep(0) + so3.irrep(1), so3.irrep(1) + so3.irrep(2)),
    "a tilted frame": (so3, turned(so3.standard, "tilted"), so3.irrep(0) + so3.irrep(1), so3.irrep(1)),
    "without signs": (o3, o3.irrep(1, 1), o3.irrep(0) + o3.irrep(1), o3.irrep(1) + o3.irrep(1, 1)),
    "axis": (so2, so2.about_axis(), so2.irrep(0) + so2.irrep(1), so2.irrep(1) + so2.irrep(2)),
    "tilted axis": (so2, so2.about_axis((1.0, 2.0, -1.0)), so2.irrep(0) + so2.irrep(1), so2.irrep(1)),
    "twice about an axis": (so2, so2.irrep(2) + so2.trivial, so2.irrep(0) + so2.irrep(1), so2.irrep(1)),
    "cone": (o2, o2.about_axis("x"), o2.irrep(0) + o2.irrep(0, -1) + o2.irrep(1), o2.irrep(0, -1) + o2.irrep(2)),
    "cylinder": (
        o2,
        o2.about_axis("y", reflections="half turns"),
        o2.irrep(0) + o2.irrep(1),
        o2.irrep(0, -1) + o2.irrep(1),
    ),
    "inversions": (
        o2,  # reflections act as -1 times the mirrors of the cone
        (o2.irrep(1) + o2.trivial) @ o2.irrep(0, -1),
        o2.irrep(0) + o2.irrep(1),
        o2.irrep(0, -1) + o2.irrep(1),
    ),
}
CASES = {**PLANE, **SPACE}


def grid_of(case):
    group, action = case[:2]
    return (Grid2d if action.dim == 2 else Grid3d)(group, action=action)


def elements_of(group):
    some = group.sample(4, torch.Generator().manual_seed(3))
    return (group.component_representatives[:, None] @ some).flatten(0, 1)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kernels_commute_with_the_action(case):
    space, (group, action, rho1, rho2) = grid_of(case), case
    basis = solve(space.field(rho1), space.field(rho2), kernel_size=3)
    assert basis.dim == basis.mackey_dim > 0
    x = torch.randn(5, space.dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = basis.evaluate(x)
    for g in elements_of(group):
        moved = basis.evaluate(x @ action(g).T)
        assert (moved - rho2(g) @ values @ rho1(group.inverse(g))).abs().max() < 1e-10


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_layers_commute_with_the_action(case):
    space, (_, _, rho1, rho2) = grid_of(case), case
    layer = Conv2d if space.dimension == 2 else Conv3d
    assert assert_equivariant(layer(space.field(rho1), space.field(rho2), 5, padding=2)) < 1e-12


@pytest.mark.parametrize(
    ("made", "claimed"),
    [
        (Grid3d(so2, action=so2.about_axis("z")), Grid3d(so2, action=so2.about_axis("x"))),
        (Grid3d(o2, action=o2.about_axis()), Grid3d(o2, action=o2.about_axis(reflections="half turns"))),
        (Grid3d(so3), Grid3d(so3, action=so3.irrep(1))),
    ],
    ids=["axis", "reflections", "order"],
)
def test_a_layer_for_another_action_fails(made, claimed):
    rho = made.stabilizer.irrep(0) + made.stabilizer.irrep(1)
    layer = Conv3d(made.field(rho), made.field(rho), 3, padding=1)
    assert_equivariant(layer)
    layer.in_type = layer.out_type = claimed.field(rho)
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer)


@pytest.mark.parametrize("degree", range(4))
def test_about_an_axis_frequencies_up_to_the_degree_occur(degree):
    basis = solve(*[Grid3d(so2, action=so2.about_axis()).field(so2.trivial)] * 2, kernel_size=3, band_limit=degree)
    irreps = basis.shells()[-1][0].decompose().irreps
    assert irreps == tuple(so2.irrep(m) for m in range(degree + 1))


def test_a_field_turns_about_the_axis():
    space = Grid3d(so2, action=so2.about_axis("z"))
    f = torch.randn(3, 5, 5, 5, dtype=torch.float64)  # axes z, y, x
    quarter = space.motion([0, 0, 0], so2.from_angle(torch.pi / 2))
    field = space.field(so2.irrep(1) + so2.trivial)
    moved = field.transform(f, quarter)
    there = torch.rot90(f, 1, (-1, -2))  # x to y
    assert torch.allclose(moved, torch.stack([-there[1], there[0], there[2]]), atol=1e-12)


def test_restriction_keeps_the_action():
    space = Grid3d(o2, action=o2.about_axis())
    layer = Restrict(space.field(o2.irrep(1) + o2.irrep(0, -1)), Dihedral(4))
    assert layer.out_type.space.action.dim == 3
    assert_equivariant(layer)
    cyclic = Grid3d(Cyclic(8), action=so2.about_axis().restrict(Cyclic(8)))
    c8 = cyclic.stabilizer
    assert_equivariant(Conv3d(cyclic.field(c8.trivial), cyclic.field(c8.regular), 3, padding=1))


class TestIdentity:
    def test_equal_names_do_not_make_equal_representations(self):
        def made(function):
            return LieRepresentation(so2, function, dim=2, degree=1, name="mine", is_orthogonal=True)

        there, back, again = made(lambda g: g), made(lambda g: g.mT), made(lambda g: g + 0)
        assert there != back
        assert there == again
        assert Grid2d(so2, action=there) != Grid2d(so2, action=back)

    def test_the_cache_tells_two_functions_of_one_name_apart(self):
        for flip in (1.0, -1.0):
            signs = torch.tensor([1.0, flip], dtype=torch.float64).diag()
            psi = LieRepresentation(so2, lambda g, s=signs: s @ g @ s, dim=2, degree=1, name="mine", is_orthogonal=True)
            solutions = angular_solutions(so2.irrep(1), so2.trivial, psi)
            assert len(solutions) == 2
            assert angular_residual(solutions, so2.irrep(1), so2.trivial, psi) < 1e-12

    def test_reflections_count(self):
        a, b = (
            LieRepresentation(o2, f, dim=1, degree=0, name="mine", is_orthogonal=True)
            for f in (lambda g: torch.ones_like(g[..., :1, :1]), lambda g: torch.linalg.det(g)[..., None, None])
        )
        assert a != b

    def test_nearly_equal_waves_differ_by_name(self):
        line = Translations(1)
        assert line.irrep([1e-12]) != line.irrep([2e-12])


def test_degrees_that_are_not_irreducible_still_couple_by_clebsch_gordan():
    harmonic = turned(so3.standard, "tilted")
    (coupling,) = angular_solutions(so3.irrep(1), so3.irrep(1), harmonic)
    assert (torch.linalg.svdvals(coupling.flatten(0, 1)) - 3**-0.5).abs().max() < 1e-12  # the cross product


class TestRefusals:
    def test_an_action_that_is_not_orthogonal(self):
        shear = torch.tensor([[1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)

        def sheared(g):
            return shear @ g @ torch.linalg.inv(shear)

        for claims in (True, False):
            rho = LieRepresentation(so2, sheared, dim=2, degree=1, name="sheared", is_orthogonal=claims)
            with pytest.raises(RepresentationError, match="expected an orthogonal representation of SO"):
                Grid2d(so2, action=rho)
        c4 = Cyclic(4)
        skew = c4.representation(shear @ c4.standard.matrices @ torch.linalg.inv(shear))
        with pytest.raises(RepresentationError, match="not orthogonal"):
            Grid2d(c4, action=skew)

    def test_a_function_that_is_no_homomorphism(self):
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64).diag()
        rho = LieRepresentation(so2, lambda g: g @ signs, dim=2, degree=1, name="signed", is_orthogonal=True)
        with pytest.raises(RepresentationError, match="not a homomorphism"):
            Grid2d(so2, action=rho)

    def test_a_group_that_is_not_compact(self):
        with pytest.raises(RepresentationError, match="not orthogonal"):
            Grid3d(SE2())
        flat = LieRepresentation(SE2(), lambda g: g[..., :2, :2], dim=2, degree=1, name="rotation", is_orthogonal=True)
        plane = Grid2d(SE2(), action=flat)
        with pytest.raises(TypeMismatchError, match="as the stabilizer"):
            solve(plane.field(flat), plane.field(flat), kernel_size=3)

    @pytest.mark.parametrize("axis", ["w", (0.0, 0.0, 0.0), (1.0, 2.0), (1.0, float("nan"), 0.0), None])
    def test_no_axis(self, axis):
        with pytest.raises(InputError, match=r"expected (an axis|axis to be)"):
            so2.about_axis(axis)

    def test_no_such_reflections(self):
        with pytest.raises(InputError, match="'mirrors' or 'half turns'; got 'inversions'"):
            o2.about_axis(reflections="inversions")
