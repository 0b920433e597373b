"""Convolution on the sphere: exact for scalars, vectors and tensors, by the spectrum and in space."""

from __future__ import annotations

import math

import pytest
import torch

from intertwine.errors import EmptyKernelSpaceError, InputError, TypeMismatchError
from intertwine.groups import SO2, SO3, Dihedral
from intertwine.nn import ReLU, Sequential, SphereConv
from intertwine.spaces import Grid2d, Sphere, SpinTransform
from intertwine.testing import assert_equivariant

SPHERE, H = Sphere(), SO2()
SCALAR, VECTOR, TENSOR = (SPHERE.field(H.irrep(m)) for m in range(3))
MIXED = SPHERE.field(H.irrep(1) + 2 * H.trivial + H.irrep(2))
GRIDS = [SPHERE.grid("gauss-legendre", band_limit=5), SPHERE.grid("equiangular", band_limit=5)]


def fields(field_type, grid, band_limit=None, seed=0):
    transform = SpinTransform(grid, field_type.rho, band_limit=band_limit)
    noise = torch.Generator().manual_seed(seed)
    c = torch.randn(2, field_type.dim, transform.size, dtype=torch.float64, generator=noise)
    return transform.synthesis(c * transform.exists)


@pytest.mark.parametrize("grid", GRIDS, ids=["gauss-legendre", "equiangular"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(SCALAR, SCALAR), (SCALAR, VECTOR), (VECTOR, SCALAR), (VECTOR, VECTOR), (TENSOR, VECTOR), (MIXED, MIXED)],
    ids=lambda t: t.rho.name,
)
def test_the_spectrum_and_the_twisted_correlation_agree(before, after, grid):
    layer = SphereConv(before, after, grid, anchors=4).double()
    x = fields(before, grid)
    with torch.no_grad():
        if layer.bias is not None:
            layer.bias.normal_()
        assert torch.allclose(layer(x), layer.correlate(x), atol=1e-11)


def test_the_correlation_would_notice_a_wrong_matrix():
    layer = SphereConv(VECTOR, VECTOR, GRIDS[0]).double()
    x = fields(VECTOR, GRIDS[0])
    with torch.no_grad():
        before = layer(x)
        layer.weight[7] += 0.1
        assert (layer.correlate(x) - before).abs().max() > 1e-3


@pytest.mark.parametrize("before", [SCALAR, VECTOR, TENSOR, MIXED], ids=lambda t: t.rho.name)
def test_one_free_matrix_for_each_degree(before):
    """As many weights as the theory counts: at degree l one for each pair of channels of spin at most l."""
    layer = SphereConv(before, VECTOR, GRIDS[0])
    spins = [
        m for m, psi in enumerate((H.irrep(0), H.irrep(1), H.irrep(2))) for atom in before.rho.atoms if atom == psi
    ]
    expected = sum(sum((1 if m == 0 else 2) for m in spins if m <= l) * 2 for l in range(1, 6))
    assert layer.weight.numel() == expected


def test_scalars_to_scalars_are_zonal_filters():
    """K^l multiplies all harmonics of a degree: a rotation-invariant blur is diagonal in the spectrum."""
    layer = SphereConv(SCALAR, SCALAR, GRIDS[0], bias=False).double()
    transform = SpinTransform(GRIDS[0], SCALAR.rho)
    c = torch.randn(1, 1, 36, dtype=torch.float64)
    with torch.no_grad():
        out = transform.analysis(layer(transform.synthesis(c)))
    assert torch.allclose(out, c * layer.matrices()[transform.degrees, 0, 0], atol=1e-12)


def test_the_gradient_of_a_scalar_is_a_vector_convolution():
    """grad: scalars → tangent vectors is linear and commutes with rotations, so it is a SphereConv.

    The height z = cos β has the gradient -sin β towards south and 0 towards east.
    """
    grid = SPHERE.grid("gauss-legendre", band_limit=8)
    layer = SphereConv(SCALAR, VECTOR, grid).double()
    with torch.no_grad():
        layer.weight.zero_()
        matrices = layer.matrices()
        for l in range(1, 9):  # on harmonics of degree l a gradient has the norm √(l(l+1))
            matrices[l, 0, 0] = -math.sqrt(l * (l + 1))
        layer.weight.copy_(matrices.flatten()[layer.spectrum.place])
        f = grid.points[None, None, ..., 2] ** 3
        out = layer(f)[0]
    sign = 1 if out[0, 2, 0] < 0 else -1
    beta = grid.beta[:, None].expand(grid.shape)
    south = -3 * beta.cos() ** 2 * beta.sin()
    assert torch.allclose(sign * out[0], south, atol=1e-11)
    assert out[1].abs().max() < 1e-12


