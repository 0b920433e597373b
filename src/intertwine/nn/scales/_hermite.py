"""Gauss-Hermite functions, a basis of filters that can be sampled at any scale.

ψ_mn(x, y) = h_m(x) h_n(y), where h_n is the Hermite function of degree n: a polynomial of degree n times exp(−x²/2),
orthonormal on the line. The functions with m + n ≤ order also span all rotations of each other.
"""

from __future__ import annotations

from math import ceil, pi, sqrt

import torch
from torch import Tensor


def hermite_functions(x: Tensor, order: int) -> Tensor:
    """h_0 … h_order at the points x, ``(order + 1, *x.shape)``, by their three-term recursion.

    >>> x = torch.arange(-10, 10, 0.01, dtype=torch.float64)
    >>> h = hermite_functions(x, 2)
    >>> torch.allclose(0.01 * h @ h.T, torch.eye(3, dtype=torch.float64))
    True
    """
    h = [pi**-0.25 * torch.exp(-x.square() / 2)]
    for n in range(order):
        lower = sqrt(n / (n + 1)) * h[n - 1] if n else 0.0
        h.append(sqrt(2 / (n + 1)) * x * h[n] - lower)
    return torch.stack(h)


def filter_radius(width: float, order: int) -> int:
    """How far filters of this width reach, in samples: two widths past the last turning point of h_order."""
    return ceil(width * (sqrt(2 * order + 1) + 2))


def hermite_filters(width: float, order: int) -> Tensor:
    """ψ_mn(x / width) / width² at integer x with m + n ≤ order, ``(functions, taps, taps)``.

    The factor 1/width² makes the sum over the samples of a stretched image equal to that of the original.
    """
    radius = filter_radius(width, order)
    h = hermite_functions(torch.arange(-radius, radius + 1, dtype=torch.float64) / width, order)
    pairs = [(m, degree - m) for degree in range(order + 1) for m in range(degree + 1)]
    return torch.stack([h[m][:, None] * h[n] for m, n in pairs]) / width**2
