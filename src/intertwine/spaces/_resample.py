"""Interpolation between samples, in any number of dimensions.

It only gathers and adds, so it has derivatives of every order in both modes. torch's ``grid_sample`` has no
forward-mode and no second derivatives, but it is three to five times faster. It is used where both give the same result
and no derivative is needed, as in data augmentation.
"""

from __future__ import annotations

import math
from itertools import islice, product
from typing import Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._checked import Floats, checked, describe
from ..errors import InputError

Border = Literal["circular", "zeros", "mirror"]
"""What lies outside an array: periodic copies, zeros, or its mirror image at the outermost samples."""

Interpolation = Literal["linear", "cubic", "quintic"]

_BILINEAR, _ZEROS = 0, 0  # torch.grid_sampler's codes
_SMALL = 1 << 14
"""The number of values up to which forward mode multiplies several neighbors at once.

Where only one factor has a tangent, torch makes the other from a tensor of zeros, by a detour through Python that takes
longer than the product itself. Beyond, the product takes longer, and longest if the neighbors do not fit in the cache.
"""
_NEIGHBORS: dict[str, range] = {"linear": range(2), "cubic": range(-1, 3), "quintic": range(-2, 4)}


def _lagrange(nodes: range) -> list[list[float]]:
    """The polynomials that are 1 at one node and 0 at the others: by power from the highest, then by node."""
    polynomials = []
    for k in nodes:
        coefficients = [1]
        for j in nodes:
            if j != k:  # times u − j
                coefficients = [a - j * b for a, b in zip([*coefficients, 0], [0, *coefficients], strict=True)]
        polynomials.append([c / math.prod(k - j for j in nodes if j != k) for c in coefficients])
    return [list(column) for column in zip(*polynomials, strict=True)]


_POWERS: dict[str, list[list[float]]] = {
    "linear": [[-1, 1], [1, 0]],
    "cubic": [[-0.5, 1.5, -1.5, 0.5], [1, -2.5, 2, -0.5], [-0.5, 0, 0.5, 0], [0, 1, 0, 0]],
    "quintic": _lagrange(_NEIGHBORS["quintic"]),
}
"""The weights of the neighbors as polynomials in the position: by power from the highest, then by neighbor."""


@checked
def resample(
    f: Floats, index: Floats, *, border: Border = "circular", interpolation: Interpolation = "cubic"
) -> Tensor:
    """Values of ``f`` at any positions along its last d axes, by interpolation between samples.

    Alignment: sample k of an axis is at position k. Index 0 is the center of the first sample and index n − 1 the
    center of the last one, as in ``grid_sample`` with ``align_corners=True``.

    Linear interpolation has a kink at every sample. Cubic is the convolution of Keys (a = −½): once differentiable,
    exact on quadratics, with the central difference as its slope at a sample. Quintic is the polynomial through six
    samples, the most accurate of the three for smooth fields.

    Args:
        f: ``(..., n_1, …, n_d)``.
        index: positions in units of samples, ``(m_1, …, m_d, d)``. Or separate positions for each item of a batch,
            ``(batch, m_1, …, m_d, d)``; then ``f`` is ``(batch, ..., n_1, …, n_d)``.
        border: what lies outside the array.
        interpolation: uses the nearest 2, 4 or 6 samples along each axis.

    Returns:
        ``(..., m_1, …, m_d)``, differentiable in ``f`` and ``index``, forward and backward.

    >>> resample(torch.arange(4.0), torch.tensor([[1.5], [2.0]]), interpolation="linear")
    tensor([1.5000, 2.0000])
    """
    d = index.shape[-1] if index.ndim else 0
    per_item = index.ndim == d + 2
    if not 1 <= d <= f.ndim - per_item or index.ndim not in (d + 1, d + 2) or (per_item and len(index) != len(f)):
        raise InputError(
            "resample",
            expected="a field (..., *sizes) and positions (*out, d) or (batch, *out, d), both with d axes",
            got=f"{describe(f)}, {describe(index)}",
        )
    index = index.to(f.device)
    sizes = f.shape[-d:]
    if border == "zeros" and interpolation == "linear" and d in (2, 3) and not _needs_derivative(f, index):
        return _by_torch(f, index, per_item=per_item)
    first = index.detach().floor()
    weights = _weights(index - first, interpolation)
    axes = [_neighbors(first[..., k].long(), sizes[k], border, interpolation) for k in range(d)]
    flat = f.flatten(-d)
    in_rows = f.numel() <= _SMALL and not per_item and _has_tangent(index) and not _has_tangent(f)
    out: Tensor | None = None
    corners = product(range(len(weights)), repeat=d)
    while row := [_corner(corner, axes, weights, sizes) for corner in islice(corners, len(weights) if in_rows else 1)]:
        position, weight = (torch.stack(parts) for parts in zip(*row, strict=True)) if in_rows else row[0]
        values = _gathered(flat, position, per_item=per_item) * _beside(
            weight.to(f.dtype), flat.ndim, per_item=per_item
        )
        values = values.sum(-d - 1) if in_rows else values
        out = values if out is None else out + values
    if out is None:
        raise InputError("resample", expected="at least one axis", got=describe(index))
    return out


