"""SO(2) and O(2): rotations of the plane, without and with reflections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import pi
from typing import Literal

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError
from .._catalog import register_group
from .._group import Element, Group
from ..special._checks import require_whole
from . import _rotation_maps as maps
from ._axis import Axis, about_axis
from ._compact import CompactLieGroup, Quadrature
from ._irreps import o2_irrep, so2_irrep
from ._lie_group import rotation_complaint
from ._representation import LieRepresentation


class _PlanarGroup(CompactLieGroup):
    """The common base of SO(2) and O(2)."""

    space_dim = 2
    matrix_dim = 2
    algebra_dim = 1

    @property
    def generators(self) -> Tensor:
        return torch.tensor([[[0.0, -1.0], [1.0, 0.0]]], dtype=torch.float64)

    @checked
    def exp(self, coords: Tensor) -> Tensor:
        return maps.planar(self.as_coordinates(coords)[..., 0])

    @checked
    def from_angle(self, theta: Tensor | float) -> Tensor:
        """The counterclockwise rotation by the angle theta.

        >>> SO2().from_angle(0.5)[1, 0] == torch.tensor(0.5, dtype=torch.float64).sin()
        tensor(True)
        """
        return maps.planar(torch.as_tensor(theta, dtype=torch.float64))

    def _candidates(
        self, evaluate: Callable[[Tensor], Tensor], degree: int, irreps: Sequence[LieRepresentation]
    ) -> Iterator[Tensor]:
        g, weights = self.haar_quadrature(2 * degree)
        matrices = evaluate(g)
        for psi in irreps:
            yield psi.dim * torch.einsum("g,gai,gb->iab", weights, matrices, psi(g)[:, :, 0])


@register_group("SO(2)", about="rotations of the plane")
class SO2(_PlanarGroup):
    """SO(2), the rotations of the plane. An element is a ``(..., 2, 2)`` rotation matrix.

    >>> G = SO2()
    >>> (G.irrep(1) @ G.irrep(2)).decompose().irreps
    (SO(2): irrep(1), SO(2): irrep(3))
    """

    name = "SO(2)"
    digest = "SO(2)"

    @property
    def component_representatives(self) -> Tensor:
        return self.identity[None]

    @checked
    def log(self, g: Element) -> Tensor:
        return maps.planar_angle(self.require(g, caller="SO(2).log"))[..., None]

    @checked
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """``n`` elements distributed by the Haar measure."""
        require_whole(n, caller="SO(2).sample", name="n")
        return maps.planar(2 * pi * torch.rand(n, dtype=torch.float64, generator=generator))

    @checked
    def haar_factors(self, degree: int) -> tuple[Quadrature, ...]:
        return (equal_turns(degree, caller="SO(2).haar_quadrature"),)

    @checked
    def class_quadrature(self, degree: int) -> Quadrature:
        return equal_turns(degree, caller="SO(2).class_quadrature")

    @checked
    def irrep(self, m: int) -> LieRepresentation:
        """The irrep of frequency m ≥ 0: rotation by mθ (of complex type) for m ≥ 1, trivial for m = 0.

        >>> SO2().irrep(2).dim
        2
        """
        return so2_irrep(self, m)

    @checked
    def irreps_up_to(self, degree: int) -> tuple[LieRepresentation, ...]:
        return tuple(self.irrep(m) for m in range(degree + 1))

    @checked
    def about_axis(self, axis: Axis = "z") -> LieRepresentation:
        """Rotations of 3-space about an axis: ``Grid3d(SO2(), action=SO2().about_axis())``.

        Args:
            axis: ``"x"``, ``"y"``, ``"z"`` or a vector.

        >>> SO2().about_axis("x")(SO2().from_angle(torch.pi / 2)).round().tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]
        """
        return about_axis(self, axis, None)

    def _complaint(self, g: Tensor) -> str | None:
        return rotation_complaint(g, proper=True)

    def _embed_lie(self, subgroup: Group, h: Element) -> Tensor | None:
        return None

    def _embed_linear(self, m: Tensor, *, proper: bool) -> Tensor | None:
        return m if proper else None


@register_group("O(2)", about="rotations and reflections of the plane")
class O2(_PlanarGroup):
    """O(2), the rotations and reflections of the plane. An element is a ``(..., 2, 2)`` orthogonal matrix.

    >>> G = O2()
    >>> (G.irrep(1) @ G.irrep(1)).decompose().irreps
    (O(2): trivial, O(2): irrep(0, -1), O(2): irrep(2))
    """

    name = "O(2)"
    digest = "O(2)"

    @property
    def component_representatives(self) -> Tensor:
        return torch.stack([self.identity, torch.tensor([-1.0, 1.0], dtype=torch.float64).diag()])

    @checked
    def log(self, g: Element) -> Tensor:
        g = self.require(g, caller="O(2).log")
        require_identity_component(g, caller="O(2).log")
        return maps.planar_angle(g)[..., None]

    @checked
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """``n`` elements distributed by the Haar measure; each is a reflection with probability ½."""
        require_whole(n, caller="O(2).sample", name="n")
        turns = maps.planar(2 * pi * torch.rand(n, dtype=torch.float64, generator=generator))
        return turns @ self.component_representatives[torch.randint(2, (n,), generator=generator)]

    @checked
    def haar_factors(self, degree: int) -> tuple[Quadrature, ...]:
        components = self.component_representatives, torch.full((2,), 0.5, dtype=torch.float64)
        return components, equal_turns(degree, caller="O(2).haar_quadrature")

    @checked
    def class_quadrature(self, degree: int) -> Quadrature:
        turns, weights = equal_turns(degree, caller="O(2).class_quadrature")
        mirror = self.component_representatives[1:]  # all reflections are conjugate
        return torch.cat([turns, mirror]), torch.cat([weights / 2, weights.new_tensor([0.5])])

    @checked
    def irrep(self, m: int, parity: int | None = None) -> LieRepresentation:
        """The irrep of frequency m.

        For m ≥ 1: rotation by mθ, with the reflection diag(1, -1) acting as diag(1, -1). For m = 0: trivial, or the
        determinant if ``parity`` is -1.

        >>> O2().irrep(0, -1)(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
        tensor([[-1.]], dtype=torch.float64)
        """
        return o2_irrep(self, m, parity)

    @checked
    def irreps_up_to(self, degree: int) -> tuple[LieRepresentation, ...]:
        return (self.irrep(0), self.irrep(0, -1), *(self.irrep(m) for m in range(1, degree + 1)))

    @checked
    def about_axis(
        self, axis: Axis = "z", *, reflections: Literal["mirrors", "half turns"] = "mirrors"
    ) -> LieRepresentation:
        """Rotations of 3-space about an axis, with reflections that preserve or reverse the axis.

        Args:
            axis: ``"x"``, ``"y"``, ``"z"`` or a vector.
            reflections: ``"mirrors"`` reflects in planes through the axis, the symmetry of a cone. ``"half turns"``
                rotates about lines perpendicular to the axis, the rotations of a cylinder.

        >>> mirror = torch.tensor([[-1.0, 0.0], [0.0, 1.0]])
        >>> O2().about_axis()(mirror).diagonal().tolist()
        [-1.0, 1.0, 1.0]
        >>> O2().about_axis(reflections="half turns")(mirror).diagonal().tolist()
        [-1.0, 1.0, -1.0]
        """
        return about_axis(self, axis, reflections)

    def _complaint(self, g: Tensor) -> str | None:
        return rotation_complaint(g, proper=False)

    def _embed_lie(self, subgroup: Group, h: Element) -> Tensor | None:
        return subgroup.require(h, caller="O(2).embed") if isinstance(subgroup, SO2) else None

    def _embed_linear(self, m: Tensor, *, proper: bool) -> Tensor | None:
        return m


def equal_turns(degree: int, *, caller: str) -> Quadrature:
    """Rotations by multiples of 2π/n, n = degree + 1. Exact for trigonometric polynomials of that degree."""
    require_whole(degree, caller=caller, name="degree")
    n = degree + 1
    theta = torch.arange(n, dtype=torch.float64) * (2 * pi / n)
    return maps.planar(theta), torch.full_like(theta, 1 / n)


def require_identity_component(g: Tensor, *, caller: str) -> None:
    """Raise an error for reflections, which have no logarithm."""
    if bool((torch.linalg.det(g.detach()) < 0).any()):
        raise InputError(
            caller,
            expected="elements of determinant 1, the component of the identity",
            got="elements of determinant -1, which have no logarithm",
            fix="Multiply by the inverse of component_representatives[1] first.",
        )
