"""Nonlinearities in samples: exact for finite groups, for Lie groups the better the more samples."""

from __future__ import annotations

from math import pi

import pytest
import torch

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import O2, O3, SO2, SO3, Cyclic, Dihedral, Octahedral, Quaternion, spherical_harmonics
from intertwine.nn import Approximate, Exact, FourierNonlinearity, band_limited_quotient, band_limited_regular
from intertwine.nn.nonlinear._fourier import _on_the_sphere, _sample
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace
from intertwine.testing import assert_equivariant

C3, C4, D4, O, Q8 = Cyclic(3), Cyclic(4), Dihedral(4), Octahedral(), Quaternion()
so2, o2, so3, o3 = SO2(), O2(), SO3(), O3()


def space_of(group):
    if isinstance(group, SO2 | O2):
        return Grid2d(group)
    return Grid3d(group) if isinstance(group, SO3 | O3) else HomogeneousSpace(group, group.whole)


def layer_of(rho, function=None, samples=None):
    space = space_of(rho.group)
    rho = rho if rho.group == space.stabilizer else rho.restrict(space.stabilizer)
    return FourierNonlinearity(space.field(rho), function, samples=samples).double()


def error(layer, g) -> float:
    """Relative error in the mean square for random coefficients and the elements g."""
    rho = layer.in_type.rho(g)
    x = torch.randn(40, layer.in_type.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moved = torch.einsum("gij,bj->gbi", rho, x).flatten(0, 1)
    left, right = layer(moved).view(len(rho), 40, -1), torch.einsum("gij,bj->gbi", rho, layer(x))
    return float((left - right).norm() / right.norm())


@pytest.mark.parametrize("group", [C3, C4, D4, O, Q8], ids=lambda g: g.name)
def test_a_finite_group_acts_in_its_regular_representation(group):
    """There is an orthogonal A with A ρ(h) = regular(h) A, and the layer is Aᵀ φ A."""
    whole = group.whole
    layer = FourierNonlinearity(space_of(group).field(band_limited_regular(whole)), torch.nn.Tanh()).double()
    a = layer.tables.get_buffer("values")
    assert torch.allclose(a.T @ a, torch.eye(group.order, dtype=torch.float64), atol=1e-12)
    rho = layer.in_type.rho.matrices
    assert (a @ rho - whole.regular.matrices @ a).abs().max() < 1e-12
    x = torch.randn(5, group.order, dtype=torch.float64)
    assert torch.allclose(layer(x), torch.tanh(x @ a.T) @ a, atol=1e-12)
    assert isinstance(layer.claim, Exact)


def test_part_of_a_finite_band():
    field = Grid2d(D4).field(D4.irrep(1) + D4.trivial + D4.irrep(1))
    layer = FourierNonlinearity(field)
    assert layer.samples == 8
    assert assert_equivariant(layer) < 1e-12


@pytest.mark.parametrize(
    ("rho", "few", "many"),
    [
        (band_limited_regular(so2, 3), 12, 64),
        (band_limited_regular(o2, 2), 16, 64),
        (band_limited_quotient(o2, 3), 12, 64),
        (band_limited_quotient(so3, 2), 24, 144),
        (band_limited_regular(so3, 1), 24, 576),
        (band_limited_quotient(o3, 2), 48, 288),
        (band_limited_regular(o3, 1), 48, 1152),
    ],
    ids=["SO2", "O2", "circle", "sphere", "SO3", "O3 sphere", "O3"],
)
def test_the_error_falls_with_the_samples(rho, few, many):
    g = rho.group.sample(12, torch.Generator().manual_seed(1))
    rough, fine = error(layer_of(rho, samples=few), g), error(layer_of(rho, samples=many), g)
    assert fine < 0.1 * rough
    assert fine < 0.004
    assert rough > 0.005
    default = layer_of(rho)
    assert error(default, g) < 0.05
    assert isinstance(default.claim, Approximate)


@pytest.mark.parametrize("samples", [8, 12, 20])
def test_turns_by_one_sample_are_exact(samples):
    layer = layer_of(2 * band_limited_regular(so2, 3), samples=samples)
    steps = so2.from_angle(torch.arange(samples, dtype=torch.float64) * (2 * pi / samples))
    assert error(layer, steps) < 1e-13
    assert error(layer, so2.from_angle(torch.tensor([pi / samples], dtype=torch.float64))) > 1e-3


def test_mirrors_and_the_cube_are_exact():
    turns = torch.arange(4, dtype=torch.float64)[:, None] * (pi / 2)
    for rho in (band_limited_regular(o2, 2), band_limited_quotient(o2, 2)):
        elements = torch.cat([o2.exp(turns), o2.exp(turns) @ o2.component_representatives[1]])
        assert error(layer_of(rho), elements) < 1e-13
    cube = O.standard(torch.arange(24))
    for group, elements in ((so3, cube), (o3, torch.cat([cube, -cube]))):
        for rho in (band_limited_quotient(group, 2), band_limited_regular(group, 1)):
            assert error(layer_of(rho), elements) < 1e-12


@pytest.mark.parametrize(
    "rho", [band_limited_regular(so3, 2), band_limited_quotient(so3, 3), band_limited_regular(o3, 1)]
)
def test_what_is_not_changed_comes_back(rho):
    layer = layer_of(2 * rho, torch.nn.Identity())
    x = torch.randn(3, layer.in_type.dim, dtype=torch.float64)
    assert torch.allclose(layer(x), x, atol=1e-12)


def test_values_on_the_sphere_are_spherical_harmonics():
    layer = layer_of(band_limited_quotient(so3, 2))
    elements, _ = _sample(so3, "quotient", layer.samples)
    theirs = spherical_harmonics(2, elements[..., 2])
    theirs = theirs * (4 * pi / 9) ** 0.5
    ours = layer.tables.get_buffer("values")
    signs = (ours * theirs).sum(0).sign()
    assert torch.allclose(ours, theirs * signs, atol=1e-12)
    assert all(len(set(part.tolist())) == 1 for part in signs.split([1, 3, 5])), "one sign for each degree"


@pytest.mark.parametrize("orbits", [1, 3, 6])
def test_weights_on_the_sphere_integrate(orbits):
    elements, weights, exact = _on_the_sphere(so3, orbits)
    assert float(weights.min()) > 0
    assert exact >= {1: 3, 3: 7, 6: 11}[orbits]
    harmonics = spherical_harmonics(exact + 1, elements[..., 2])
    integrals = weights @ harmonics * (4 * pi) ** 0.5
    inside = (exact + 1) ** 2
    assert torch.allclose(integrals[:inside], torch.eye(inside, dtype=torch.float64)[0], atol=1e-11)
    assert integrals[inside:].abs().max() > 1e-6, "and not further, or more would have been found"


def test_the_order_of_summands_does_not_matter():
    written = so2.irrep(2) + 2 * so2.trivial + so2.irrep(1) + so2.irrep(2) + so2.irrep(1)
    layer, plain = layer_of(written, torch.nn.ReLU()), layer_of(2 * band_limited_regular(so2, 2), torch.nn.ReLU())
    x = torch.randn(3, 10, 4, 4, dtype=torch.float64)
    order = [2, 4, 5, 0, 1, 3, 8, 9, 6, 7]  # where the channels of the second stand in the first
    assert torch.allclose(layer(x)[:, order], plain(x[:, order]))


class TestRefusals:
    @pytest.mark.parametrize(
        "rho",
        [
            so2.irrep(1) + so2.irrep(2),
            so2.trivial + 2 * so2.irrep(1),
            so3.trivial + 2 * so3.irrep(1),
            so2.trivial + so2.irrep(1) @ so2.irrep(1),
            D4.regular,
            D4.trivial + D4.irrep(1),
        ],
        ids=lambda rho: rho.name,
    )
    def test_types(self, rho):
        space = Grid2d(rho.group) if rho.group in (so2, D4) else Grid3d(rho.group)
        with pytest.raises(TypeMismatchError, match=r"band_limited_regular.*NormNonlinearity and Gated"):
            FourierNonlinearity(space.field(rho))

    def test_samples(self):
        with pytest.raises(InputError, match="a multiple of 4"):
            layer_of(band_limited_regular(so2, 3), samples=10)
        with pytest.raises(InputError, match="of at least 8"):
            layer_of(band_limited_regular(so2, 3), samples=4)
        with pytest.raises(InputError, match="a multiple of 24"):
            layer_of(band_limited_quotient(so3, 2), samples=100)
        with pytest.raises(InputError, match="the 4 elements of"):
            FourierNonlinearity(Grid2d(C4).field(band_limited_regular(C4)), samples=8)
        with pytest.raises(InputError, match="tell the 35 functions"):
            layer_of(band_limited_regular(so3, 2), samples=48)

    def test_functions_are_modules(self):
        with pytest.raises(InputError, match="Wrap the function"):
            layer_of(band_limited_regular(so2, 1), torch.tanh)

    def test_constructors(self):
        with pytest.raises(InputError, match="compact Lie group with a degree"):
            band_limited_regular(so2)
        with pytest.raises(InputError, match="a finite group without one"):
            band_limited_regular(D4, 2)
        with pytest.raises(InputError, match="a compact Lie group"):
            band_limited_quotient(D4, 2)


def test_dimensions():
    assert band_limited_regular(o2, 2).dim == 2 + 2 * 2 * 2
    assert band_limited_regular(o3, 1).dim == 2 * (1 + 9)
    assert band_limited_quotient(o3, 3).dim == 16
    for group in (C3, D4, Q8, O):
        assert group.intertwining_number(band_limited_regular(group), group.regular) == group.order
