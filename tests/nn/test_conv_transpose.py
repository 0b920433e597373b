"""Transposed convolution: the adjoint of the convolution, on every size."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import SO2, SO3, Cyclic, Dihedral, Octahedral
from intertwine.nn import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from intertwine.nn._centers import moving_axes
from intertwine.spaces import Grid2d, Grid3d
from intertwine.testing import assert_equivariant

C4, D4, D1, CUBE = Cyclic(4), Dihedral(4), Dihedral(1), Octahedral()
PLANE = Grid2d(C4)
REGULAR = PLANE.field(2 * C4.regular)


def with_filter(layer, filters):
    """Set the weights so that the layer has this filter, which must lie in its space."""
    shapes = [w.shape for w in layer.weights]
    unit = torch.eye(sum(s.numel() for s in shapes), dtype=torch.float64)
    basis = []
    for row in unit:
        parts = [part.view(s) for part, s in zip(row.split([s.numel() for s in shapes]), shapes, strict=True)]
        basis.append(layer.expansion(parts).flatten())
    solution = torch.linalg.lstsq(torch.stack(basis).T, filters.flatten()).solution
    with torch.no_grad():
        for weight, value in zip(layer.weights, solution.split([s.numel() for s in shapes]), strict=True):
            weight.copy_(value.view(weight.shape))
    assert (layer.expand()[0] - filters).abs().max() < 1e-10, "the transposed kernel is equivariant the other way"
    return layer


@pytest.mark.parametrize(
    ("plane", "rho1", "rho2", "options"),
    [
        (PLANE, C4.trivial, C4.regular, {"kernel_size": 3, "stride": 2}),
        (PLANE, C4.regular, C4.regular, {"kernel_size": 4, "stride": 2, "padding": 1}),
        (Grid2d(D4), D4.irrep(1), D4.regular, {"kernel_size": 3, "stride": 3, "dilation": 2}),
        (Grid2d(SO2()), SO2().irrep(1), SO2().irrep(2), {"kernel_size": 5, "padding": 2}),
        (Grid3d(CUBE), CUBE.irreps[3], CUBE.irreps[4], {"kernel_size": 3, "stride": 2, "padding": 1}),
        (Grid3d(SO3()), SO3().irrep(0), SO3().irrep(1), {"kernel_size": 3, "padding": 1}),
    ],
)
def test_it_is_the_adjoint(plane, rho1, rho2, options):
    """⟨Φ x, y⟩ = ⟨x, Φᵀ y⟩."""
    flat = plane.dimension == 2
    down, up = (Conv2d, ConvTranspose2d) if flat else (Conv3d, ConvTranspose3d)
    a, b = plane.field(rho1), plane.field(rho2)
    conv = down(a, b, bias=False, **options).double()
    back = with_filter(up(b, a, bias=False, **options).double(), conv.expand()[0].transpose(0, 1).detach())
    size = next(n for n in range(7, 12) if _fits(conv, n))
    x = torch.randn(2, a.dim, *[size] * plane.dimension, dtype=torch.float64)
    y = torch.randn_like(conv(x))
    assert back(y).shape == x.shape
    left, right = (conv(x) * y).sum(), (x * back(y)).sum()
    assert abs(left - right) < 1e-11 * abs(left) + 1e-11


def _fits(layer, n):
    try:
        layer.output_sizes((n,) * layer.dimension)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("k", "stride", "padding", "dilation"),
    [(2, 2, 0, 1), (4, 2, 1, 1), (3, 2, 1, 1), (5, 3, 2, 1), (3, 2, 0, 2), (1, 2, 0, 1)],
)
def test_every_size_commutes(k, stride, padding, dilation):
    layer = ConvTranspose2d(REGULAR, REGULAR, k, stride=stride, padding=padding, dilation=dilation)
    for size in (6, 7, 8, 9):
        assert assert_equivariant(layer, size=size) < 1e-12
        assert layer(torch.zeros(1, 8, size, size)).shape[2:] == layer.output_sizes((size, size))


def test_padding_on_one_side_is_refused_and_would_break():
    with pytest.raises(InputError, match=r"output_padding 0 along the height and the width.*not commute with C4"):
        ConvTranspose2d(REGULAR, REGULAR, 3, stride=2, padding=1, output_padding=1)
    loose = ConvTranspose2d(REGULAR, REGULAR, 3, stride=2, padding=1, output_padding=1, allow_asymmetric=True)
    assert loose(torch.zeros(1, 8, 8, 8)).shape == (1, 8, 16, 16)
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(loose, size=8)
    with pytest.raises(InputError, match="smaller than stride"):
        ConvTranspose2d(REGULAR, REGULAR, 3, stride=2, output_padding=2, allow_asymmetric=True)


def test_an_axis_that_stays_may_be_padded():
    field = Grid2d(D1).field(D1.regular)
    free = next(a for a in (0, 1) if a not in moving_axes(field.space))
    added = tuple(int(a == free) for a in (0, 1))
    layer = ConvTranspose2d(field, field, 3, stride=2, padding=1, output_padding=added)
    assert assert_equivariant(layer, size=8) < 1e-12


def test_groups():
    four = PLANE.field(4 * C4.regular)
    layer = ConvTranspose2d(four, REGULAR, 2, stride=2, groups=2)
    assert assert_equivariant(layer) < 1e-12
    x = torch.randn(1, 16, 5, 5)
    y = x.clone()
    y[:, 8:] = 0
    assert torch.allclose(layer(x)[:, :4], layer(y)[:, :4], atol=1e-6)


def test_white_noise_keeps_its_variance():
    wide = PLANE.field(16 * C4.regular)
    layer = ConvTranspose2d(wide, wide, 4, stride=2, padding=1)
    with torch.no_grad():
        out = layer(torch.randn(4, 64, 24, 24))
    assert abs(out[..., 4:-4, 4:-4].var() - 1) < 0.15


def test_nothing_left():
    with pytest.raises(InputError, match="the padding cuts off"):
        ConvTranspose2d(REGULAR, REGULAR, 3, padding=2)(torch.zeros(1, 8, 1, 1))
