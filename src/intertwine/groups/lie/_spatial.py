"""SO(3) and O(3): rotations of space, without and with reflections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import pi

import torch
from torch import Tensor

from ..._checked import checked
from ..._numerics import projector_range
from ...errors import InputError
from .._catalog import register_group
from .._group import Element, Group
from ..special._checks import require_whole
from ..special._wigner import wigner_d
from . import _rotation_maps as maps
from ._compact import CompactLieGroup, Quadrature
from ._irreps import o3_irrep, so3_irrep
from ._lie_group import rotation_complaint
from ._planar import SO2, require_identity_component
from ._representation import LieRepresentation


class _SpatialGroup(CompactLieGroup):
    """The common base of SO(3) and O(3)."""

    space_dim = 3
    matrix_dim = 3
    algebra_dim = 3

    @property
    def generators(self) -> Tensor:
        return maps.hat(torch.eye(3, dtype=torch.float64))

    @checked
    def exp(self, coords: Tensor) -> Tensor:
        """The rotation about the vector ``coords`` by an angle equal to its length."""
        return maps.spatial(self.as_coordinates(coords))

    @checked
    def from_euler(self, alpha: Tensor | float, beta: Tensor | float, gamma: Tensor | float) -> Tensor:
        """g = Z(alpha) Y(beta) Z(gamma), where Z and Y are the rotations about those axes.

        >>> SO3().from_euler(0.0, torch.pi / 2, 0.0).round() @ torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        tensor([1., 0., 0.], dtype=torch.float64)
        """
        a, b, c = (torch.as_tensor(angle, dtype=torch.float64) for angle in (alpha, beta, gamma))
        return maps.about_z(a) @ maps.about_y(b) @ maps.about_z(c)

    @checked
    def to_euler(self, g: Element) -> tuple[Tensor, Tensor, Tensor]:
        """Angles (alpha, beta, gamma) with g = Z(alpha) Y(beta) Z(gamma) and beta in [0, π].

        At the poles, beta = 0 or π, only a combination of alpha and gamma matters. The angles have no derivative there,
        but they still give g back.
        """
        g = self.require(g, caller=f"{self.name}.to_euler")
        require_identity_component(g, caller=f"{self.name}.to_euler")
        alpha = torch.atan2(g[..., 1, 2], g[..., 0, 2])
        rest = maps.about_z(alpha).mT @ g  # Y(beta) Z(gamma): gamma compensates for an error in alpha
        return (
            alpha,
            torch.atan2(rest[..., 0, 2], rest[..., 2, 2]),
            torch.atan2(rest[..., 1, 0], rest[..., 1, 1]),
        )

    @checked
    def from_quaternion(self, q: Tensor) -> Tensor:
        """The rotation of a quaternion ``(..., 4)``, (w, x, y, z) with w real; of any length but 0.

        >>> SO3().from_quaternion(torch.tensor([1.0, 0.0, 0.0, 1.0])).round()  # a quarter turn about z
        tensor([[ 0., -1.,  0.],
                [ 1.,  0.,  0.],
                [ 0.,  0.,  1.]], dtype=torch.float64)
        """
        q = torch.as_tensor(q).to(torch.float64)
        if q.shape[-1:] != (4,) or not bool((q * q).sum(-1).gt(0).all()):
            raise InputError(
                f"{self.name}.from_quaternion",
                expected="quaternions (..., 4) that are not zero",
                got=f"shape {tuple(q.shape)}" + (" with zeros" if q.shape[-1:] == (4,) else ""),
            )
        return maps.from_quaternion(q)

    @checked
    def to_quaternion(self, g: Element) -> Tensor:
        """The unit quaternion ``(..., 4)`` of a rotation, (w, x, y, z) with w ≥ 0."""
        g = self.require(g, caller=f"{self.name}.to_quaternion")
        require_identity_component(g, caller=f"{self.name}.to_quaternion")
        return maps.quaternion(g)

    @checked
    def from_axis_angle(self, axis: Tensor, angle: Tensor | float) -> Tensor:
        """The rotation by an angle about an axis ``(..., 3)`` of any length but 0.

        >>> SO3().from_axis_angle(torch.tensor([0.0, 0.0, 5.0]), torch.pi / 2).round()
        tensor([[ 0., -1.,  0.],
                [ 1.,  0.,  0.],
                [ 0.,  0.,  1.]], dtype=torch.float64)
        """
        axis, angle = torch.as_tensor(axis).to(torch.float64), torch.as_tensor(angle, dtype=torch.float64)
        length = torch.linalg.vector_norm(axis, dim=-1, keepdim=True) if axis.shape[-1:] == (3,) else axis.new_zeros(1)
        if not bool((length > 0).all()):
            raise InputError(
                f"{self.name}.from_axis_angle", expected="axes (..., 3) that are not zero", got=f"{axis.tolist()}"
            )
        return self.exp(angle[..., None] * axis / length)

    @checked
    def to_axis_angle(self, g: Element) -> tuple[Tensor, Tensor]:
        """The axis ``(..., 3)`` of length 1 and the angle in [0, π] of a rotation. The identity turns about z by 0."""
        w = self.log(g)
        angle = torch.linalg.vector_norm(w, dim=-1)
        axis = torch.where(angle[..., None] > 0, w, w.new_tensor((0.0, 0.0, 1.0)))
        return axis / torch.linalg.vector_norm(axis, dim=-1, keepdim=True), angle


@register_group("SO(3)", about="rotations of space")
class SO3(_SpatialGroup):
    """SO(3), the rotations of space. An element is a ``(..., 3, 3)`` rotation matrix.

    >>> G = SO3()
    >>> (G.irrep(1) @ G.irrep(2)).decompose().irreps
    (SO(3): irrep(1), SO(3): irrep(2), SO(3): irrep(3))
    """

    name = "SO(3)"
    digest = "SO(3)"

    @property
    def component_representatives(self) -> Tensor:
        return self.identity[None]

    @checked
    def log(self, g: Element) -> Tensor:
        return maps.spatial_vector(self.require(g, caller="SO(3).log"))

    @checked
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """``n`` elements distributed by the Haar measure."""
        require_whole(n, caller="SO(3).sample", name="n")
        return _haar_rotations(n, generator)

    @checked
    def haar_factors(self, degree: int) -> tuple[Quadrature, ...]:
        return _euler_quadrature(degree, caller="SO(3).haar_quadrature")

    @checked
    def class_quadrature(self, degree: int) -> Quadrature:
        return _weyl_quadrature(degree, caller="SO(3).class_quadrature")

    @checked
    def irrep(self, l: int) -> LieRepresentation:
        """The irrep of degree l and dimension 2l+1, by real Wigner matrices; see :func:`wigner_d` for the basis.

        >>> SO3().irrep(2).dim
        5
        """
        return so3_irrep(self, l)

    @checked
    def irreps_up_to(self, degree: int) -> tuple[LieRepresentation, ...]:
        return tuple(self.irrep(l) for l in range(degree + 1))

    def _candidates(
        self, evaluate: Callable[[Tensor], Tensor], degree: int, irreps: Sequence[LieRepresentation]
    ) -> Iterator[Tensor]:
        return _zonal_candidates(evaluate, degree, irreps)

    def _complaint(self, g: Tensor) -> str | None:
        return rotation_complaint(g, proper=True)

    def _embed_lie(self, subgroup: Group, h: Element) -> Tensor | None:
        if isinstance(subgroup, SO2):
            return maps.embed_corner(subgroup.require(h, caller="SO(3).embed"), 3)
        return None

    def _embed_linear(self, m: Tensor, *, proper: bool) -> Tensor | None:
        return m if proper else None


@register_group("O(3)", about="rotations and reflections of space")
class O3(_SpatialGroup):
    """O(3), the rotations and reflections of space. An element is a ``(..., 3, 3)`` orthogonal matrix.

    >>> G = O3()
    >>> (G.irrep(1) @ G.irrep(1)).decompose().irreps
    (O(3): trivial, O(3): irrep(1, +1), O(3): irrep(2, +1))
    """

    name = "O(3)"
    digest = "O(3)"

    @property
    def component_representatives(self) -> Tensor:
        return torch.stack([self.identity, -self.identity])

    @checked
    def log(self, g: Element) -> Tensor:
        g = self.require(g, caller="O(3).log")
        require_identity_component(g, caller="O(3).log")
        return maps.spatial_vector(g)

    @checked
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """``n`` elements distributed by the Haar measure; each has determinant -1 with probability ½."""
        require_whole(n, caller="O(3).sample", name="n")
        turns = _haar_rotations(n, generator)
        return turns @ self.component_representatives[torch.randint(2, (n,), generator=generator)]

    @checked
    def haar_factors(self, degree: int) -> tuple[Quadrature, ...]:
        half = torch.full((2,), 0.5, dtype=torch.float64)
        return (self.component_representatives, half), *_euler_quadrature(degree, caller="O(3).haar_quadrature")

    @checked
    def class_quadrature(self, degree: int) -> Quadrature:
        turns, weights = _weyl_quadrature(degree, caller="O(3).class_quadrature")
        return torch.cat([turns, -turns]), torch.cat([weights, weights]) / 2

    @checked
    def irrep(self, l: int, parity: int | None = None) -> LieRepresentation:
        """The irrep of degree l in which the inversion -1 acts by the sign ``parity``.

        The default is (-1)^l, the parity of the spherical harmonics of degree l.

        >>> O3().irrep(0, -1)(-torch.eye(3))
        tensor([[-1.]], dtype=torch.float64)
        """
        return o3_irrep(self, l, parity)

    @checked
    def irreps_up_to(self, degree: int) -> tuple[LieRepresentation, ...]:
        return tuple(self.irrep(l, parity) for l in range(degree + 1) for parity in (1, -1))

    def _candidates(
        self, evaluate: Callable[[Tensor], Tensor], degree: int, irreps: Sequence[LieRepresentation]
    ) -> Iterator[Tensor]:
        inversion = evaluate(-self.identity)
        for psi, spanning in zip(irreps, _zonal_candidates(evaluate, degree, irreps), strict=True):
            parity = float(psi(-self.identity)[0, 0])
            yield (spanning + parity * inversion @ spanning) / 2

    def _complaint(self, g: Tensor) -> str | None:
        return rotation_complaint(g, proper=False)

    def _embed_lie(self, subgroup: Group, h: Element) -> Tensor | None:
        if isinstance(subgroup, SO3):
            return subgroup.require(h, caller="O(3).embed")
        return SO3().embed(subgroup, h) if isinstance(subgroup, SO2) else None

    def _embed_linear(self, m: Tensor, *, proper: bool) -> Tensor | None:
        return m


def _haar_rotations(n: int, generator: torch.Generator | None) -> Tensor:
    """Uniform unit quaternions, as rotations."""
    return maps.from_quaternion(torch.randn(n, 4, dtype=torch.float64, generator=generator))


def _euler_quadrature(degree: int, *, caller: str) -> tuple[Quadrature, Quadrature, Quadrature]:
    """Equal steps in alpha and gamma leave only powers of cos(beta), which Gauss nodes integrate exactly."""
    require_whole(degree, caller=caller, name="degree")
    n = degree + 1
    turns = maps.about_z(torch.arange(n, dtype=torch.float64) * (2 * pi / n))
    equal = torch.full((n,), 1 / n, dtype=torch.float64)
    cosines, weights = maps.gauss_legendre(degree // 2 + 1)
    return (turns, equal), (maps.about_y(cosines.acos()), weights / 2), (turns, equal)


def _weyl_quadrature(degree: int, *, caller: str) -> Quadrature:
    """Weyl's formula: the density of the rotation angle is (1 - cos θ) / 2π."""
    require_whole(degree, caller=caller, name="degree")
    n = degree + 2
    theta = torch.arange(n, dtype=torch.float64) * (2 * pi / n)
    return maps.about_z(theta), (1 - theta.cos()) / n


