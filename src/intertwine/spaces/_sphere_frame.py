"""The section of the sphere: for every point, a rotation that takes the north pole to it and thus defines a frame."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError

POLE_RADIUS = 1e-12
"""Points closer than this to a pole count as the pole. A rotation that maps a pole to a pole has rounding errors, and
their azimuth is noise. This radius is larger than the errors and smaller than every tolerance of the laws."""

_LENGTH_TOLERANCE = 1e-5  # loose enough for float32


def sphere_section(x: Tensor) -> Tensor:
    """s(x) = Z(alpha) Y(beta) for the point x with azimuth alpha and polar angle beta.

    The columns of s(x) are the unit vectors of increasing beta and of increasing alpha, and x itself. At the poles, and
    within ``POLE_RADIUS`` of them, alpha = 0: s = 1 in the north and Y(π) in the south.

    Args:
        x: unit vectors ``(..., 3)``; float32 is promoted.

    Returns:
        Rotations ``(..., 3, 3)``, float64.

    >>> sphere_section(torch.tensor([0.0, 1.0, 0.0])).round() + 0.0
    tensor([[ 0., -1.,  0.],
            [ 0.,  0.,  1.],
            [-1.,  0.,  0.]], dtype=torch.float64)
    """
    x = require_unit_vectors(x, caller="Sphere.section")
    x = x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    a, b, z = x.unbind(-1)
    polar = a * a + b * b < POLE_RADIUS**2
    a, b = (
        torch.where(polar, 1.0, a),
        torch.where(polar, 0.0, b),
    )  # replaced before dividing; otherwise the gradient is NaN
    r = torch.hypot(a, b)
    cos, sin = a / r, b / r
    r = torch.where(polar, 0.0, r)
    rows = ((cos * z, -sin, cos * r), (sin * z, cos, sin * r), (-r, torch.zeros_like(r), z))
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def require_unit_vectors(x: object, *, caller: str) -> Tensor:
    """Return points of the sphere in float64; raise an error if they are not unit vectors."""
    if not isinstance(x, Tensor) or x.shape[-1:] != (3,):
        raise InputError(
            caller,
            expected="points of the sphere: a tensor of unit vectors (..., 3)",
            got=f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else repr(x),
            fix="The last axis holds the coordinates (x, y, z).",
        )
    x = x.to(torch.float64)
    # Reading values would break the graph under torch.compile.
    if x.numel() and not torch.compiler.is_compiling():
        error = float((torch.linalg.vector_norm(x.detach(), dim=-1) - 1).abs().max())
        if not error <= _LENGTH_TOLERANCE:
            raise InputError(
                caller,
                expected="unit vectors",
                got=f"a vector whose length differs from 1 by {error:.2g}",
                fix="Divide by the length: x / x.norm(dim=-1, keepdim=True).",
            )
    return x
