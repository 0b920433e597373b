"""Kernels on the sphere: dimensions, realizations, and the same map in space and in the spectrum."""

from __future__ import annotations

from math import pi

import pytest
import torch

from intertwine.errors import (
    EmptyKernelSpaceError,
    InputError,
    NumericalError,
    RepresentationError,
    SizeLimitError,
    TypeMismatchError,
)
from intertwine.groups import SO2, SO3, Cyclic, LieRepresentation
from intertwine.kernels import SphereKernelBasis, solve
from intertwine.kernels import _sphere as sphere_kernels
from intertwine.spaces import Grid2d, Sphere, SpinDecomposition, SpinTransform
from intertwine.testing import distance

SPHERE, H, G = Sphere(), SO2(), SO3()
L = 4
GRID = SPHERE.grid("gauss-legendre", band_limit=L)
_SHEAR = torch.tensor([[1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)


def _sheared(g):
    return _SHEAR @ H.irrep(1)(g) @ torch.linalg.inv(_SHEAR)


TYPES = {
    "scalar": H.trivial,
    "vector": H.irrep(1),
    "spin 2": H.irrep(2),
    "mixed": H.irrep(2) + 2 * H.trivial + H.irrep(1),
    "product": H.irrep(1) @ H.irrep(1),
    "not orthogonal": LieRepresentation(H, _sheared, dim=2, degree=1, name="sheared", is_orthogonal=False),
}
PAIRS = [
    ("scalar", "scalar"),
    ("scalar", "vector"),
    ("vector", "scalar"),
    ("vector", "vector"),
    ("vector", "spin 2"),
    ("spin 2", "vector"),
    ("spin 2", "spin 2"),
    ("mixed", "vector"),
    ("product", "mixed"),
    ("not orthogonal", "spin 2"),
    ("vector", "not orthogonal"),
]
ORTHOGONAL = [pair for pair in PAIRS if "not orthogonal" not in pair]


def field(name):
    return SPHERE.field(TYPES[name])


def basis(pair, band_limit=L):
    return solve(field(pair[0]), field(pair[1]), band_limit=band_limit)


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rotations(n, seed=0):
    return G.sample(n, torch.Generator().manual_seed(seed))


def turns(n, seed=0):
    return H.sample(n, torch.Generator().manual_seed(seed))


def band_limited(name, *batch, grid=GRID, degree=L):
    transform = SpinTransform(grid, TYPES[name], band_limit=degree)
    return transform.synthesis(random(*batch, TYPES[name].dim, transform.size, seed=3))


class TestDimensions:
    @pytest.mark.parametrize("degree", [0, 1, 3, 8])
    def test_known_facts(self, degree):
        def dim(m1, m2):
            into, out = SPHERE.field(H.irrep(m1)), SPHERE.field(H.irrep(m2))
            return solve(into, out, band_limit=degree, allow_empty=True).dim

        assert dim(0, 0) == degree + 1  # zonal filters
        for m in (1, 2, 5):
            assert dim(0, m) == dim(m, 0) == 2 * max(degree + 1 - m, 0)
        assert dim(1, 1) == 4 * degree
        assert dim(1, 3) == 4 * max(degree - 2, 0)

    @pytest.mark.parametrize("pair", PAIRS, ids="->".join)
    def test_found_is_predicted(self, pair):
        kernels = basis(pair)
        assert kernels.dim == kernels.mackey_dim == len(kernels.index)
        assert kernels.residual < 1e-12

    @pytest.mark.parametrize("pair", [("scalar", "scalar"), ("scalar", "vector"), ("vector", "spin 2")], ids="->".join)
    def test_against_the_null_space_of_the_commutation(self, pair):
        """Two random rotations generate a dense subgroup. Their matrices come from moving the fields as functions."""
        degree = 2
        grid = SPHERE.grid(band_limit=degree)

        def moved(name, g):
            transform, kind = SpinTransform(grid, TYPES[name]), field(name)
            columns = []
            for at in transform.exists.nonzero().tolist():
                c = torch.zeros(transform.exists.shape, dtype=torch.float64)
                c[tuple(at)] = 1.0
                f = kind.transform(lambda x, c=c: transform.evaluate(c, x), g)(grid.points)
                columns.append(transform.analysis(f.permute(2, 0, 1))[transform.exists])
            return torch.stack(columns, dim=1)

        constraints = []
        for g in rotations(2):
            pi1, pi2 = (moved(name, g) for name in pair)
            eye1, eye2 = (torch.eye(len(m), dtype=torch.float64) for m in (pi1, pi2))
            constraints.append(torch.kron(pi2, eye1) - torch.kron(eye2, pi1.T.contiguous()))
        singular = torch.linalg.svdvals(torch.cat(constraints))
        assert int((singular < 1e-8).sum()) == basis(pair, degree).dim

    def test_a_mismatch_raises(self, monkeypatch):
        monkeypatch.setattr(sphere_kernels, "multiplicity", lambda rho, l: 1)
        with pytest.raises(
            NumericalError, match=r"degree 0: expected 1 kernels by Mackey's formula; got 0 from the solver"
        ):
            solve(field("vector"), field("vector"), band_limit=2)

    def test_kernels_that_violate_the_constraint_raise(self, monkeypatch):
        right = SpinDecomposition.intertwiners
        monkeypatch.setattr(SpinDecomposition, "intertwiners", lambda self, l: right(self, l).flip(-1))
        sphere_kernels._residual.cache_clear()
        with pytest.raises(NumericalError, match="kernels that satisfy the constraint to 1e-10; got a residual of"):
            solve(field("vector"), field("vector"), band_limit=2)
        sphere_kernels._residual.cache_clear()


@pytest.mark.parametrize("pair", PAIRS, ids="->".join)
class TestRealizations:
    def test_on_the_group(self, pair):
        kernels = basis(pair)
        g, h1, h2 = rotations(6), turns(6, seed=1), turns(6, seed=2)
        rho1, rho2 = kernels.in_type.rho, kernels.out_type.rho
        moved = kernels.on_group(SPHERE.from_stabilizer(h2) @ g @ SPHERE.from_stabilizer(h1))
        assert moved.shape == (kernels.dim, 6, rho2.dim, rho1.dim)
        assert distance(moved, rho2(h2) @ kernels.on_group(g) @ rho1(h1)) < 1e-10

    def test_on_the_sphere(self, pair):
        kernels = basis(pair)
        rho1, rho2 = kernels.in_type.rho, kernels.out_type.rho
        g, h = rotations(6), turns(6, seed=2)
        x, in_space = SPHERE.project(g), SPHERE.from_stabilizer(h)
        kappa = kernels.on_cosets(x)
        twist = rho1(H.inverse(SPHERE.cocycle(x, in_space)))
        assert distance(kernels.on_cosets(SPHERE.act(in_space, x)), rho2(h) @ kappa @ twist) < 1e-10
        remainder = SPHERE.as_stabilizer(SPHERE.section(x).mT @ g)
        assert distance(kernels.on_group(g), kappa @ rho1(remainder)) < 1e-10

    def test_on_the_double_cosets(self, pair):
        kernels = basis(pair)
        rho1, rho2 = kernels.in_type.rho, kernels.out_type.rho
        alpha, beta, gamma = G.to_euler(rotations(6))
        h2, h1 = H.from_angle(alpha), H.from_angle(gamma)
        transported = rho2(h2) @ kernels.on_double_cosets(beta) @ rho1(h1)
        assert distance(transported, kernels.on_group(rotations(6))) < 1e-10

    def test_the_poles(self, pair):
        kernels = basis(pair)
        rho1, rho2 = kernels.in_type.rho, kernels.out_type.rho
        h = turns(5)
        north, south, between = kernels.on_double_cosets(torch.tensor([0.0, pi, 1.0], dtype=torch.float64)).unbind(1)
        assert distance(rho2(h) @ north[:, None], north[:, None] @ rho1(h)) < 1e-10
        assert distance(rho2(h) @ south[:, None], south[:, None] @ rho1(H.inverse(h))) < 1e-10
        if pair != ("scalar", "scalar"):  # no condition away from the poles
            assert distance(rho2(h) @ between[:, None], between[:, None] @ rho1(h)) > 0.1

    def test_combinations(self, pair):
        kernels, g = basis(pair), rotations(6).reshape(2, 3, 3, 3)
        w = random(kernels.dim)
        every = kernels.on_group(g)
        assert every.shape == (kernels.dim, 2, 3, kernels.out_type.dim, kernels.in_type.dim)
        assert distance(kernels.combine(w, g), torch.einsum("k,kabij->abij", w, every)) < 1e-12
        beta = 4 * random(2, 5)
        slow = torch.einsum("k,kabij->abij", w, kernels.on_double_cosets(beta))
        assert distance(kernels.profile(w, beta), slow) < 1e-12
        assert distance(kernels.spectral(w), torch.einsum("k,klij->lij", w, kernels.spectral())) < 1e-12


@pytest.mark.parametrize("pair", ORTHOGONAL, ids="->".join)
def test_orthonormal_on_the_sphere(pair):
    kappa = basis(pair).on_cosets(GRID.points)
    gram = torch.einsum("kxyij,lxyij,xy->kl", kappa, kappa, GRID.weights)
    assert distance(gram, torch.eye(len(gram), dtype=torch.float64)) < 1e-12


def test_zonal_filters_are_legendre_polynomials():
    kernels, beta = basis(("scalar", "scalar"), 2), torch.linspace(0, pi, 7, dtype=torch.float64)
    z = beta.cos()
    expected = torch.stack([torch.ones_like(z), 3**0.5 * z, 5**0.5 * (3 * z * z - 1) / 2]) / (4 * pi) ** 0.5
    assert distance(kernels.on_double_cosets(beta)[..., 0, 0], expected) < 1e-13


def untwisted(kernels, w, f, grid):
    """The correlation without ρ1(h1(s(x)⁻¹ s(y))): what the theory warns of."""
    y = grid.points.reshape(-1, 3)
    s = SPHERE.section(y)
    kappa = kernels.combine(w, SPHERE.section(SPHERE.act(s.mT[:, None], y)))
    return torch.einsum("xyij,...jy,y->...ix", kappa, f.flatten(-2), grid.weights.flatten()).unflatten(-1, grid.shape)


class TestTheMap:
    @pytest.mark.parametrize("pair", PAIRS, ids="->".join)
    def test_space_and_spectrum_agree_and_commute_with_rotations(self, pair):
        kernels, f = basis(pair), band_limited(pair[0], 2)
        w = random(kernels.dim)
        spectral, spatial = kernels.apply(w, f, GRID), kernels.correlate(w, f, GRID)
        assert spectral.shape == (2, kernels.out_type.dim, *GRID.shape)
        assert spectral.abs().max() > 0.1
        assert distance(spectral, spatial) < 1e-10
        for g in rotations(2):
            moved = kernels.in_type.transform(f, g, grid=GRID)
            for out, method in ((spectral, kernels.apply), (spatial, kernels.correlate)):
                assert distance(method(w, moved, GRID), kernels.out_type.transform(out, g, grid=GRID)) < 1e-10

    @pytest.mark.parametrize("pair", PAIRS, ids="->".join)
    def test_the_twist_is_needed_for_fields_with_spin(self, pair):
        kernels, f = basis(pair), band_limited(pair[0])
        w, g = random(kernels.dim), rotations(1)[0]
        moved = kernels.in_type.transform(f, g, grid=GRID)
        out = kernels.out_type.transform(untwisted(kernels, w, f, GRID), g, grid=GRID)
        error = distance(untwisted(kernels, w, moved, GRID), out)
        assert error < 1e-10 if pair[0] == "scalar" else error > 0.1

    def test_other_grids(self):
        kernels = basis(("vector", "spin 2"), 3)
        w = random(kernels.dim)
        for kind in ("gauss-legendre", "equiangular"):
            grid = SPHERE.grid(kind, band_limit=5)
            f = band_limited("vector", grid=grid, degree=5)  # the kernel cuts off what lies above its band
            assert distance(kernels.apply(w, f, grid), kernels.correlate(w, f, grid)) < 1e-10

    def test_on_coefficients_a_free_matrix_for_every_degree(self):
        kernels = basis(("vector", "mixed"))
        into, out = (SpinTransform(GRID, kind.rho) for kind in (kernels.in_type, kernels.out_type))
        c, w = random(2, into.size) * into.exists, random(kernels.dim)
        mixed = torch.einsum("nij,jn->in", kernels.spectral(w)[into.degrees], c)
        assert distance(kernels.apply_spectral(w, c), mixed) < 1e-13
        assert distance(out.analysis(kernels.apply(w, into.synthesis(c), GRID)), mixed) < 1e-12
        allowed = kernels.spectral(torch.ones(kernels.dim, dtype=torch.float64)) != 0
        present = out.exists[:, None] & into.exists
        assert torch.equal(allowed, present[..., [l * l for l in range(L + 1)]].permute(2, 0, 1))

    def test_gradients_and_single_precision(self):
        kernels = basis(("vector", "spin 2"), 2)
        grid = SPHERE.grid(band_limit=2)
        w = random(kernels.dim).requires_grad_()
        f = band_limited("vector", grid=grid, degree=2).requires_grad_()
        assert torch.autograd.gradcheck(lambda w, f: kernels.apply(w, f, grid), (w, f))
        single = kernels.apply(w.float(), f.float(), grid)
        assert single.dtype == torch.float32
        assert distance(single.detach(), kernels.apply(w, f, grid).detach()) < 1e-4

    def test_many_copies_need_no_room_for_the_basis(self, monkeypatch):
        wide = SPHERE.field(32 * H.trivial + 16 * H.irrep(1) + 8 * H.irrep(2))
        kernels = solve(wide, wide, band_limit=L)
        assert kernels.dim == kernels.mackey_dim == 32**2 + 64**2 + 3 * 80**2
        f = random(80, *GRID.shape)
        assert kernels.apply(random(kernels.dim), f, GRID).shape == f.shape
        monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "100M")
        with pytest.raises(SizeLimitError, match="Combine the kernels first"):
            kernels.on_group(rotations(10))
        with pytest.raises(SizeLimitError, match=r"spectral\(weights\)"):
            kernels.spectral()


class TestErrors:
    def test_no_band_limit(self):
        with pytest.raises(InputError, match=r"kernels.solve: expected band_limit.*on the sphere; got none"):
            solve(field("scalar"), field("scalar"))

    def test_bad_band_limit(self):
        with pytest.raises(InputError, match=r"band_limit to be a whole number, .*; got 2\.5"):
            solve(field("scalar"), field("scalar"), band_limit=2.5)

    def test_empty(self):
        with pytest.raises(
            EmptyKernelSpaceError, match=r"none: fields of spin m.*the band limit is 0.*band_limit=1 or more"
        ):
            solve(field("scalar"), field("vector"), band_limit=0)
        empty = solve(field("scalar"), field("vector"), band_limit=0, allow_empty=True)
        assert (empty.dim, empty.mackey_dim, empty.residual) == (0, 0, 0.0)
        f = torch.ones(1, *GRID.shape, dtype=torch.float64)
        nothing = torch.zeros(0, dtype=torch.float64)
        assert empty.on_group(rotations(3)).shape == (0, 3, 2, 1)
        assert (empty.apply(nothing, f, GRID) == 0).all()
        assert (empty.correlate(nothing, f, GRID) == 0).all()

    def test_another_space(self):
        plane = Grid2d(Cyclic(4)).field(Cyclic(4).trivial)
        with pytest.raises(TypeMismatchError, match=r"two field types on the sphere.*Grid2d\(C4\)"):
            solve(field("scalar"), plane, band_limit=2)
        with pytest.raises(RepresentationError, match=r"stabilizer SO\(2\)"):
            solve(SPHERE.field(Cyclic(4).trivial), field("scalar"), band_limit=2)

    def test_arguments_of_the_map(self):
        kernels = basis(("vector", "scalar"))
        w, f = random(kernels.dim), random(2, *GRID.shape)
        with pytest.raises(InputError, match=rf"expected {kernels.dim} weights, one per basis kernel; got shape \(3"):
            kernels.combine(random(3), rotations(1))
        with pytest.raises(InputError, match=r"SphereKernelBasis\.spectral: expected"):
            kernels.apply(random(3), f, GRID)
        with pytest.raises(
            InputError, match="exact up to the band limit 4 of the kernels; got the equiangular grid with band"
        ):
            kernels.apply(w, f, SPHERE.grid("equiangular", band_limit=3))
        for method in (kernels.apply, kernels.correlate):
            with pytest.raises(InputError, match=r"2 channels, 5, 9\).*got shape \(3, 5, 9\)"):
                method(w, random(3, *GRID.shape), GRID)
        with pytest.raises(InputError, match=r"elements of SO\(3\)"):
            kernels.on_group(2 * rotations(2))

    def test_repr(self):
        assert repr(basis(("scalar", "scalar"))).startswith("SphereKernelBasis(dim=5, band limit=4, residual=")
        assert isinstance(basis(("scalar", "scalar")), SphereKernelBasis)