def _zonal_candidates(
    evaluate: Callable[[Tensor], Tensor], degree: int, irreps: Sequence[LieRepresentation]
) -> Iterator[Tensor]:
    """Intertwiners (2l+1) ∫ rho(g) v D^l(g)[:, 0]ᵀ dg for the vectors v that rotations about z fix.

    Every copy of an irrep contains one such direction, m = 0. In Euler angles the integral separates: gamma drops out,
    D^l[k, 0](Z(a) Y(b)) = D^l[k, |k|](Z(a)) D^l[|k|, 0](Y(b)), and we sum over a and b one after the other. The number
    of matrices is linear in the degree instead of cubic.
    """
    (turns, equal), (tilts, weights), _ = _euler_quadrature(2 * degree, caller="decompose")
    rho_z, rho_y = evaluate(turns), evaluate(tilts)
    mean = torch.einsum("g,gij->ij", equal, rho_z)
    zonal = projector_range((mean + mean.T) / 2).T
    tilted = rho_y @ zonal
    for psi in irreps:
        l, d = psi.degree, rho_z.shape[-1]
        k = torch.arange(-l, l + 1)
        about_z = wigner_d(l, turns)[:, k + l, k.abs() + l] * equal[:, None]
        about_y = wigner_d(l, tilts)[:, l:, l] * weights[:, None]
        inner = torch.einsum("bp,bdn->pdn", about_y, tilted)
        averaged = ((c @ rho_z.flatten(1)).reshape(d, d) for c in about_z.T)
        outer = [average @ inner[abs(m)] for average, m in zip(averaged, k.tolist(), strict=True)]
        yield psi.dim * torch.stack(outer, dim=-1).permute(1, 0, 2)
