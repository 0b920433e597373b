"""A network on the sphere gives the same answer for a rotated image, and a planar network does not."""

from __future__ import annotations

import pytest
import torch

from intertwine.data import onto_sphere
from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import SO2, SO3
from intertwine.models import SphericalCNN
from intertwine.nn import GlobalPool, Sequential, SphereConv
from intertwine.spaces import Grid2d, Sphere, SphereGrid, SpinTransform
from intertwine.testing import assert_equivariant

SPHERE, H = Sphere(), SO2()


@torch.no_grad()
def change_under_rotations(net: torch.nn.Module, grid: SphereGrid) -> float:
    """The largest relative change of the scores of a smooth image under random rotations."""
    noise = torch.Generator().manual_seed(0)
    t = SpinTransform(grid, H.trivial, band_limit=5)
    c = torch.randn(4, 1, t.size, dtype=torch.float64, generator=noise)
    before = net(t.synthesis(c))
    spread = before.std(0).norm()
    changes = [(net(t.synthesis(t.rotate(c, g))) - before).norm(dim=1).max() / spread for g in SO3().sample(3, noise)]
    return float(max(changes))


@pytest.mark.parametrize(("oversampling", "bound"), [(1.0, 0.2), (3.0, 0.01)])
def test_scores_are_invariant_up_to_the_sampling_of_the_nonlinearity(oversampling: float, bound: float) -> None:
    torch.manual_seed(0)
    grid = SPHERE.grid(band_limit=9)
    net = SphericalCNN(grid, 1, 6, widths=(4, 6), band_limits=(6, 4), frequencies=(2, 2), oversampling=oversampling)
    assert change_under_rotations(net.double().eval(), grid) < bound
    assert assert_equivariant(net.features) == 0  # its claim holds too


def test_a_planar_network_does_change() -> None:
    torch.manual_seed(0)
    grid = SPHERE.grid(band_limit=9)
    planar = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(6))
    assert change_under_rotations(planar.double(), grid) > 0.5


def test_blocks_have_one_setting_each() -> None:
    with pytest.raises(InputError, match="one width, one band limit and one frequency per block"):
        SphericalCNN(SPHERE.grid(band_limit=5), 1, 2, widths=(2, 2), band_limits=(3,), frequencies=(1,))
    with pytest.raises(InputError, match="a finite oversampling of at least 1"):
        SphericalCNN(SPHERE.grid(band_limit=5), 1, 2, oversampling=0.5)


class TestGlobalPool:
    def test_the_mean_is_the_integral_over_the_area(self) -> None:
        """Not the mean of the samples, which are dense at the poles."""
        for grid in (SPHERE.grid(band_limit=4), SPHERE.grid("equiangular", band_limit=4)):
            height = grid.points[..., 2] ** 2
            pool = GlobalPool(SPHERE.field(H.trivial), grid=grid).double()
            assert float(pool(height[None, None])) == pytest.approx(1 / 3, abs=1e-12)
            assert abs(float(height.mean()) - 1 / 3) > 0.01

    def test_only_scalars_have_a_mean(self) -> None:
        grid = SPHERE.grid(band_limit=4)
        mixed = SPHERE.field(H.irrep(1) + 2 * H.trivial)
        assert GlobalPool(mixed, grid=grid).out_type == SPHERE.field(2 * H.trivial)
        with pytest.raises(TypeMismatchError, match="which alone have a mean on the sphere"):
            GlobalPool(SPHERE.field(H.irrep(1)), grid=grid)

    def test_the_grid_is_needed_on_the_sphere_only(self) -> None:
        with pytest.raises(InputError, match="the grid on which the fields are sampled"):
            GlobalPool(SPHERE.field(H.trivial))
        with pytest.raises(InputError, match="no grid for fields on Grid2d"):
            GlobalPool(Grid2d("C4").field("regular"), grid=SPHERE.grid(band_limit=2))
        with pytest.raises(InputError, match="5 rings of 9 points"):
            GlobalPool(SPHERE.field(H.trivial), grid=SPHERE.grid(band_limit=4))(torch.zeros(1, 1, 4, 4))

    def test_it_ends_a_sequence(self) -> None:
        grid, coarse = SPHERE.grid(band_limit=6), SPHERE.grid(band_limit=3)
        conv = SphereConv(SPHERE.field(H.trivial + H.irrep(1)), SPHERE.field(3 * H.trivial), grid, out_grid=coarse)
        pool = GlobalPool(conv.out_type, grid=coarse)
        assert assert_equivariant(Sequential(conv, pool)) < 1e-12


class TestOntoSphere:
    def test_the_image_is_seen_from_above_the_north_pole(self) -> None:
        image = torch.zeros(1, 9, 9)
        image[0, 4, 8] = 1.0  # the middle of the right edge
        grid = SPHERE.grid(band_limit=40)
        out = onto_sphere(image, torch.Generator(), grid=grid)[0]
        brightest = grid.points.flatten(0, 1)[out.flatten().argmax()]
        assert float(brightest[0]) > 0.98  # the x axis, on the equator
        assert not bool(out[grid.points[..., 2] <= 0].any())

    def test_a_rotated_image_is_the_image_rotated(self) -> None:
        grid = SPHERE.grid(band_limit=7)
        image = torch.rand(1, 6, 6, dtype=torch.float64)
        out = onto_sphere(image, torch.Generator().manual_seed(3), grid=grid, rotate=True)[0]
        g = SO3().sample(1, torch.Generator().manual_seed(3))[0]
        # The value at g x is the value of the upright image at x: compare through a grid rotated by hand.
        back = grid.points @ g
        x, y, z = back.unbind(-1)
        inside = z > 0
        column, row = 2.5 * (1 + x / (1 + z)), 2.5 * (1 - y / (1 + z))
        for i, j in torch.nonzero(inside)[::7].tolist():
            r, c = float(row[i, j]), float(column[i, j])
            assert float(out[i, j]) == pytest.approx(bilinear(image[0], r, c), abs=1e-9)
        assert not bool(out[~inside].any())

    def test_integers_are_refused(self) -> None:
        with pytest.raises(InputError, match="floating-point numbers"):
            onto_sphere(torch.zeros(1, 4, 4, dtype=torch.uint8), torch.Generator(), grid=SPHERE.grid(band_limit=2))


def bilinear(image: torch.Tensor, row: float, column: float) -> float:
    """Interpolation by its definition, with zeros outside."""
    total = 0.0
    for r in range(image.shape[0]):
        for c in range(image.shape[1]):
            total += max(0.0, 1 - abs(row - r)) * max(0.0, 1 - abs(column - c)) * float(image[r, c])
    return total
