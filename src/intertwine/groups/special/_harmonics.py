"""Harmonics on the sphere and the circle, as polynomials in the coordinates. Without angles, poles are not special."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import pi

import torch
from torch import Tensor

from ..._checked import checked
from ._checks import full_precision, require_floats, require_whole

_HOW = "The last axis holds the coordinates."


@checked
def spherical_harmonics(lmax: int, x: Tensor, *, normalize: bool = True) -> Tensor:
    """Real spherical harmonics of degree 0..lmax at the directions of the vectors x.

    Y_lm(x) = Θ_l|m|(z) · {√2 sin(|m|φ) for m < 0;  1 for m = 0;  √2 cos(mφ) for m > 0}, where φ is the azimuth about z.
    Leading coefficients are positive (no sign (-1)^m): degree 1 is √(3/4π) (y, z, x). The harmonics are orthonormal for
    the surface measure of the unit sphere, of total 4π. Rotations act by Y(Rx) = D(R) Y(x), D = :func:`wigner_d`.

    Args:
        lmax: the maximum degree.
        x: ``(..., 3)`` vectors (x, y, z).
        normalize: whether to take x / |x| first. If not, the result is the solid harmonics |x|^l Y_l(x / |x|),
            which are polynomials in x. At x = 0, both are 0 for l ≥ 1.

    Returns:
        ``(..., (lmax+1)**2)``, in the dtype of x. Degree l is at ``l**2 : (l+1)**2``, ordered m = -l..l.

    >>> spherical_harmonics(1, torch.tensor([0.0, 0.0, 2.0]))
    tensor([0.2821, 0.0000, 0.4886, 0.0000])
    """
    require_whole(lmax, caller="spherical_harmonics", name="lmax")
    x = require_floats(x, 3, caller="spherical_harmonics", what="vectors", fix=_HOW)
    flat = x.reshape(-1, 3).T.contiguous()
    square = (flat * flat).sum(0)
    if normalize:
        inside = square > 0
        flat = flat * torch.where(inside, square, 1.0).rsqrt()
        square = inside.to(x.dtype)
    rows = _low_harmonics(lmax, flat) if lmax <= 2 else torch.cat(list(solid_harmonics(lmax, flat, square)))
    return rows.T.reshape(*x.shape[:-1], (lmax + 1) ** 2)


@checked
def circular_harmonics(mmax: int, x: Tensor, *, normalize: bool = True) -> Tensor:
    """The functions 1, cos φ, sin φ, cos 2φ, sin 2φ, …, cos mmax φ, sin mmax φ of the azimuth φ of x.

    Rotations act on each pair by the irrep of SO(2) with the same frequency:
    (cos mφ, sin mφ)(gx) = rho_m(g) (cos mφ, sin mφ)(x).

    Args:
        mmax: the maximum frequency.
        x: ``(..., 2)`` vectors.
        normalize: whether to take x / |x| first. If not, the pairs are the real and imaginary parts of
            (x + iy)^m, polynomials in x. At x = 0 both are 0 for m ≥ 1.

    Returns:
        ``(..., 2*mmax+1)``, in the dtype of x.

    >>> circular_harmonics(2, torch.tensor([0.0, 1.0]))
    tensor([ 1.,  0.,  1., -1.,  0.])
    """
    require_whole(mmax, caller="circular_harmonics", name="mmax")
    x = require_floats(x, 2, caller="circular_harmonics", what="vectors", fix=_HOW)
    if normalize:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        x = x / torch.where(length > 0, length, 1.0)
    powers = complex_powers(mmax, x[..., 0], x[..., 1])
    pairs = [part for pair in powers[1:] for part in pair]
    return torch.stack([powers[0][0], *pairs], dim=-1)


def complex_powers(mmax: int, a: Tensor, b: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Real and imaginary parts of (a + ib)^m for m = 0..mmax."""
    powers = [(torch.ones_like(a), torch.zeros_like(a))]
    for _ in range(mmax):
        c, s = powers[-1]
        powers.append((a * c - b * s, b * c + a * s))
    return powers


