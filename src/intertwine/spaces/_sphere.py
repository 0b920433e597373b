"""The sphere as the homogeneous space SO(3)/SO(2)."""

from __future__ import annotations

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError, SubgroupError
from ..groups import SO2, SO3, Representation
from ._space import Space
from ._sphere_frame import require_unit_vectors, sphere_section
from ._sphere_grid import GridKind, SphereGrid
from ._spin_transform import SpinTransform

_POLE_TOLERANCE = 1e-5  # loose enough for float32


class Sphere(Space):
    """The unit sphere S² = SO(3)/SO(2). Points are unit vectors ``(..., 3)``; the base point is the north pole e_z.

    Elements of G = SO(3) are rotations ``(..., 3, 3)``. The stabilizer SO(2) consists of the rotations about the z
    axis, as ``(..., 2, 2)``. The projection is p(g) = g e_z, and the section is s(x) = Z(alpha) Y(beta) for the azimuth
    alpha and the polar angle beta of x (ZYZ Euler angles). It gives every point a frame: the first component of a field
    of spin 1 points south (increasing beta), the second one east (increasing alpha).

    No section is continuous on the whole sphere. This one jumps at the poles, where alpha = 0 by definition: s = 1 in
    the north and Y(π) in the south. Points within 1e-12 of a pole count as the pole. All laws hold up to rounding, with
    one exception: if g x is at a distance r from a pole, 1e-12 < r ≪ 1, rounding errors in g x change the azimuth, and
    with it the cocycle h(x, g), by 1e-16/r. The frame itself is that sensitive there.

    >>> sphere = Sphere()
    >>> x = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    >>> torch.allclose(sphere.project(sphere.section(x)), x)
    True
    >>> quarter = SO3().from_euler(torch.pi / 2, 0.0, 0.0)
    >>> sphere.cocycle(x, quarter).round() + 0.0
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    def __init__(self) -> None:
        self.group, self.stabilizer = SO3(), SO2()
        self.compact_group = self.group
        self.name = "Sphere"
        self.digest = "sphere SO(3)/SO(2)"

    # -- the space ---------------------------------------------------------------------------------------------

    @checked
    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        return self.group.compose(a, b)

    @checked
    def inverse(self, g: Tensor) -> Tensor:
        return self.group.inverse(g)

    @checked
    def project(self, g: Tensor) -> Tensor:
        return self.group.as_matrices(g, caller="Sphere.project")[..., 2]

    @checked
    def section(self, x: Tensor) -> Tensor:
        return sphere_section(x)

    @checked
    def act(self, g: Tensor, x: Tensor) -> Tensor:
        x = require_unit_vectors(x, caller="Sphere.act")
        return (self.group.as_matrices(g, caller="Sphere.act") @ x[..., None])[..., 0]

    @checked
    def as_stabilizer(self, g: Tensor) -> Tensor:
        g = self.group.as_matrices(g, caller="Sphere.as_stabilizer")
        if g.numel() and not torch.compiler.is_compiling():
            error = float((g.detach()[..., 2] - g.new_tensor([0.0, 0.0, 1.0])).abs().max())
            if not error <= _POLE_TOLERANCE:
                raise SubgroupError(
                    "Sphere.as_stabilizer",
                    expected="rotations about the z axis, which fix the north pole",
                    got=f"a rotation that moves the pole by {error:.2g}",
                    fix="Elements of SO(2) in SO(3) come from from_stabilizer(h), or as s(gH)⁻¹ g.",
                )
        return g[..., :2, :2]

    @checked
    def from_stabilizer(self, h: Tensor) -> Tensor:
        return self.group.embed(self.stabilizer, h)

    @checked
    def from_compact(self, g: Tensor) -> Tensor:
        return g

    # -- samples -----------------------------------------------------------------------------------------------

    @checked
    def grid(self, kind: GridKind = "gauss-legendre", *, band_limit: int) -> SphereGrid:
        """A quadrature grid that is exact for products of two fields of degree at most ``band_limit``.

        >>> Sphere().grid("equiangular", band_limit=3).shape
        (8, 8)
        """
        return SphereGrid(kind, band_limit)

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Tensor, *, grid: SphereGrid | None = None) -> Tensor:
        """(π(g)f)(x) = ρ(h(x, g⁻¹))⁻¹ f(g⁻¹x) on samples ``(..., dim, n_beta, n_alpha)`` of a grid.

        Multiplies the coefficients by the Wigner matrices of g. This is exact for fields up to the band limit of the
        grid; higher degrees are lost. By default, the sizes of the array determine the grid.

        >>> grid = Sphere().grid("gauss-legendre", band_limit=2)
        >>> scalars = Sphere().field(SO2().trivial)
        >>> half_turn = SO3().from_euler(0.0, torch.pi, 0.0)
        >>> height = grid.points[None, ..., 2]
        >>> torch.allclose(scalars.transform(height, half_turn, grid=grid), -height)
        True
        """
        if grid is None and f.ndim > 2:
            grid = SphereGrid.of_shape(*f.shape[-2:])
        if grid is None:
            raise InputError(
                "transform of a field on Sphere",
                expected="samples (..., channels, n_beta, n_alpha) on a grid of the sphere",
                got=f"shape {tuple(f.shape)}",
                fix="Sample it on sphere.grid('gauss-legendre', band_limit=L), or pass f as a function.",
            )
        spin = SpinTransform(grid, rho)
        return spin.synthesis(spin.rotate(spin.analysis(f), g))
