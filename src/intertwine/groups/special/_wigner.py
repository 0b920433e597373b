"""Real Wigner matrices: the irreps of SO(3) and O(3), as polynomials in the entries of the rotation.

D^l(R) follows from harmonics at a few fixed points P: Y(RP) = D(R) Y(P), so D(R) = Y(RP) Y(P)⁺. Without angles, there
are no poles, and the result is differentiable everywhere. The points lie on a spiral over half the sphere (opposite
points are redundant). With 3l+1 points, the condition number of Y(P) stays below 10 for all degrees up to 30, so D has
only rounding errors.
"""

from __future__ import annotations

from functools import lru_cache
from math import pi, sqrt

import torch
from torch import Tensor

from ..._checked import checked
from ._checks import full_precision, require_floats, require_whole
from ._harmonics import solid_harmonics

_DEGREE_ONE = [1, 2, 0]  # the harmonics of degree 1 are ordered (y, z, x)
_HOW = "Make rotations with SO3().exp, SO3().from_euler or SO3().sample."


@checked
def wigner_d(l: int, R: Tensor) -> Tensor:
    """The matrices D^l(R) in the basis m = -l..l of real spherical harmonics with polar axis z.

    D(R1 R2) = D(R1) D(R2), D(R)ᵀ D(R) = 1, Y(Rx) = D(R) Y(x). For an improper R = -R', D^l(R) = (-1)^l D^l(R').

    Args:
        l: the degree.
        R: ``(..., 3, 3)`` orthogonal matrices. They are not checked: use ``SO3().irrep(l)(R)`` for that.

    Returns:
        ``(..., 2l+1, 2l+1)``, in the dtype of R.

    >>> quarter_turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> wigner_d(1, quarter_turn)
    tensor([[ 0.,  0.,  1.],
            [ 0.,  1.,  0.],
            [-1.,  0.,  0.]])
    """
    require_whole(l, caller="wigner_d", name="l")
    R = require_floats(R, 3, 3, caller="wigner_d", what="rotations", fix=_HOW)
    if l == 0:
        return torch.ones_like(R[..., :1, :1])
    if l == 1:
        return R[..., _DEGREE_ONE, :][..., _DEGREE_ONE]
    points, solvers = _points(l, R.device, R.dtype)
    moved, batch = _moved(R, points)
    (values,) = solid_harmonics(l, moved, None, only=l)
    return _solved(values, solvers[l], batch)


@checked
def wigner_ds(lmax: int, R: Tensor) -> list[Tensor]:
    """The matrices D^0(R), ..., D^lmax(R), computed in one pass; see :func:`wigner_d`.

    >>> [tuple(d.shape) for d in wigner_ds(2, torch.eye(3))]
    [(1, 1), (3, 3), (5, 5)]
    """
    require_whole(lmax, caller="wigner_ds", name="lmax")
    R = require_floats(R, 3, 3, caller="wigner_ds", what="rotations", fix=_HOW)
    if lmax < 2:
        return [wigner_d(l, R) for l in range(lmax + 1)]
    points, solvers = _points(lmax, R.device, R.dtype)
    moved, batch = _moved(R, points)
    values = solid_harmonics(lmax, moved, None)
    return [wigner_d(l, R) if l < 2 else _solved(v, solvers[l], batch) for l, v in enumerate(values)]


def _moved(R: Tensor, points: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """The points RP as columns ``(3, batch * points)``, and the batch shape."""
    batch = tuple(R.shape[:-2])
    with full_precision(R.device):
        moved = R @ points
    return moved.reshape(-1, *points.shape).transpose(0, 1).reshape(3, -1), batch


def _solved(values: Tensor, solver: Tensor, batch: tuple[int, ...]) -> Tensor:
    with full_precision(values.device):
        d = values.reshape(solver.shape[1], -1, solver.shape[0]) @ solver
    return d.transpose(0, 1).reshape(*batch, *d.shape[::2])


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # the cached result may take part in gradients later
def _points(lmax: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, list[Tensor]]:
    """Points P ``(3, K)`` and the matrices Y_l(P)⁺ ``(K, 2l+1)`` for l = 0..lmax."""
    count = 3 * lmax + 1
    k = torch.arange(count, dtype=torch.float64) + 0.5
    z, azimuth = 1 - k / count, k * (pi * (3 - sqrt(5)))  # the golden angle
    r = (1 - z * z).sqrt()
    points = torch.stack([r * azimuth.cos(), r * azimuth.sin(), z])
    solvers = [torch.linalg.pinv(y).contiguous().to(device, dtype) for y in solid_harmonics(lmax, points, None)]
    return points.to(device, dtype), solvers
