"""Gauss-Hermite functions: filters that can be sampled at any scale."""

from __future__ import annotations

from math import ceil, isfinite, pi, sqrt

import torch
from torch import Tensor

from .._checked import checked
from .._devices import OnCPU, on_cpu
from ..errors import InputError


class HermiteKernelBasis(OnCPU):
    """The filters ψ_mn(x, y) = h_m(x) h_n(y) with m + n ≤ order, for scale-equivariant convolution.

    h_n is the Hermite function of degree n: a polynomial of degree n times exp(−x²/2), orthonormal on the line. The
    filter of scale s is ψ_mn(x / (sigma s)) / (sigma s)², sampled on the lattice. An image s times as large then gives
    the same sums at a scale s times as large. The span is closed under rotations.

    Args:
        order: the largest degree.
        sigma: the width at scale 1, in samples.

    >>> basis = HermiteKernelBasis(order=2, sigma=1.0)
    >>> basis.dim, basis.filters(1.0).shape, basis.filters(2.0).shape, basis.residual < 1e-15
    (6, torch.Size([6, 11, 11]), torch.Size([6, 19, 19]), True)
    """

    @checked
    def __init__(self, *, order: int, sigma: float) -> None:
        if order < 0 or not (isfinite(sigma) and sigma > 0):
            raise InputError(
                "HermiteKernelBasis",
                expected="an order of 0 or more and a sigma above 0",
                got=f"order={order}, sigma={sigma}",
            )
        self.order, self.sigma = order, sigma
        self.degrees = tuple((m, degree - m) for degree in range(order + 1) for m in range(degree + 1))

    @property
    def dim(self) -> int:
        """The number of filters, (order + 1)(order + 2)/2."""
        return len(self.degrees)

    @checked
    def radius(self, scale: float) -> int:
        """How far the filters of a scale reach, in samples: two widths past the last turning point of h_order.

        >>> HermiteKernelBasis(order=2, sigma=1.0).radius(1.0)
        5
        """
        if not (isfinite(scale) and scale > 0):
            raise InputError("HermiteKernelBasis", expected="a scale above 0", got=str(scale))
        return ceil(self.sigma * scale * (sqrt(2 * self.order + 1) + 2))

    @checked
    @on_cpu
    def filters(self, scale: float) -> Tensor:
        """The filters of a scale, ``(dim, taps, taps)``.

        >>> HermiteKernelBasis(order=0, sigma=1.0).filters(1.0).shape  # one Gaussian
        torch.Size([1, 7, 7])
        """
        radius, width = self.radius(scale), self.sigma * scale
        h = hermite_functions(torch.arange(-radius, radius + 1, dtype=torch.float64) / width, self.order)
        return torch.stack([h[m][:, None] * h[n] for m, n in self.degrees]) / width**2

    @property
    def residual(self) -> float:
        """The largest violation of ψ_2s(2y) = ψ_s(y) / 4 at the taps that scales 1 and 2 share."""
        near, far = self.filters(1.0), self.filters(2.0)
        middle, reach = self.radius(2.0), self.radius(2.0) // 2
        shared = far[:, middle % 2 :: 2, middle % 2 :: 2]
        start = self.radius(1.0) - reach
        inner = near[:, start : start + 2 * reach + 1, start : start + 2 * reach + 1]
        return float((4 * shared - inner).abs().max())

    def __repr__(self) -> str:
        return f"HermiteKernelBasis(order={self.order}, sigma={self.sigma:g}, dim={self.dim})"


def hermite_functions(x: Tensor, order: int) -> Tensor:
    """h_0 … h_order at the points x, ``(order + 1, *x.shape)``, by their three-term recursion."""
    h = [pi**-0.25 * torch.exp(-x.square() / 2)]
    for n in range(order):
        lower = sqrt(n / (n + 1)) * h[n - 1] if n else 0.0
        h.append(sqrt(2 / (n + 1)) * x * h[n] - lower)
    return torch.stack(h)
