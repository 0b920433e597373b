"""The base class of kernel bases that are solved orbit by orbit."""

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
        representative: γ, as an element of a finite group, or as the point to which a translation moves the origin.
        points: how many points of G/H1 it contains.
        stabilizer_order: the order of H2 ∩ γ H1 γ⁻¹.
        dim: how many basis kernels have their support on it.
    """

    representative: int | tuple[float, ...]
    points: int
    stabilizer_order: int
    dim: int


class OrbitKernels(OnCPU, ABC):
    """An orthonormal basis of equivariant kernels, solved orbit by orbit.

    Args:
        in_type: the type of the input fields.
        out_type: the type of the output fields.
        problem: how the output stabilizer moves the points of the kernel's domain.
        allow_empty: return an empty basis, instead of raising an error, if zero is the only kernel.
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
                "share no irrep",
                fix="Use types that share an irrep (regular fields contain all of them) or a larger filter.",
            )

    @abstractmethod
    def _representative(self, point: int) -> int | tuple[float, ...]:
        """The representative γ of the double coset of this point, in the form that :class:`DoubleCoset` shows."""

    @cached_property
    def double_cosets(self) -> tuple[DoubleCoset, ...]:
        """The double cosets, each with its number of basis kernels."""
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
        """The basis at the representative of each double coset, one tensor ``(dim of the coset, d2, d1)`` per coset."""
        self._require_room(self.dim, "on_double_cosets")
        return tuple(self._solution.at_representative(o) for o in range(len(self._problem.orbits)))

    def on_cosets(self) -> Tensor:
        """The basis as functions of the points, ``(dim, points, d2, d1)``."""
        self._require_room(self.dim * self.points, "on_cosets")
        out = torch.zeros(self.dim, self.points, self.out_type.dim, self.in_type.dim, dtype=torch.float64)
        start = 0
        for orbit, basis in zip(self._problem.orbits, self.on_double_cosets(), strict=True):
            out[start : start + len(basis), orbit.points] = self._carried(orbit, basis)
            start += len(basis)
        return out

    @checked
    def cosets_to_double_cosets(self, kappa: Tensor) -> tuple[Tensor, ...]:
        """The values of a kernel at the representatives, one ``(..., d2, d1)`` per double coset."""
        self._require_kernel(kappa)
        return tuple(kappa[..., orbit.representative, :, :] for orbit in self._problem.orbits)

    @checked
    def double_cosets_to_cosets(self, values: tuple[Tensor, ...]) -> Tensor:
        """Extend one matrix per double coset to a kernel on all points."""
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
                expected=f"{self.dim} weights, one per basis kernel",
                got=f"shape {tuple(weights.shape)}",
                fix="Pass a vector of length basis.dim.",
            )
        return torch.einsum("k,kxab->xab", weights.to(torch.float64), self.on_cosets())

    def _require_kernel(self, kappa: Tensor, points: int | None = None) -> None:
        """Raise an error unless ``kappa`` is a kernel, or a batch of kernels, on ``points`` points (default: all)."""
        shape = (self.points if points is None else points, self.out_type.dim, self.in_type.dim)
        if tuple(kappa.shape[-3:]) != shape:
            raise InputError(
                type(self).__name__,
                expected=f"kernels of shape (..., {', '.join(map(str, shape))})",
                got=describe(kappa),
            )

    def _carried(self, orbit: Orbit, value: Tensor) -> Tensor:
        return carry(orbit, value, self.in_type.rho, self.out_type.rho)

    def _require_room(self, matrices: int, method: str) -> None:
        """Raise an error if a dense result would not fit in memory."""
        require_memory(
            matrices * self.in_type.dim * self.out_type.dim,
            caller=f"{type(self).__name__}.{method}",
            what=f"{matrices} matrices of size {self.out_type.dim} x {self.in_type.dim}",
            fix="Use fewer copies in the field types: copies of a summand share one small basis.",
        )