def test_pooling_to_a_coarser_grid_keeps_the_symmetry():
    fine, coarse = SPHERE.grid("equiangular", band_limit=9), SPHERE.grid("gauss-legendre", band_limit=4)
    assert assert_equivariant(SphereConv(MIXED, VECTOR, fine, out_grid=coarse)) < 1e-12
    assert assert_equivariant(SphereConv(VECTOR, MIXED, coarse, out_grid=fine)) < 1e-12


def test_a_grid_that_is_too_coarse_breaks_it():
    """The transform of a field of higher degree than the grid resolves is aliased, and does not turn with it."""
    grid = SPHERE.grid("gauss-legendre", band_limit=4)
    layer = SphereConv(SCALAR, SCALAR, grid).double()
    g = SO3().sample(1, torch.Generator().manual_seed(0))[0]
    transform = SpinTransform(SPHERE.grid("gauss-legendre", band_limit=9), SCALAR.rho)
    c = torch.randn(1, 100, dtype=torch.float64)
    x, turned = (transform.evaluate(k, grid.points).permute(2, 0, 1)[None] for k in (c, transform.rotate(c, g)))
    with torch.no_grad():
        error = (layer(turned) - SCALAR.transform(layer(x), g, grid=grid)).abs().max()
    assert error > 1e-2


def test_a_network_and_its_error_from_the_nonlinearity():
    """ReLU raises the degree: on smooth fields the error is small, and falls as the grid is refined."""
    errors = []
    for band_limit in (8, 32):
        grid = SPHERE.grid("gauss-legendre", band_limit=band_limit)
        hidden = SPHERE.field(4 * H.trivial)
        torch.manual_seed(0)
        net = Sequential(
            SphereConv(VECTOR, hidden, grid, band_limit=4), ReLU(hidden), SphereConv(hidden, VECTOR, grid, band_limit=4)
        ).double()
        x = fields(VECTOR, grid, 3)
        g = SO3().sample(1, torch.Generator().manual_seed(1))[0]
        with torch.no_grad():
            left, right = net(VECTOR.transform(x, g, grid=grid)), VECTOR.transform(net(x), g, grid=grid)
        errors.append(float((left - right).norm() / right.norm()))
    assert errors[1] < errors[0] / 4 < 0.1


def test_variance_through_ten_layers():
    torch.manual_seed(0)
    grid = SPHERE.grid("gauss-legendre", band_limit=6)
    for rho in (16 * H.trivial, 16 * H.irrep(1), 8 * H.irrep(2), 8 * H.irrep(1) + 8 * H.trivial):
        field = SPHERE.field(rho)
        x = fields(field, grid)
        start = x.square().mean()
        with torch.no_grad():
            ratios = []
            for _ in range(12):
                y = x
                for _ in range(10):
                    y = SphereConv(field, field, grid).double()(y)
                ratios.append(float(y.square().mean() / start))
        assert 0.8 < sum(ratios) / len(ratios) < 1.25


def test_errors():
    grid = GRIDS[0]
    with pytest.raises(TypeMismatchError, match="field types on the sphere"):
        SphereConv(SCALAR, Grid2d(Dihedral(4)).field(Dihedral(4).trivial), grid)
    with pytest.raises(InputError, match="the 6 rings of 11 points"):
        SphereConv(SCALAR, SCALAR, grid)(torch.zeros(1, 1, 11, 6))
    with pytest.raises(InputError, match="a band limit of 0 to 5"):
        SphereConv(SCALAR, SCALAR, grid, band_limit=6)
    with pytest.raises(InputError, match="anchors from 1 to 6"):
        SphereConv(SCALAR, SCALAR, grid, anchors=7)
    with pytest.raises(InputError, match="in_grid to be a SphereGrid"):
        SphereConv(SCALAR, SCALAR, 5)
    with pytest.raises(EmptyKernelSpaceError, match="A field of spin m has degrees from m on"):
        SphereConv(SCALAR, VECTOR, grid, band_limit=0)
    with pytest.raises(InputError, match="the same grid for input and output"):
        SphereConv(SCALAR, SCALAR, GRIDS[0], out_grid=GRIDS[1]).correlate(torch.zeros(1, 1, *grid.shape))
