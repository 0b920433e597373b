"""Interpolation at arbitrary places by gathers and arithmetic alone, so that every kind of derivative exists."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from .._checked import checked, describe
from ..errors import InputError


@checked
def resample(f: Tensor, index: Tensor, *, circular: bool) -> Tensor:
    """Cubic convolution interpolation (Keys, a = -1/2) of the last d axes of ``f``.

    Args:
        f: ``(..., n_1, …, n_d)``.
        index: ``(*out, d)``, places in units of samples, counted from the first one.
        circular: whether the array repeats periodically; else it is zero outside.

    Returns:
        ``(..., *out)``.
    """
    if index.ndim < 2 or not 1 <= index.shape[-1] <= f.ndim or index.is_complex():
        raise InputError(
            "resample",
            expected="a field (..., *sizes), and places (*out, d) in it",
            got=f"{describe(f)}, {describe(index)}",
        )
    d = index.shape[-1]
    sizes = f.shape[-d:]
    flat = f.flatten(-d)
    floor = index.floor()
    weights = _cubic(index - floor)
    out = torch.zeros((), dtype=f.dtype)
    for corner in product(range(4), repeat=d):
        place, inside, weight = torch.zeros(index.shape[:-1], dtype=torch.int64), None, None
        for axis, offset in enumerate(corner):
            at = floor[..., axis].long() + (offset - 1)
            wrapped = at % sizes[axis]
            place = place * sizes[axis] + wrapped
            here = weights[offset][..., axis]
            weight = here if weight is None else weight * here
            inside = (at == wrapped) if inside is None else inside & (at == wrapped)
        if weight is None or inside is None:
            continue
        if not circular:
            weight = weight * inside
        values = flat[..., place.flatten()].unflatten(-1, place.shape)
        out = out + values * weight.to(f.dtype)
    return out


def _cubic(t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights of the samples at -1, 0, 1, 2 for a place between 0 and 1."""
    return (
        ((-0.5 * t + 1.0) * t - 0.5) * t,
        (1.5 * t - 2.5) * t * t + 1.0,
        ((-1.5 * t + 2.0) * t + 0.5) * t,
        (0.5 * t - 0.5) * t * t,
    )
