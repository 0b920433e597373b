"""Quadrature grids on the sphere: rings of equal polar angle, exact up to a band limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import pi
from typing import Literal

import torch
from torch import Tensor

from .._checked import NonNegative, checked
from ..errors import InputError

GridKind = Literal["gauss-legendre", "equiangular"]


@checked
@dataclass(frozen=True)
class SphereGrid:
    """Points x_jk with polar angle beta_j and azimuth alpha_k, and weights w_j with Σ w_j f(x_jk) = ∫ f(x) dx.

    The measure is the surface measure, of total 4π. The sum is exact for products of two fields of degree at most
    ``band_limit`` = L. So harmonics and spin-weighted harmonics up to that degree are orthonormal under it.

    - ``"gauss-legendre"``: L+1 rings at the roots of a Legendre polynomial, 2L+1 points each. It has the fewest points.
    - ``"equiangular"``: 2(L+1) rings at beta_j = (2j+1)π / 4(L+1), 2(L+1) points each, with the weights of Driscoll and
      Healy for these shifted rings (Kostelec and Rockmore).

    Neither has a point at a pole, where the section jumps. A sampled field is
    ``(..., dim, n_beta, n_alpha)``.

    Args:
        kind: which of the two grids.
        band_limit: the maximum degree L.

    >>> grid = SphereGrid("gauss-legendre", 4)
    >>> grid.points.shape, grid.weights.sum()
    (torch.Size([5, 9, 3]), tensor(12.5664, dtype=torch.float64))
    """

    kind: GridKind
    band_limit: NonNegative
    how_to_make = 'Make one with intertwine.spaces.SphereGrid("gauss-legendre", 8).'

    @staticmethod
    @checked
    def of_shape(n_beta: int, n_alpha: int) -> SphereGrid | None:
        """The grid with this many rings and points per ring; None if there is none. No two grids have the same shape.

        >>> SphereGrid.of_shape(8, 8), SphereGrid.of_shape(8, 9)
        (SphereGrid(kind='equiangular', band_limit=3), None)
        """
        grids = [SphereGrid("gauss-legendre", n_beta - 1)] if n_beta > 0 else []
        grids += [SphereGrid("equiangular", n_beta // 2 - 1)] if n_beta > 1 else []
        return next((grid for grid in grids if grid.shape == (n_beta, n_alpha)), None)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_beta, n_alpha)."""
        l = self.band_limit
        return (l + 1, 2 * l + 1) if self.kind == "gauss-legendre" else (2 * (l + 1), 2 * (l + 1))

    @cached_property
    @torch.inference_mode(False)  # the cached result may take part in gradients later
    def beta(self) -> Tensor:
        """The polar angles of the rings, in ascending order, ``(n_beta,)``."""
        return self._rings[0]

    @cached_property
    @torch.inference_mode(False)
    def alpha(self) -> Tensor:
        """The azimuths of the points on each ring, ``(n_alpha,)``, in equal steps from 0."""
        n = self.shape[1]
        return torch.arange(n, dtype=torch.float64) * (2 * pi / n)

    @cached_property
    @torch.inference_mode(False)
    def weights(self) -> Tensor:
        """The weights of the points, ``(n_beta, n_alpha)``, which sum to 4π."""
        n = self.shape[1]
        return (self._rings[1] * (2 * pi / n))[:, None].expand(-1, n)

    @cached_property
    @torch.inference_mode(False)
    def points(self) -> Tensor:
        """The points as unit vectors, ``(n_beta, n_alpha, 3)``."""
        alpha, beta = self.alpha, self.beta[:, None]
        flat = beta.sin() * alpha.cos(), beta.sin() * alpha.sin(), beta.cos().expand(-1, len(alpha))
        return torch.stack(flat, dim=-1)

    def integrate(self, f: Tensor) -> Tensor:
        """∫ f(x) dx for samples ``(..., n_beta, n_alpha)``.

        >>> grid = SphereGrid("equiangular", 2)
        >>> grid.integrate(grid.points[..., 2] ** 2) * 3 / (4 * pi)
        tensor(1., dtype=torch.float64)
        """
        if f.shape[-2:] != self.shape:
            raise InputError(
                "SphereGrid.integrate",
                expected=f"samples (..., {self.shape[0]}, {self.shape[1]}) on {self}",
                got=f"shape {tuple(f.shape)}",
                fix="Evaluate the function at grid.points.",
            )
        return (f * self.weights.to(f)).sum((-2, -1))

    @cached_property
    @torch.inference_mode(False)
    def _rings(self) -> tuple[Tensor, Tensor]:
        """The polar angles, and the weights for the integral over cos(beta), which sum to 2."""
        n = self.shape[0]
        if self.kind == "gauss-legendre":
            from numpy.polynomial.legendre import leggauss

            cosines, weights = (torch.from_numpy(a.copy()) for a in leggauss(n))
            return cosines.flip(0).acos(), weights.flip(0)
        beta = (2 * torch.arange(n, dtype=torch.float64) + 1) * (pi / (2 * n))
        odd = 2 * torch.arange(n // 2, dtype=torch.float64) + 1
        series = (torch.sin(beta[:, None] * odd) / odd).sum(-1)
        return beta, 4 / n * beta.sin() * series

    def __str__(self) -> str:
        return f"the {self.kind} grid with band limit {self.band_limit}"
