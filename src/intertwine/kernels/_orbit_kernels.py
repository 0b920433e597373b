"""What the kernels of every orbit problem share: facts, values at representatives, values at all points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .._checked import checked, describe
from .._devices import OnCPU
from .._numerics import require_memory
from ..errors import InputError
from ..spaces import FieldType
from ._checks import require_dim, require_residual, require_some
from ._orbits import Orbit, OrbitProblem, carry


@checked
@dataclass(frozen=True)
class DoubleCoset:
    """One double coset H2 γ H1.

    Attributes:
        representative: γ: an element of a finite group, or the point to which a translation moves the origin.
        points: the number of points of G/H1 in it.
        stabilizer_order: the order of H2 ∩ γ H1 γ⁻¹.
        dim: the number of basis kernels supported on it.
    """

    representative: int | tuple[float, ...]
    points: int
    stabilizer_order: int
    dim: int


class OrbitKernels(OnCPU, ABC):
    """An orthonormal basis of equivariant kernels that was solved orbit by orbit.

    Args:
        in_type: fields the kernels take.
        out_type: fields they give.
        problem: how the output stabilizer moves the points of the kernel's domain.
        allow_empty: whether a space that holds only zero is an answer or an error.
    """

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType, problem: OrbitProblem, *, allow_empty: bool) -> None:
        self.in_type, self.out_type = in_type, out_type
        self._problem = problem
        self._solution = problem.solve(in_type.rho, out_type.rho)
        self.points = problem.action.shape[1]
        self.dim = sum(self._solution.orbit_dim(o) for o in range(len(problem.orbits)))
        self.mackey_dim = problem.predicted_dim(in_type.rho, out_type.rho)
        self.residual = self._solution.residual()
        self._check(allow_empty)

    def _check(self, allow_empty: bool) -> None:
        caller = f"kernels {self.in_type} → {self.out_type}"
        require_dim(self.dim, self.mackey_dim, caller=caller)
        require_residual(self.residual, caller=caller)
        if not allow_empty:
            require_some(
                self.dim,
                self.in_type,
                self.out_type,
                why=f"on the stabilizers of all {len(self._problem.orbits)} double cosets the two representations "
                "share no irreducible",
                fix="Choose types with a common irreducible (regular fields contain all of them) or a larger filter.",
            )

    @abstractmethod
    def _representative(self, point: int) -> int | tuple[float, ...]:
        """How to write the representative of the double coset of this point."""

    @cached_property
    def double_cosets(self) -> tuple[DoubleCoset, ...]:
        """The double cosets with what each contributes."""
        return tuple(
            DoubleCoset(
                representative=self._representative(orbit.representative),
                points=len(orbit.points),
                stabilizer_order=len(orbit.stabilizer),
                dim=self._solution.orbit_dim(o),
            )
            for o, orbit in enumerate(self._problem.orbits)
        )

    def __repr__(self) -> str:
        cosets = len(self.double_cosets)
        return f"{type(self).__name__}(dim={self.dim}, double cosets={cosets}, residual={self.residual:.0e})"

    def on_double_cosets(self) -> tuple[Tensor, ...]:
        """For each double coset the basis at its representative, ``(dim of the coset, d2, d1)``."""
        self.require_room(self.dim, "on_double_cosets")
        return tuple(self._solution.at_representative(o) for o in range(len(self._problem.orbits)))

    def on_cosets(self) -> Tensor:
        """The basis as functions of the points, ``(dim, points, d2, d1)``."""
        self.require_room(self.dim * self.points, "on_cosets")
        out = torch.zeros(self.dim, self.points, self.out_type.dim, self.in_type.dim, dtype=torch.float64)
        at = 0
        for orbit, basis in zip(self._problem.orbits, self.on_double_cosets(), strict=True):
            out[at : at + len(basis), orbit.points] = self._carried(orbit, basis)
            at += len(basis)
        return out

    @checked
    def cosets_to_double_cosets(self, kappa: Tensor) -> tuple[Tensor, ...]:
        """The values at the representatives, one ``(..., d2, d1)`` for each double coset."""
        self.require_kernel(kappa)
        return tuple(kappa[..., orbit.representative, :, :] for orbit in self._problem.orbits)

    @checked
    def double_cosets_to_cosets(self, values: tuple[Tensor, ...]) -> Tensor:
        """Carry one matrix for each double coset to a kernel at all points."""
        out = values[0].new_zeros(*values[0].shape[:-2], self.points, *values[0].shape[-2:])
        for orbit, value in zip(self._problem.orbits, values, strict=True):
            out[..., orbit.points, :, :] = self._carried(orbit, value)
        return out

    @checked
    def combine(self, weights: Tensor) -> Tensor:
        """The kernel with these coefficients, ``(points, d2, d1)``."""
        if weights.shape != (self.dim,):
            raise InputError(
                f"{type(self).__name__}.combine",
                expected=f"{self.dim} weights, one for each basis kernel",
                got=f"shape {tuple(weights.shape)}",
                fix="Pass a vector of length basis.dim.",
            )
        return torch.einsum("k,kxab->xab", weights.to(torch.float64), self.on_cosets())

    @checked
    def require_kernel(self, kappa: Tensor, points: int | None = None) -> None:
        """An error unless this is a kernel, or a batch of them, on this number of points; on all points by default."""
        shape = (self.points if points is None else points, self.out_type.dim, self.in_type.dim)
        if tuple(kappa.shape[-3:]) != shape:
            raise InputError(
                type(self).__name__,
                expected=f"kernels of shape (..., {', '.join(map(str, shape))})",
                got=describe(kappa),
            )

    def _carried(self, orbit: Orbit, value: Tensor) -> Tensor:
        return carry(orbit, value, self.in_type.rho, self.out_type.rho)

    @checked
    def require_room(self, matrices: int, what: str) -> None:
        """Refuse a dense result that would not fit in memory."""
        require_memory(
            matrices * self.in_type.dim * self.out_type.dim,
            caller=f"{type(self).__name__}.{what}",
            what=f"{matrices} matrices of size {self.out_type.dim} x {self.in_type.dim}",
            fix="Use fewer copies in the field types: copies of a summand share one small basis.",
        )
