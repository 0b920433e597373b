"""Field types: a homogeneous space G/H and a representation of H."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .._checked import checked
from .._devices import OnCPU
from .._digest import content_digest
from ..errors import InputError, TypeMismatchError
from ..groups import LieGroup, Representation, intertwiners
from ._homogeneous import HomogeneousSpace
from ._space import Space

LocalSection = Callable[[Any], Tensor]
"""A field as a function of points x, with values in the representation space."""

MackeyFunction = Callable[[Any], Tensor]
"""A field as a function on the group with F(gh) = rho(h)⁻¹ F(g)."""


@checked
@dataclass(frozen=True)
class FieldType(OnCPU):
    """Fields on ``space`` with values in the representation space of ``rho``.

    A field can be written in two ways: as a local section, a function f of points, or as a Mackey function, a function
    F on the group with F(gh) = rho(h)⁻¹ F(g). The lift (Λf)(g) = rho(h(g))⁻¹ f(gH), with g = s(gH) h(g), and its
    inverse (Λ⁻¹F)(x) = F(s(x)) convert between them.

    Fields are plain tensors with the channels first, ``(..., dim, points)`` on a finite space and
    ``(..., dim, height, width)`` on a grid, or functions on any space. A sampled Mackey function on a finite space is
    ``(..., dim, |G|)``.

    >>> from intertwine.spaces import Grid2d
    >>> field = Grid2d("C4").field("trivial + regular")
    >>> field, field.dim
    (Field(trivial + regular on Grid2d(C4)), 5)
    """

    space: Space
    rho: Representation
    how_to_make = 'Make one with a space, as in intertwine.spaces.Grid2d("C4").field("3*trivial + 8*regular").'

    @property
    def dim(self) -> int:
        """The number of channels, dim rho."""
        return self.rho.dim

    @cached_property
    def total_dim(self) -> int:
        """The dimension of the induced representation, [G:H]·dim rho."""
        return self._finite("total_dim").points * self.dim

    @cached_property
    def is_trivial(self) -> bool:
        """Whether all channels are scalars, i.e. the stabilizer acts trivially on them."""
        return acts_trivially(self.rho)

    @cached_property
    def digest(self) -> str:
        return content_digest("field", self.space.digest, self.rho.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldType) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Field({self.rho.name} on {self.space.name})"

    # -- the induced representation ----------------------------------------------------------------------------

    def transform(self, f: Any, g: Any, **options: Any) -> Any:
        """The induced representation on local sections: (π(g)f)(x) = rho(h(x, g⁻¹))⁻¹ f(g⁻¹x).

        Takes a sampled field or a function of points, and returns the same kind. Further options go to the
        ``transform`` method of the space.
        """
        if not callable(f) or isinstance(f, Tensor):
            return self.space.transform(self.rho, f, g, **options)
        back = self.space.inverse(g)

        def moved(x: Any) -> Tensor:
            h = self.space.cocycle(x, back)
            return _apply(self.rho(self.space.stabilizer.inverse(h)), f(self.space.act(back, x)))

        return moved

    def transform_mackey(self, f: Any, g: Any) -> Any:
        """The induced representation on Mackey functions: (π(u)F)(g) = F(u⁻¹g)."""
        back = self.space.inverse(g)
        if callable(f) and not isinstance(f, Tensor):
            return lambda u: f(self.space.compose(back, u))
        space = self._finite("transform_mackey")
        return f[..., space.group.table[back]]

    def lift(self, f: Any) -> Any:
        """Λ: from a local section to its Mackey function."""
        if callable(f) and not isinstance(f, Tensor):

            def lifted(g: Any) -> Tensor:
                x = self.space.project(g)
                h = self.space.as_stabilizer(self.space.compose(self.space.inverse(self.space.section(x)), g))
                return _apply(self.rho(self.space.stabilizer.inverse(h)), f(x))

            return lifted
        space = self._finite("lift")
        inverse = self.rho(space.subgroup.inverse(space.remainder)).to(f.dtype)
        return torch.einsum("gij,...jg->...ig", inverse, f[..., space.project(space.group.elements)])

    def lower(self, f: Any) -> Any:
        """Λ⁻¹: from a Mackey function to its local section."""
        if callable(f) and not isinstance(f, Tensor):
            return lambda x: f(self.space.section(x))
        space = self._finite("lower")
        return f[..., space.subgroup.coset_representatives]

    @checked
    def mackey_residual(self, f: Tensor) -> float:
        """How far a function on the group is from being a Mackey function: max |F(gh) - rho(h)⁻¹ F(g)|."""
        space = self._finite("mackey_residual")
        worst = 0.0
        for h in space.subgroup.generators:
            moved = space.group.table[:, int(space.subgroup.embedding[h])]
            inverse = self.rho(int(space.subgroup.inverse(h))).to(f.dtype)
            worst = max(worst, float((f[..., moved] - torch.einsum("ij,...jg->...ig", inverse, f)).abs().max()))
        return worst

    @checked
    def induced(self, g: int) -> Tensor:
        """The matrix of π(g) on flattened fields, ``(dim * points, dim * points)``; points vary fastest."""
        space, n = self._finite("induced"), self.total_dim
        basis = torch.eye(n, dtype=torch.float64).reshape(n, self.dim, space.points)
        return self.transform(basis, g).reshape(n, n).T.contiguous()

    def _finite(self, method: str) -> HomogeneousSpace:
        if not isinstance(self.space, HomogeneousSpace):
            raise InputError(
                f"FieldType.{method}",
                expected="a finite homogeneous space, or a field given as a function",
                got=f"samples on {self.space.name}",
                fix="Pass a function of points (or of group elements) instead of samples.",
            )
        return self.space


def acts_trivially(rho: Representation) -> bool:
    """Whether every matrix of a representation is the identity. For a Lie group, tests elements that generate it."""
    group = rho.group
    elements = group.probes if isinstance(group, LieGroup) else group.elements
    return all(bool((atom(elements) == torch.eye(atom.dim, dtype=torch.float64)).all()) for atom in set(rho.atoms))


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix.to(vector.dtype) @ vector[..., None])[..., 0]


@checked
@dataclass(frozen=True)
class Frobenius:
    """Both sides of Hom_G(σ, Ind_H^G ρ) ≅ Hom_H(σ|_H, ρ), as orthonormal bases and maps between them.

    Attributes:
        on_group: ``(k, dim rho, points, dim σ)``, G-maps from σ to fields.
        on_stabilizer: ``(k, dim rho, dim σ)``, H-maps from σ to the fiber.
    """

    sigma: Representation
    field: FieldType
    on_group: Tensor
    on_stabilizer: Tensor

    @property
    def dims(self) -> tuple[int, int]:
        """The dimensions of the two sides, equal by Frobenius reciprocity."""
        return len(self.on_group), len(self.on_stabilizer)

    def to_stabilizer(self, t: Tensor) -> Tensor:
        """Evaluate the fields at the base point: ``(..., dim rho, points, dim σ)`` to ``(..., dim rho, dim σ)``."""
        return t[..., 0, :]

    def to_group(self, phi: Tensor) -> Tensor:
        """The G-map of an H-map φ: it takes v to the field x ↦ φ σ(s(x))⁻¹ v."""
        space = self.field._finite("frobenius")
        back = self.sigma(space.group.inverse(space.subgroup.coset_representatives))
        return torch.einsum("...ij,xjk->...ixk", phi, back)


@checked
def frobenius(sigma: Representation, field: FieldType) -> Frobenius:
    """Both sides of Frobenius reciprocity, each solved independently.

    >>> from intertwine.groups import Symmetric
    >>> G = Symmetric(3); H = G.subgroup([1])
    >>> frobenius(G.irreps[2], HomogeneousSpace(G, H).field(H.trivial)).dims
    (1, 1)
    """
    space = field._finite("frobenius")
    if sigma.group != space.group:
        raise TypeMismatchError(
            "frobenius",
            expected=f"a representation σ of {space.group.name}",
            got=f"{sigma.name} of {sigma.group.name}",
            fix="σ represents the group, ρ its stabilizer.",
        )
    induced = torch.stack([field.induced(g) for g in range(space.group.order)])
    orthogonal = sigma.is_orthogonal and field.rho.is_orthogonal
    on_group = intertwiners(sigma.matrices, induced, orthogonal=orthogonal)
    on_stabilizer = intertwiners(sigma.restrict(space.subgroup).matrices, field.rho.matrices, orthogonal=orthogonal)
    return Frobenius(sigma, field, on_group.reshape(-1, field.dim, space.points, sigma.dim), on_stabilizer)
