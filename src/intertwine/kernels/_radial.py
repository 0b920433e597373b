r"""Radial profiles whose samples on the lattice keep apart what belongs to different degrees.

A kernel φ(|x|) Y_J(x) responds to a smooth field through the field's Taylor expansion, whose terms are
|x|^a Y_J'(x), a - J' even. On all of R^d the integral of the product vanishes for J' ≠ J and is a multiple of the
identity for J' = J. The sum over the taps of a square array does neither, and this aliasing is the whole error of a
sampled filter under turns that do not keep the lattice. It is linear in φ: a Gaussian times a polynomial of low degree
has enough freedom to cancel the leading terms.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, prod, sqrt

import torch
from torch import Tensor

TERMS = 4
"""Degree of the polynomial. More terms did not lower the error of filters of 5 and 7 taps any further."""

ORDERS = 4
"""Terms of the Taylor expansion are taken up to the order J + ORDERS."""

STIFFNESS = 1e-6
"""Weight of the polynomial's own size: it keeps profiles near the Gaussian where the taps cannot tell."""

LEAST_TAPS = 5
"""An array of 3 taps has too few different radii for a profile to be shaped."""


def profile_polynomial(
    taps: Tensor, radius: float, sigma: float, degree: int, harmonics: Callable[[int, Tensor], Tensor]
) -> Tensor:
    """Coefficients c_1, …, c_TERMS of the polynomial 1 + Σ c_n He_n(u)/√n!, u = (|x| - radius)/sigma.

    Args:
        taps: ``(p, d)``, the places of the filter's entries.
        radius: of the shell.
        sigma: its width.
        degree: J.
        harmonics: ``harmonics(J, x)``, the functions Y_J at points ``(p, d)``, ``(p, 2 or 2J+1)``.
    """
    r = torch.linalg.vector_norm(taps, dim=-1)
    gauss, bumps = _gauss(r, radius, sigma), _hermite(r, radius, sigma) * _gauss(r, radius, sigma)[:, None]
    own = harmonics(degree, taps)
    weights = _taylor_weights(taps.shape[1], degree)
    size = weights[degree, degree] * float((gauss * r**degree * own.square().mean(1)).sum())
    rows = []
    for (order, other), weight in weights.items():
        product = torch.einsum("p,pm,pn->mnp", r**order, own, harmonics(other, taps))
        if other == degree:  # its own degree may only be scaled
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
    """How much |x|^a Y_J' is in a wave of one radian for each sample, for all (a, J') of order up to J + ORDERS."""
    found = {}
    for order in range(degree + ORDERS + 1):
        for other in range(order % 2, order + 1, 2):
            n = (order - other) // 2
            if dimension == 2:
                found[order, other] = 0.5**order / (factorial(n) * factorial(order - n))
            else:
                found[order, other] = 1 / (prod(range(order - other, 0, -2)) * prod(range(order + other + 1, 0, -2)))
    return found