def _needs_derivative(*tensors: Tensor) -> bool:
    return any((x.requires_grad and torch.is_grad_enabled()) or _has_tangent(x) for x in tensors)


def _has_tangent(x: Tensor) -> bool:
    return forward_ad.unpack_dual(x).tangent is not None


def _by_torch(f: Tensor, index: Tensor, *, per_item: bool) -> Tensor:
    """Linear interpolation with zeros outside, by torch.grid_sampler; has no second or forward-mode derivatives."""
    d = index.shape[-1]
    # With align_corners=False, −1 and 1 are the outer edges of the first and last samples. This works for size 1 too.
    scale = torch.tensor([2.0 / n for n in f.shape[-d:]], dtype=index.dtype, device=f.device)
    positions = torch.addcmul(scale / 2 - 1, index, scale).flip(-1).to(f.dtype)
    items = f.reshape(len(f) if per_item else 1, -1, *f.shape[-d:])
    out = torch.grid_sampler(items, positions if per_item else positions[None], _BILINEAR, _ZEROS, align_corners=False)
    return out.reshape(*f.shape[:-d], *out.shape[2:])


def _corner(
    corner: tuple[int, ...], axes: list[list[tuple[Tensor, Tensor | None]]], weights: Tensor, sizes: torch.Size
) -> tuple[Tensor, Tensor]:
    """The position of one neighbor in the flattened array, and its weight."""
    position, inside = axes[0][corner[0]]
    weight = weights[corner[0]][..., 0]
    for k, offset in enumerate(corner[1:], start=1):
        along_axis, within = axes[k][offset]
        position = position * sizes[k] + along_axis
        weight = weight * weights[offset][..., k]
        inside = within if inside is None or within is None else inside & within
    return position, weight if inside is None else weight * inside


def _neighbors(
    first: Tensor, size: int, border: Border, interpolation: Interpolation
) -> list[tuple[Tensor, Tensor | None]]:
    """The index of each neighbor along one axis, and whether it is inside the array (None: always, by the border)."""
    neighbors: list[tuple[Tensor, Tensor | None]] = []
    for offset in _NEIGHBORS[interpolation]:
        index = first + offset
        if border == "mirror":
            neighbors.append((_mirrored(index, size), None))
        elif border == "circular":
            neighbors.append((index % size, None))
        else:
            neighbors.append((index.clamp(0, size - 1), (index >= 0) & (index < size)))
    return neighbors


def _mirrored(index: Tensor, size: int) -> Tensor:
    """Indices folded back at the outermost samples: −1 is 1, size is size − 2."""
    if size == 1:
        return torch.zeros_like(index)
    period = 2 * (size - 1)
    index = index % period
    return torch.minimum(index, period - index)


def _gathered(flat: Tensor, position: Tensor, *, per_item: bool) -> Tensor:
    """Values of ``(..., n)`` at positions ``(*out)``, or ``(batch, *out)`` with separate positions for each item."""
    rows = position.flatten(1).view(len(position), *[1] * (flat.ndim - 2), -1) if per_item else position.flatten()
    # gather is several times faster than index_select or indexing, although it repeats the positions.
    values = flat.gather(-1, rows.expand(*flat.shape[:-1], -1))
    return values.unflatten(-1, position.shape[1:] if per_item else position.shape)


def _beside(weight: Tensor, axes: int, *, per_item: bool) -> Tensor:
    """Weights ``(batch, *out)`` with an axis of size 1 for each axis of the field between the batch and the samples."""
    return weight.view(len(weight), *[1] * (axes - 2), *weight.shape[1:]) if per_item else weight


def _weights(u: Tensor, interpolation: Interpolation) -> Tensor:
    """The weights ``(neighbors, *out, d)`` of the neighbors for a position u between samples 0 and 1."""
    # All neighbors at once: each operation with a constant takes long in forward mode, where torch gives it a tangent.
    highest, *others = torch.tensor(_POWERS[interpolation], dtype=u.dtype, device=u.device).unflatten(
        1, (-1, *[1] * u.ndim)
    )
    weights = highest
    for coefficient in others:
        weights = weights * u + coefficient
    return weights
