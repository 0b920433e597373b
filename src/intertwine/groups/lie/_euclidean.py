"""Motions of Euclidean space: T(n), SE(2) and SE(3). Elements are matrices in homogeneous coordinates.

These groups are not compact: they have no invariant probability measure, and a representation need not be a sum of
irreps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ..._checked import checked
from ..._numerics import LAW_TOLERANCE
from ...errors import RepresentationError
from .._catalog import register_group
from .._group import Element, Group
from .._representation import Decomposition, Representation, require_same_group
from ..special._checks import require_vectors, require_whole
from . import _rotation_maps as maps
from ._lie_group import MEMBER_TOLERANCE, LieGroup, rotation_complaint
from ._motions import EuclideanGroup, ball, homogeneous, shifts
from ._planar import SO2
from ._representation import LieRepresentation
from ._spatial import SO3
from ._translation_irreps import decompose_translations, translation_irrep


class Translations(EuclideanGroup):
    """T(n), the translations of R^n. An element is a ``(..., n+1, n+1)`` matrix [[1, t], [0, 1]].

    >>> G = Translations(2)
    >>> G.translation(G.compose(G.from_vector([1.0, 2.0]), G.from_vector([3.0, 4.0])))
    tensor([4., 6.], dtype=torch.float64)
    """

    @checked
    def __init__(self, n: int) -> None:
        require_whole(n, caller="Translations", name="n", minimum=1)
        self.name = self.digest = f"T({n})"
        self.space_dim, self.matrix_dim, self.algebra_dim = n, n + 1, n

    @property
    def generators(self) -> Tensor:
        return shifts(self.space_dim)

    @checked
    def from_vector(self, t: Tensor | Sequence[float]) -> Tensor:
        """The translation by t, ``(..., n)``."""
        t = require_vectors(torch.as_tensor(t, dtype=torch.float64), self.space_dim, caller=f"{self.name}.from_vector")
        return homogeneous(torch.eye(self.space_dim).to(t).expand(*t.shape, self.space_dim), t)

    @checked
    def exp(self, coords: Tensor) -> Tensor:
        return self.from_vector(self.as_coordinates(coords))

    @checked
    def log(self, g: Element) -> Tensor:
        return self.translation(self.require(g, caller=f"{self.name}.log"))

    @checked
    def sample(self, n: int, generator: torch.Generator | None = None, *, radius: float = 1.0) -> Tensor:
        require_whole(n, caller=f"{self.name}.sample", name="n")
        return self.from_vector(ball(n, self.space_dim, radius, generator, caller=f"{self.name}.sample"))

    @checked
    def irrep(self, k: Tensor | Sequence[float]) -> LieRepresentation:
        """The irrep with wave vector k, ``(n,)``: t acts as the rotation by k·t. It is trivial for k = 0.

        >>> G = Translations(1)
        >>> G.irrep([torch.pi])(G.from_vector([1.0])).round()[0, 0]
        tensor(-1., dtype=torch.float64)
        """
        return translation_irrep(self, k)

    @checked
    def decompose(self, rho: Representation) -> Decomposition:
        require_same_group(f"{self.name}.decompose", (self.trivial, rho))
        return decompose_translations(self, rho)

    def _linear_complaint(self, r: Tensor) -> str | None:
        error = float((r - torch.eye(self.space_dim).to(r)).abs().max()) if r.numel() else 0.0
        return None if error <= MEMBER_TOLERANCE else f"motions whose linear part differs from 1 by {error:.2g}"

    def _embed_lie(self, subgroup: Group, h: Element) -> Tensor | None:
        return None

    def _embed_linear(self, m: Tensor, *, proper: bool) -> Tensor | None:
        return None


class SpecialEuclideanGroup(EuclideanGroup):
    """SE(n), the rigid motions x ↦ rx + t of R^n.

    Coordinates in the Lie algebra are first the translation, then the rotation. Subgroups are T(n) and the
    rotations about the origin, SO(n), with their finite subgroups.
    """

    rotations: SO2 | SO3

    @property
    def generators(self) -> Tensor:
        turns = self.rotations.generators
        wide = torch.zeros(len(turns), self.matrix_dim, self.matrix_dim, dtype=torch.float64)
        wide[:, : self.space_dim, : self.space_dim] = turns
        return torch.cat([shifts(self.space_dim), wide])

    @checked
    def from_parts(self, r: Tensor, t: Tensor | Sequence[float]) -> Tensor:
        """The motion x ↦ rx + t, for rotations r ``(..., n, n)`` and translations t ``(..., n)``."""
        r = self.rotations.require(r, caller=f"{self.name}.from_parts")
        t = torch.as_tensor(t, dtype=torch.float64, device=r.device)
        return homogeneous(r, require_vectors(t, self.space_dim, caller=f"{self.name}.from_parts"))

    @abstractmethod
    def _jacobian(self, w: Tensor) -> Tensor:
        """∫₀¹ exp(s w) ds, which maps the translation coordinates to the translation."""

    @checked
    def exp(self, coords: Tensor) -> Tensor:
        coords = self.as_coordinates(coords)
        t, w = coords[..., : self.space_dim], coords[..., self.space_dim :]
        return homogeneous(self.rotations.exp(w), (self._jacobian(w) @ t[..., None])[..., 0])

    @checked
    def log(self, g: Element) -> Tensor:
        g = self.require(g, caller=f"{self.name}.log")
        w = self.rotations.log(self.rotation(g))
        t = torch.linalg.solve(self._jacobian(w), self.translation(g)[..., None])[..., 0]
        return torch.cat([t, w], dim=-1)

    @checked
    def sample(self, n: int, generator: torch.Generator | None = None, *, radius: float = 1.0) -> Tensor:
        require_whole(n, caller=f"{self.name}.sample", name="n")
        t = ball(n, self.space_dim, radius, generator, caller=f"{self.name}.sample")
        return homogeneous(self.rotations.sample(n, generator), t)

    @checked
    def irrep(self, degree: int) -> LieRepresentation:
        """The irrep of the rotations with this degree. Translations act trivially."""
        return self._inflate(self.rotations.irrep(degree))

    @checked
    def irreps_up_to(self, degree: int) -> tuple[LieRepresentation, ...]:
        """The irreps of the rotations up to this degree. No other orthogonal irreps have finite dimension."""
        return tuple(self.irrep(l) for l in range(degree + 1))

    @checked
    def decompose(self, rho: Representation) -> Decomposition:
        require_same_group(f"{self.name}.decompose", (self.trivial, rho))
        moved = float(self.differential(rho)[: self.space_dim].abs().max())
        if moved > LAW_TOLERANCE:
            raise RepresentationError(
                f"{self.name}.decompose",
                expected="a representation in which translations act trivially",
                got=f"{rho.name}, in which they do not",
                fix="It is not a sum of irreps. Restrict it to the rotations first.",
            )
        parts = rho.restrict(self.rotations).decompose()
        return Decomposition(tuple(self._inflate(psi) for psi in parts.irreps), parts.basis)

    def _inflate(self, psi: Representation) -> LieRepresentation:
        if psi == self.rotations.trivial:
            return self.trivial
        if not isinstance(psi, LieRepresentation):
            raise TypeError(f"not an irrep of {self.rotations.name}: {psi!r}")
        function = partial(_of_rotation, psi, self.space_dim)
        return LieRepresentation(
            self, function, dim=psi.dim, degree=psi.degree, name=psi.name, is_orthogonal=psi.is_orthogonal
        )

    def _linear_complaint(self, r: Tensor) -> str | None:
        return rotation_complaint(r, proper=True)

    def _embed_lie(self, subgroup: Group, h: Element) -> Tensor | None:
        if subgroup == Translations(self.space_dim):
            return subgroup.require(h, caller=f"{self.name}.embed") if isinstance(subgroup, LieGroup) else None
        if isinstance(subgroup, SO2 | SO3) and subgroup.space_dim <= self.space_dim:
            return self._embed_linear(self.rotations.embed(subgroup, h), proper=True)
        return None

    def _embed_linear(self, m: Tensor, *, proper: bool) -> Tensor | None:
        return maps.embed_corner(m, self.matrix_dim) if proper else None


@register_group("SE(2)", about="rigid motions of the plane")
class SE2(SpecialEuclideanGroup):
    """SE(2), the rigid motions of the plane. An element is a ``(..., 3, 3)`` matrix [[r, t], [0, 1]].

    >>> G = SE2()
    >>> half_turn = G.from_parts(SO2().from_angle(torch.pi), [2.0, 0.0])
    >>> G.act(half_turn, torch.tensor([1.0, 0.0])).round()
    tensor([1., 0.], dtype=torch.float64)
    """

    name = "SE(2)"
    digest = "SE(2)"
    space_dim, matrix_dim, algebra_dim = 2, 3, 3
    rotations = SO2()

    def _jacobian(self, w: Tensor) -> Tensor:
        return maps.planar_jacobian(w[..., 0])


@register_group("SE(3)", about="rigid motions of space")
class SE3(SpecialEuclideanGroup):
    """SE(3), the rigid motions of space. An element is a ``(..., 4, 4)`` matrix [[r, t], [0, 1]].

    >>> G = SE3()
    >>> screw = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 3.0])
    >>> (G.log(G.exp(screw)) - screw).abs().max() < 1e-12
    tensor(True)
    """

    name = "SE(3)"
    digest = "SE(3)"
    space_dim, matrix_dim, algebra_dim = 3, 4, 6
    rotations = SO3()

    def _jacobian(self, w: Tensor) -> Tensor:
        return maps.spatial_jacobian(w)


def _of_rotation(psi: Representation, n: int, g: Tensor) -> Tensor:
    r: Tensor = g[..., :n, :n]
    return psi(r)


register_group("T(2)", about="translations of the plane")(partial(Translations, 2))
register_group("T(3)", about="translations of space")(partial(Translations, 3))