def solid_harmonics(lmax: int, xyz: Tensor, square: Tensor | None, *, only: int | None = None) -> Iterator[Tensor]:
    """Harmonics of degree 0..lmax, or of degree ``only``, each ``(2l+1, points)``, at the columns of ``xyz``.

    Y_lm = q_l|m|(z) Re or Im (x+iy)^|m|, where q_lm = a_lm (z q_{l-1,m} - b_lm |x|² q_{l-2,m}) and q_mm is constant.
    ``square`` is |x|². None means 1, for points on the sphere, and saves a product.
    """
    x, y, z = xyz
    powers = complex_powers(lmax, x, y)
    cosines = torch.stack([c for c, _ in powers[1:]]) if lmax else xyz[:0]
    sines = torch.stack([s for _, s in powers[1:]]) if lmax else xyz[:0]
    before, q = xyz[:0], torch.full_like(x, (4 * pi) ** -0.5)[None]
    if only in (None, 0):
        yield q
    for l in range(1, lmax + 1):
        a, b = _legendre_steps(l, x.device, x.dtype)
        low = z * q[:-1] - b * (before if square is None else square * before)
        diagonal = (2 * l + 1) ** 0.5 * z * q[-1:]
        # √2 of the cosines and sines enters with the first q_mm, m = 1.
        top = ((2 * l + 1) / (2 * l) * (2 if l == 1 else 1)) ** 0.5 * q[-1:]
        before, q = q, torch.cat([a * low, diagonal, top])
        if only in (None, l):
            yield torch.cat([(q[1:] * sines[:l]).flip(0), q[:1], q[1:] * cosines[:l]])


def _low_harmonics(lmax: int, xyz: Tensor) -> Tensor:
    """Harmonics up to degree 2, ``((lmax+1)**2, points)``. The most common case: one matrix product with monomials."""
    constants, coefficients = _low_coefficients(lmax, xyz.device, xyz.dtype)
    monomials = xyz if lmax < 2 else torch.cat([xyz, (xyz[:, None] * xyz).flatten(0, 1)])
    with full_precision(xyz.device):
        return torch.addmm(constants, coefficients, monomials)


@cache
@torch.inference_mode(False)  # the cached result may take part in gradients later
def _low_coefficients(lmax: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The constant terms, and the coefficients of x, y, z, xx, xy, …, zz in all harmonics."""
    c = torch.zeros(9, 12, dtype=torch.float64, device="cpu")
    x, y, z = range(3)
    linear, mixed, pure = (3 / (4 * pi)) ** 0.5, (15 / (4 * pi)) ** 0.5, (5 / (16 * pi)) ** 0.5
    for row, axis in enumerate((y, z, x), start=1):
        c[row, axis] = linear
    for row, (i, j) in ((4, (x, y)), (5, (y, z)), (7, (x, z))):
        c[row, 3 + 3 * i + j] = mixed
    for row, weights in ((6, (-pure, -pure, 2 * pure)), (8, (mixed / 2, -mixed / 2, 0.0))):
        for axis, weight in enumerate(weights):
            c[row, 3 + 4 * axis] = weight
    constants = torch.zeros(9, 1, dtype=torch.float64, device="cpu")
    constants[0] = (4 * pi) ** -0.5
    rows, columns = (lmax + 1) ** 2, 12 if lmax == 2 else 3
    return constants[:rows].to(device, dtype), c[:rows, :columns].contiguous().to(device, dtype)


@cache
@torch.inference_mode(False)  # the cached result may take part in gradients later
def _legendre_steps(l: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Coefficients a_lm, b_lm for m = 0..l-2, as columns."""
    m = torch.arange(max(l - 1, 0), dtype=torch.float64)[:, None]
    a = ((4 * l**2 - 1) / (l**2 - m**2)).sqrt()
    b = (((l - 1) ** 2 - m**2) / (4 * (l - 1) ** 2 - 1)).sqrt() if l > 1 else m
    return a.to(device, dtype), b.to(device, dtype)
