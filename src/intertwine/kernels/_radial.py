r"""Radial profiles that reduce aliasing between degrees when a kernel is sampled on the lattice.

A kernel φ(|x|) Y_J(x) responds to a smooth field through the field's Taylor expansion, whose terms are
|x|^a Y_J'(x), a - J' even. On all of R^d, the integral of the product vanishes for J' ≠ J and is a multiple of the
identity for J' = J. The sum over the taps of a square array does neither. This aliasing is the entire error of a
sampled filter under rotations that do not map the lattice to itself. It is linear in φ, so a Gaussian times a
polynomial of low degree has enough freedom to cancel the leading terms.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, prod, sqrt

import torch
from torch import Tensor

TERMS = 4
"""Degree of the polynomial. A higher degree did not lower the error of filters with 5 and 7 taps any further."""

ORDERS = 4
"""The Taylor expansion is truncated after order J + ORDERS."""

STIFFNESS = 1e-6
"""Penalty on the size of the polynomial. Where the taps don't determine a profile, it stays close to the Gaussian."""

MIN_TAPS = 5
"""Filters with fewer taps per axis keep the plain Gaussian: 3 taps have too few distinct radii to shape a profile."""


def profile_polynomial(
    taps: Tensor, radius: float, sigma: float, degree: int, harmonics: Callable[[int, Tensor], Tensor]
) -> Tensor:
    """Coefficients c_1, …, c_TERMS of the polynomial 1 + Σ c_n He_n(u)/√n!, u = (|x| - radius)/sigma.

    Args:
        taps: ``(p, d)``, the positions of the filter's entries.
        radius: the radius of the shell.
        sigma: the width of the shell.
        degree: J.
        harmonics: ``harmonics(J, x)`` evaluates Y_J at points ``(p, d)`` and returns ``(p, 2 or 2J+1)``.
    """
    r = torch.linalg.vector_norm(taps, dim=-1)
    gauss, bumps = _gauss(r, radius, sigma), _hermite(r, radius, sigma) * _gauss(r, radius, sigma)[:, None]
    y = harmonics(degree, taps)
    weights = _taylor_weights(taps.shape[1], degree)
    size = weights[degree, degree] * float((gauss * r**degree * y.square().mean(1)).sum())
    rows = []
    for (order, other), weight in weights.items():
        product = torch.einsum("p,pm,pn->mnp", r**order, y, harmonics(other, taps))
        if other == degree:  # a multiple of the identity does not count as aliasing
            mean = product.diagonal(dim1=0, dim2=1).mean(-1)
            product = product - torch.eye(len(product), dtype=r.dtype)[..., None] * mean
        rows.append((weight / size) * product.flatten(0, 1))
    aliasing = torch.cat(rows)
    a, b = aliasing @ bumps, aliasing @ gauss
    stiff = bumps / (gauss.clamp_min(1e-30) * gauss.sum()).sqrt()[:, None]
    return -torch.linalg.solve(a.T @ a + STIFFNESS * stiff.T @ stiff, a.T @ b)


def profile(r: Tensor, radius: float, sigma: float, coefficients: Tensor | None) -> Tensor:
    """The Gaussian at radii r, times the polynomial if there is one."""
    gauss = _gauss(r, radius, sigma)
    return gauss if coefficients is None else gauss * (1 + _hermite(r, radius, sigma) @ coefficients)


def _gauss(r: Tensor, radius: float, sigma: float) -> Tensor:
    return torch.exp(-((r - radius) ** 2) / (2 * sigma**2))


def _hermite(r: Tensor, radius: float, sigma: float) -> Tensor:
    """He_n(u)/√n! for n = 1..TERMS, ``(p, TERMS)``: u He_n = He_{n+1} + n He_{n-1}."""
    u = (r - radius) / sigma
    values = [torch.ones_like(u), u]
    for n in range(1, TERMS):
        values.append(u * values[n] - n * values[n - 1])
    return torch.stack([values[n] / sqrt(factorial(n)) for n in range(1, TERMS + 1)], -1)


def _taylor_weights(dimension: int, degree: int) -> dict[tuple[int, int], float]:
    """The coefficient of |x|^a Y_J' in a wave of one radian per sample, for all (a, J') with a ≤ J + ORDERS."""
    weights = {}
    for order in range(degree + ORDERS + 1):
        for other in range(order % 2, order + 1, 2):
            n = (order - other) // 2
            if dimension == 2:
                weights[order, other] = 0.5**order / (factorial(n) * factorial(order - n))
            else:
                weights[order, other] = 1 / (prod(range(order - other, 0, -2)) * prod(range(order + other + 1, 0, -2)))
    return weights
