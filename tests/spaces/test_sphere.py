"""The sphere: laws of the section and the cocycle, quadrature, and the spin-weighted transform."""

from __future__ import annotations

from math import pi

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intertwine.errors import InputError, RepresentationError, SubgroupError
from intertwine.groups import SO2, SO3, Cyclic, LieRepresentation, intertwiners, spherical_harmonics, wigner_ds
from intertwine.spaces import FieldType, Sphere, SphereGrid, SpinTransform, spin_decomposition
from intertwine.spaces._ring_tables import ring_tables
from intertwine.testing import cocycle_residual, distance, induced_residual, mackey_residual, section_residual

SPHERE, H, G = Sphere(), SO2(), SO3()
NORTH = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
KINDS = ["gauss-legendre", "equiangular"]
_SHEAR = torch.tensor([[1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)


def _sheared(g):
    return _SHEAR @ H.irrep(1)(g) @ torch.linalg.inv(_SHEAR)


SHEARED = LieRepresentation(H, _sheared, dim=2, degree=1, name="sheared", is_orthogonal=False)
TYPES = {
    "scalar": H.trivial,
    "vector": H.irrep(1),
    "spin 2": H.irrep(2),
    "mixed": H.irrep(3) + 2 * H.trivial + H.irrep(1) + H.irrep(3),
    "product": H.irrep(1) @ H.irrep(2),
    "restricted": G.irrep(2).restrict(H),
    "not orthogonal": H.trivial + SHEARED,
}


def rotations(n, seed=0):
    return G.sample(n, torch.Generator().manual_seed(seed))


def points(n, seed=0):
    return rotations(n, seed)[..., 2]


def near_pole(distance_, azimuth, south):
    x = torch.tensor([distance_ * torch.tensor(azimuth).cos(), distance_ * torch.tensor(azimuth).sin(), 0.0])
    x = x.to(torch.float64) + NORTH * (-1 if south else 1) * (1 - distance_**2) ** 0.5
    return x / x.norm()


anywhere = st.one_of(
    st.builds(lambda seed: points(1, seed)[0], st.integers(0, 2**30)),
    st.builds(
        near_pole, st.sampled_from([0.0, 1e-18, 1e-15, 1e-13, 1e-11, 1e-8, 1e-4]), st.floats(-3.1, 3.1), st.booleans()
    ),
)
elements = st.builds(lambda seed: rotations(1, seed)[0], st.integers(0, 2**30))
turns = st.builds(H.from_angle, st.floats(-3.1, 3.1))


def test_points_are_projected_and_moved_as_vectors():
    g, x = rotations(5), points(5, seed=1)
    assert torch.equal(SPHERE.project(g), g @ NORTH)
    assert distance(SPHERE.act(g, x), torch.einsum("pij,pj->pi", g, x)) < 1e-15
    assert Sphere() == SPHERE
    assert SPHERE.group == G
    assert SPHERE.stabilizer == H


class TestLaws:
    @given(anywhere, elements, elements)
    @settings(max_examples=80)
    def test_section_and_cocycle(self, x, g1, g2):
        assert section_residual(SPHERE, x) < 1e-10
        assert cocycle_residual(SPHERE, x, g1, g2) < 1e-10
        assert G.contains(SPHERE.section(x))

    @given(anywhere, elements, elements, elements, turns, st.sampled_from(sorted(TYPES)))
    @settings(max_examples=60)
    def test_fields(self, x, a, b, g, h, name):
        field = SPHERE.field(TYPES[name])
        w = torch.randn(field.dim, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

        def f(point):
            return torch.sin(point @ w.T)

        assert mackey_residual(field, field.lift(f), g, h) < 1e-10
        assert induced_residual(field, f, a, b, x) < 1e-10

    @given(elements, st.floats(-3.1, 3.1), st.booleans(), st.booleans())
    @settings(max_examples=40)
    def test_from_a_pole_by_a_detour_to_a_pole(self, g, angle, from_south, to_south):
        """The product of g and its inverse misses the pole by rounding; the azimuth of that error must not count."""
        x = -NORTH if from_south else NORTH
        flip = G.from_euler(0.0, pi if from_south != to_south else 0.0, 0.0)
        back = G.from_euler(angle, 0.0, 0.0) @ flip @ g.T
        assert cocycle_residual(SPHERE, x, back, g) < 1e-10
        assert cocycle_residual(SPHERE, x, g.T, g) < 1e-10

    def test_in_batches(self):
        x, g = points(7, seed=1), rotations(7)
        together = SPHERE.cocycle(x, g)
        assert together.shape == (7, 2, 2)
        for k in range(7):
            assert distance(together[k], SPHERE.cocycle(x[k], g[k])) < 1e-14

    def test_the_section_is_that_of_euler(self):
        x = points(20)
        alpha, beta = torch.atan2(x[:, 1], x[:, 0]), x[:, 2].acos()
        assert distance(SPHERE.section(x), G.from_euler(alpha, beta, torch.zeros(20))) < 1e-12

    def test_the_choice_at_the_poles(self):
        assert torch.equal(SPHERE.section(NORTH), torch.eye(3, dtype=torch.float64))
        assert distance(SPHERE.section(-NORTH), G.from_euler(0.0, pi, 0.0)) < 1e-15
        assert torch.equal(SPHERE.section(near_pole(1e-14, 2.0, south=False)), SPHERE.section(NORTH))
        assert distance(SPHERE.section(near_pole(1e-9, 2.0, south=False)), G.from_euler(2.0, 1e-9, 0.0)) < 1e-6

    def test_gradients_are_finite_at_the_poles(self):
        x = torch.stack([NORTH, -NORTH, points(1)[0]]).requires_grad_()
        SPHERE.section(x).sum().backward()
        assert torch.isfinite(x.grad).all()

    def test_a_section_that_is_none_is_found_out(self):
        class Wrong(Sphere):
            def section(self, x):
                return super().section(x) @ G.from_euler(0.0, 1e-6, 0.0)

        assert section_residual(Wrong(), points(1)[0]) > 1e-7


class TestGrids:
    @staticmethod
    def gram(grid, degree):
        y = spherical_harmonics(degree, grid.points)
        return torch.einsum("xya,xyb,xy->ab", y, y, grid.weights)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("degree", [0, 1, 2, 7, 16])
    def test_harmonics_are_orthonormal(self, kind, degree):
        grid = SPHERE.grid(kind, band_limit=degree)
        assert (self.gram(grid, degree) - torch.eye((degree + 1) ** 2)).abs().max() < 1e-12
        assert abs(float(grid.weights.sum()) - 4 * pi) < 1e-12
        assert (grid.weights > 0).all()

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_grid_too_small_is_found_out(self, kind):
        gram = self.gram(SPHERE.grid(kind, band_limit=4), 5)
        assert (gram - torch.eye(36)).abs().max() > 1e-2

    def test_shapes(self):
        gauss, equal = SPHERE.grid("gauss-legendre", band_limit=5), SPHERE.grid("equiangular", band_limit=5)
        assert gauss.shape == (6, 11)
        assert equal.shape == (12, 12)
        for grid in (gauss, equal):
            assert grid.points.shape == (*grid.shape, 3)
            assert grid.weights.shape == grid.shape
            assert grid.beta.shape == grid.shape[:1]
            assert grid.alpha.shape == grid.shape[1:]
            assert (grid.beta.diff() > 0).all()
            assert grid.beta.min() > 0.05
            assert grid.beta.max() < pi - 0.05
            angles = torch.stack(torch.meshgrid(grid.alpha, grid.beta, indexing="xy"), -1)
            section = G.from_euler(angles[..., 0], angles[..., 1], torch.zeros(grid.shape))
            assert distance(SPHERE.section(grid.points), section) < 1e-13
        assert gauss == SPHERE.grid(band_limit=5)

    def test_integrals(self):
        grid = SPHERE.grid(band_limit=3)
        x, y, z = grid.points.unbind(-1)
        values = grid.integrate(torch.stack([x * x, x * y, z**4, x]))
        expected = torch.tensor([4 * pi / 3, 0, 4 * pi / 5, 0], dtype=torch.float64)
        assert distance(values, expected) < 1e-13

    def test_errors(self):
        with pytest.raises(InputError, match=r"Sphere.grid: expected kind to be 'gauss-legendre' or 'equiangular'"):
            SPHERE.grid("healpix", band_limit=3)
        with pytest.raises(InputError, match="band_limit to be a whole number of 0 or more; got -1"):
            SPHERE.grid("equiangular", band_limit=-1)
        with pytest.raises(InputError, match=r"samples \(..., 4, 7\).*got shape \(7, 4\)"):
            SPHERE.grid(band_limit=3).integrate(torch.zeros(7, 4))


class TestSpins:
    def test_spins_in_the_order_of_the_summands(self):
        spins = {name: spin_decomposition(rho).spins for name, rho in TYPES.items()}
        assert spins["mixed"] == (3, 0, 0, 1, 3)
        assert spins["product"] == (1, 3)
        assert spins["restricted"] == (0, 1, 2)
        assert spins["not orthogonal"] == (0, 1)
        assert spin_decomposition(TYPES["mixed"]).starts == (0, 2, 3, 4, 6)

    @pytest.mark.parametrize("name", TYPES)
    @pytest.mark.parametrize("l", [0, 1, 2, 4])
    def test_intertwiners_are_all_of_them(self, name, l):
        """Against the average over a cyclic group that is large enough for these frequencies to be all of SO(2)."""
        rho, sigma = TYPES[name], G.irrep(l).restrict(H)
        spins, h = spin_decomposition(rho), H.from_angle(torch.arange(16, dtype=torch.float64) * (pi / 8))
        phi, psi = spins.intertwiners(l), spins.duals(l)
        assert distance(phi[:, None] @ sigma(h), rho(h) @ phi[:, None]) < 1e-12
        slow = intertwiners(sigma(h), rho(h), orthogonal=rho.is_orthogonal)
        assert len(phi) == len(slow) == H.intertwining_number(sigma, rho)
        rank = torch.linalg.matrix_rank(torch.cat([phi, slow]).flatten(1), rtol=1e-9) if len(phi) else 0
        assert rank == len(phi)
        traces = torch.einsum("aij,bji->ab", phi, psi)
        assert distance(traces, torch.eye(len(phi), dtype=torch.float64)) < 1e-12

    def test_other_groups_are_refused(self):
        with pytest.raises(RepresentationError, match=r"its stabilizer SO\(2\); got irrep\(1\) of SO\(3\)"):
            spin_decomposition(G.irrep(1))


class TestTransform:
    @staticmethod
    def coefficients(transform, *batch, seed=0):
        random = torch.Generator().manual_seed(seed)
        c = torch.randn(*batch, transform.rho.dim, transform.size, dtype=torch.float64, generator=random)
        return c * transform.exists

    @pytest.mark.parametrize("name", TYPES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_fast_is_slow_and_exact(self, name, kind):
        rho = TYPES[name]
        grid = SPHERE.grid(kind, band_limit=5)
        for limit in (5, 2, 0):
            transform = SpinTransform(grid, rho, band_limit=limit)
            c = self.coefficients(transform, 2, 3)
            f = transform.synthesis(c)
            assert f.shape == (2, 3, rho.dim, *grid.shape)
            assert distance(f, torch.einsum("ixyan,...an->...ixy", transform.matrix(), c)) < 1e-12
            assert distance(transform.analysis(f), c) < 1e-12

    @pytest.mark.parametrize("name", [name for name in TYPES if name != "not orthogonal"])
    def test_orthonormal(self, name):
        transform = SpinTransform(SPHERE.grid(band_limit=4), TYPES[name])
        m = transform.matrix().flatten(3)[..., transform.exists.flatten()]
        gram = torch.einsum("ixya,ixyb,xy->ab", m, m, transform.grid.weights)
        assert distance(gram, torch.eye(len(gram), dtype=torch.float64)) < 1e-12
        random = torch.randn(TYPES[name].dim, *transform.grid.shape, dtype=torch.float64)
        slow = torch.einsum("ixyan,ixy,xy->an", transform.matrix(), random, transform.grid.weights)
        assert distance(transform.analysis(random), slow) < 1e-12

    def test_orthonormality_needs_the_whole_grid(self):
        grid = SPHERE.grid(band_limit=4)
        m = SpinTransform(SPHERE.grid(band_limit=5), H.irrep(1)).harmonics(grid.points)
        m = m[..., 25:].flatten(3)
        gram = torch.einsum("xyia,xyib,xy->ab", m, m, grid.weights)
        assert distance(gram, torch.eye(len(gram), dtype=torch.float64)) > 1e-2

    def test_coefficients_below_the_spin_are_ignored_and_zero(self):
        transform = SpinTransform(SPHERE.grid(band_limit=3), H.irrep(2) + H.irrep(7))
        c = torch.randn(4, 16, dtype=torch.float64)
        assert distance(transform.synthesis(c), transform.synthesis(c * transform.exists)) == 0
        coefficients = transform.analysis(torch.randn(4, 4, 7, dtype=torch.float64))
        assert (coefficients[~transform.exists] == 0).all()
        assert int(transform.exists.sum()) == 2 * (16 - 4)

    def test_scalars_are_spherical_harmonics(self):
        transform = SpinTransform(SPHERE.grid(band_limit=6), H.trivial)
        x = points(9)
        assert distance(transform.harmonics(x)[:, 0, 0], spherical_harmonics(6, x)) < 1e-13

    def test_gradients_and_curls_of_harmonics(self):
        """The gradient of Y_lm is √(l(l+1)) times the harmonic (l, m) of channel 0, its quarter turn of channel 1."""
        transform = SpinTransform(SPHERE.grid(band_limit=4), H.irrep(1))
        x = transform.grid.points.clone().requires_grad_()
        y = spherical_harmonics(4, x)
        frames = SPHERE.section(x.detach())
        for l, m in [(1, 0), (2, -1), (3, 3), (4, -2)]:
            at = l * l + l + m
            (gradient,) = torch.autograd.grad(y[..., at].sum(), x, retain_graph=True)
            a, b = torch.einsum("xyji,xyj->ixy", frames, gradient)[:2]
            size = (l * (l + 1)) ** 0.5
            grad, curl = transform.analysis(torch.stack([a, b])), transform.analysis(torch.stack([-b, a]))
            one = torch.zeros(25, dtype=torch.float64)
            one[at] = size
            assert distance(grad, torch.stack([one, 0 * one])) < 1e-12
            assert distance(curl, torch.stack([0 * one, one])) < 1e-12

    def test_high_degree(self):
        transform = SpinTransform(SPHERE.grid(band_limit=24), H.irrep(2))
        c = self.coefficients(transform)
        assert distance(transform.analysis(transform.synthesis(c)), c) < 1e-11

    def test_single_precision(self):
        transform = SpinTransform(SPHERE.grid(band_limit=6), TYPES["product"])
        c = self.coefficients(transform).float()
        f = transform.synthesis(c)
        assert f.dtype == torch.float32
        assert distance(transform.analysis(f), c) < 1e-5

    def test_gradients_flow_also_after_inference(self):
        grid, rho = SphereGrid("gauss-legendre", 2), H.irrep(2) + H.irrep(1) @ H.irrep(1)
        transform = SpinTransform(grid, rho)
        with torch.inference_mode():
            transform.analysis(transform.synthesis(torch.randn(rho.dim, 9, dtype=torch.float64)))
        f = torch.randn(rho.dim, *grid.shape, dtype=torch.float64, requires_grad=True)
        c = torch.randn(rho.dim, 9, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(transform.analysis, (f,))
        assert torch.autograd.gradcheck(transform.synthesis, (c,))

    def test_errors(self):
        grid = SPHERE.grid(band_limit=3)
        transform = SpinTransform(grid, H.irrep(1))
        with pytest.raises(InputError, match=r"a band limit of at most 3, up to which the gauss-legendre grid.*got 4"):
            SpinTransform(grid, H.irrep(1), band_limit=4)
        with pytest.raises(InputError, match=r"samples \(..., 2 channels, 4, 7\).*got shape \(2, 7, 4\)"):
            transform.analysis(torch.zeros(2, 7, 4))
        with pytest.raises(InputError, match=r"coefficients \(..., 2 channels, 16\).*got shape \(2, 15\)"):
            transform.synthesis(torch.zeros(2, 15))
        with pytest.raises(InputError, match=r"coefficients \(2 channels, 16\)"):
            transform.evaluate(torch.zeros(5, 2, 16), points(1))
        with pytest.raises(InputError, match=r"a single rotation \(3, 3\)"):
            transform.rotate(torch.zeros(2, 16), rotations(2))
        with pytest.raises(RepresentationError, match="For example SO2"):
            SpinTransform(grid, Cyclic(4).trivial)


class TestInducedRepresentation:
    @pytest.mark.parametrize("name", TYPES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_samples_agree_with_functions(self, name, kind):
        field, grid = SPHERE.field(TYPES[name]), SPHERE.grid(kind, band_limit=4)
        transform = SpinTransform(grid, field.rho)
        c = TestTransform.coefficients(transform)
        f = transform.synthesis(c)
        a, b = rotations(2)
        for g in (a, b, G.from_euler(0.3, 0.0, 0.0), G.from_euler(0.0, pi, 0.0)):
            moved = field.transform(f, g, grid=grid)
            function = field.transform(lambda x: transform.evaluate(c, x), g)
            assert distance(moved, torch.einsum("xyi->ixy", function(grid.points))) < 1e-10
        twice = field.transform(field.transform(f, b, grid=grid), a, grid=grid)
        assert distance(twice, field.transform(f, a @ b, grid=grid)) < 1e-10
        assert distance(field.transform(f, a, grid=grid), f) > 0.1

    def test_spin_1_is_a_field_of_tangent_vectors(self):
        """V(x) in R³ moves by (gV)(x) = g V(g⁻¹x); its components in the frames are the field."""

        def vectors(x):
            v = torch.stack([x[..., 1] * x[..., 2], x[..., 0] ** 2, x[..., 2] - x[..., 0]], -1)
            return v - (v * x).sum(-1, keepdim=True) * x

        def components(v):
            return lambda x: (SPHERE.section(x).mT @ v(x)[..., None])[..., :2, 0]

        g, x = rotations(1)[0], points(20, seed=1)
        moved = SPHERE.field(H.irrep(1)).transform(components(vectors), g)(x)
        assert distance(moved, components(lambda y: vectors(y @ g) @ g.T)(x)) < 1e-12

    def test_spin_2_is_a_field_of_symmetric_traceless_tensors(self):
        t = torch.randn(3, 3, dtype=torch.float64)

        def tensors(x):
            return x[..., 0, None, None] * (t + t.T) + x[..., :, None] * x[..., None, :].flip(-1)

        def components(tensor):
            def field(x):
                s = SPHERE.section(x)
                local = s.mT @ (tensor(x) + tensor(x).mT) @ s
                return torch.stack([local[..., 0, 0] - local[..., 1, 1], 2 * local[..., 0, 1]], -1)

            return field

        g, x = rotations(1)[0], points(20, seed=1)
        moved = SPHERE.field(H.irrep(2)).transform(components(tensors), g)(x)
        assert distance(moved, components(lambda y: g @ tensors(y @ g) @ g.T)(x)) < 1e-12

    def test_the_frame_matters(self):
        """Moving the components of a vector field as scalars is wrong, and the test above would see it."""
        transform = SpinTransform(SPHERE.grid(band_limit=3), H.irrep(1))
        f, g = transform.synthesis(TestTransform.coefficients(transform)), rotations(1)[0]
        right = SPHERE.field(H.irrep(1)).transform(f, g, grid=transform.grid)
        wrong = SPHERE.field(2 * H.trivial).transform(f, g, grid=transform.grid)
        assert distance(right, wrong) > 0.1

    def test_errors(self):
        field, grid = SPHERE.field(H.irrep(1)), SPHERE.grid(band_limit=3)
        g = torch.eye(3)
        f = torch.randn(2, 4, 7, dtype=torch.float64)
        assert torch.equal(field.transform(f, g), field.transform(f, g, grid=grid)), "the sizes tell the grid"
        with pytest.raises(InputError, match=r"on a grid of the sphere; got shape \(2, 4, 8\)"):
            field.transform(torch.zeros(2, 4, 8), g)
        with pytest.raises(InputError, match=r"2 channels, 4, 7\).*got shape \(1, 4, 7\)"):
            field.transform(torch.zeros(1, 4, 7), g, grid=grid)
        with pytest.raises(InputError, match=r"elements of SO\(3\); got matrices that are not orthogonal"):
            field.transform(torch.zeros(2, 4, 7), 2 * g, grid=grid)
        with pytest.raises(InputError, match="Pass a function of points"):
            field.lift(torch.zeros(2, 4, 7))


class TestTables:
    @pytest.mark.parametrize("m", [0, 1, 2, 5])
    def test_the_recursion_gives_the_entries_of_the_wigner_matrices(self, m: int) -> None:
        grid, L = SphereGrid("equiangular", 12), 12
        even, odd = ring_tables(grid, L, m)
        y = G.from_euler(0.0, grid.beta, 0.0)
        for l, d in enumerate(wigner_ds(L, y)):
            scale = ((2 * l + 1) / (4 * pi) / (2 if m else 1)) ** 0.5
            for k in range(L + 1):
                exists = l >= max(k, m)
                assert distance(even[k, l], scale * d[:, l + k, l + m] if exists else torch.zeros(26)) < 1e-12
                if m and k:
                    assert distance(odd[k, l], scale * d[:, l - k, l - m] if exists else torch.zeros(26)) < 1e-12

    @pytest.mark.parametrize("rho", [H.trivial, H.irrep(2)])
    def test_the_transform_is_orthonormal_at_a_high_band_limit(self, rho: LieRepresentation) -> None:
        t = SpinTransform(SphereGrid("gauss-legendre", 128), rho)
        c = torch.randn(rho.dim, t.size, dtype=torch.float64) * t.exists
        assert distance(t.analysis(t.synthesis(c)), c) < 1e-11


class TestErrors:
    def test_points(self):
        with pytest.raises(InputError, match="expected unit vectors; got a vector whose length differs from 1 by 1"):
            SPHERE.section(torch.tensor([0.0, 0.0, 2.0]))
        with pytest.raises(InputError, match=r"unit vectors \(..., 3\); got shape \(2,\)"):
            SPHERE.act(torch.eye(3), torch.zeros(2))
        with pytest.raises(InputError, match="differs from 1 by nan"):
            SPHERE.section(torch.full((3,), torch.nan))

    def test_stabilizer(self):
        h = H.from_angle(0.4)
        assert distance(SPHERE.as_stabilizer(SPHERE.from_stabilizer(h)), h) == 0
        with pytest.raises(SubgroupError, match="which fix the north pole; got a rotation that moves the pole by"):
            SPHERE.as_stabilizer(rotations(1)[0])
        with pytest.raises(SubgroupError, match="moves the pole by 2"):
            SPHERE.as_stabilizer(G.from_euler(0.0, pi, 0.0))

    def test_representation(self):
        with pytest.raises(RepresentationError, match=r"a representation of the stabilizer SO\(2\)"):
            SPHERE.field(G.irrep(1))
        assert isinstance(SPHERE.field(G.irrep(1).restrict(H)), FieldType)
