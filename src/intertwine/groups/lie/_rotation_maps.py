"""Formulas for rotations of the plane and of space that stay smooth where textbook formulas divide by zero."""

from __future__ import annotations

from math import factorial

import torch
from torch import Tensor

_ARCSIN = (1.0, 1 / 6, 3 / 40, 15 / 336, 105 / 3456, 945 / 42240)
_QUARTER_TURN = ((0.0, -1.0), (1.0, 0.0))


def stumpff(k: int, t: Tensor) -> Tensor:
    """Σ_j (-t)^j / (2j+k)!: c0(θ²) = cos θ, c1 = sin θ / θ, c2 = (1 - cos θ) / θ², c3 = (θ - sin θ) / θ³.

    An entire function of t = θ². Below t = 1, where the closed form loses digits to cancellation, we use the power
    series.
    """
    small = t < 1
    s = torch.where(small, t, 0.0)
    series = torch.zeros_like(s)
    for j in reversed(range(11)):
        series = 1 / factorial(2 * j + k) - s * series
    big = torch.where(small, 1.0, t)
    root = big.sqrt()
    closed = root.cos() if k % 2 == 0 else root.sin() / root
    for low in range(k % 2, k, 2):
        closed = (1 / factorial(low) - closed) / big
    return torch.where(small, series, closed)


def planar(theta: Tensor) -> Tensor:
    """Rotations of the plane by the angles theta."""
    c, s = theta.cos(), theta.sin()
    return torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)


def planar_angle(g: Tensor) -> Tensor:
    """The angle in (-π, π] of rotations of the plane."""
    return torch.atan2(g[..., 1, 0] - g[..., 0, 1], g[..., 0, 0] + g[..., 1, 1])


def planar_jacobian(theta: Tensor) -> Tensor:
    """∫₀¹ rotation(tθ) dt, which gives the translation part of the exponential."""
    square = (theta * theta)[..., None, None]
    turn = theta.new_tensor(_QUARTER_TURN)
    eye = torch.eye(2, dtype=theta.dtype, device=theta.device)
    return stumpff(1, square) * eye + theta[..., None, None] * stumpff(2, square) * turn


def hat(w: Tensor) -> Tensor:
    """The matrices of v ↦ w × v."""
    x, y, z = w.unbind(-1)
    o = torch.zeros_like(x)
    rows = ((o, -z, y), (z, o, -x), (-y, x, o))
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def spatial(w: Tensor) -> Tensor:
    """exp(hat(w)): the rotations about w by |w|."""
    return _series_in_hat(w, 1)


def spatial_jacobian(w: Tensor) -> Tensor:
    """∫₀¹ exp(t hat(w)) dt, which gives the translation part of the exponential."""
    return _series_in_hat(w, 2)


def _series_in_hat(w: Tensor, k: int) -> Tensor:
    square = (w * w).sum(-1)[..., None, None]
    h = hat(w)
    eye = torch.eye(3, dtype=w.dtype, device=w.device)
    return eye + stumpff(k, square) * h + stumpff(k + 1, square) * (h @ h)


def from_quaternion(q: Tensor) -> Tensor:
    """The rotations 1 + 2w·hat(v) + 2·hat(v)² of quaternions (w, v), scaled to length 1."""
    q = q / torch.linalg.vector_norm(q, dim=-1, keepdim=True)
    h = hat(q[..., 1:])
    eye = torch.eye(3, dtype=q.dtype, device=q.device)
    return eye + 2 * q[..., :1, None] * h + 2 * h @ h


def quaternion(g: Tensor) -> Tensor:
    """The unit quaternions q = (cos θ/2, sin θ/2 · axis) of rotations, with cos θ/2 ≥ 0.

    The matrix 4 q qᵀ is linear in g, and its row with the largest diagonal entry is never small. So there is no
    division by zero at the identity or at half turns.
    """
    m = g.unbind(-2)
    (a, b, c), (d, e, f), (h, i, j) = (row.unbind(-1) for row in m)
    rows = (
        (1 + a + e + j, i - f, c - h, d - b),
        (i - f, 1 + a - e - j, b + d, c + h),
        (c - h, b + d, 1 - a + e - j, f + i),
        (d - b, c + h, f + i, 1 - a - e + j),
    )
    table = torch.stack([torch.stack(row, -1) for row in rows], -2)
    best = table.diagonal(dim1=-2, dim2=-1).argmax(-1)[..., None, None]
    q = torch.take_along_dim(table, best.expand(*best.shape[:-1], 4), dim=-2).squeeze(-2)
    q = q / torch.linalg.vector_norm(q, dim=-1, keepdim=True)
    return torch.where(q[..., :1] < 0, -q, q)


def spatial_vector(g: Tensor) -> Tensor:
    """The vector w with |w| ≤ π and exp(hat(w)) = g, from its unit quaternion."""
    q = quaternion(g)
    w, v = q[..., 0], q[..., 1:]
    square = (v * v).sum(-1)
    small = square < 1e-3
    t = torch.where(small, square, 0.0)
    series = torch.zeros_like(t)
    for coefficient in reversed(_ARCSIN):
        series = coefficient + t * series
    s = torch.where(small, 1.0, square).sqrt()
    ratio = torch.where(small, series, torch.atan2(s, w) / s)  # half the angle over its sine
    return 2 * ratio[..., None] * v


def about_z(theta: Tensor) -> Tensor:
    """Rotations of space about the z axis."""
    return embed_corner(planar(theta), 3)


def about_y(theta: Tensor) -> Tensor:
    """Rotations of space about the y axis, from z towards x."""
    c, s, o, one = theta.cos(), theta.sin(), torch.zeros_like(theta), torch.ones_like(theta)
    rows = ((c, o, s), (o, one, o), (-s, o, c))
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def embed_corner(m: Tensor, size: int) -> Tensor:
    """Matrices with m in the upper left corner and ones on the rest of the diagonal."""
    extra = size - m.shape[-1]
    right = m.new_zeros(*m.shape[:-1], extra)
    eye = torch.eye(size, dtype=m.dtype, device=m.device)[-extra:]
    return torch.cat([torch.cat([m, right], -1), eye.expand(*m.shape[:-2], extra, size)], -2)


def gauss_legendre(n: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [-1, 1], exact up to degree 2n-1, from the Jacobi matrix (Golub and Welsch)."""
    k = torch.arange(1, n, dtype=torch.float64)
    off = k / (4 * k * k - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(off.diag(1) + off.diag(-1))
    return nodes, 2 * vectors[0] ** 2
