"""Interpolation between samples: the one resampler of the package.

It gathers and adds, so every kind of derivative exists, in any number of dimensions. torch's ``grid_sample`` has no
forward-mode derivative and no second one, but it is three to five times faster. It is used where both give the same
and no derivative is needed, as in data augmentation.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._checked import Floats, checked, describe
from ..errors import InputError

Border = Literal["circular", "zeros", "mirror"]
"""What lies outside of an array: its periodic copies, zeros, or its mirror image at the outermost samples."""

Interpolation = Literal["linear", "cubic", "quintic"]

BORDERS: tuple[Border, ...] = get_args(Border)
_BILINEAR, _ZEROS = 0, 0  # as torch.grid_sampler numbers them
_NEIGHBORS: dict[str, range] = {"linear": range(2), "cubic": range(-1, 3), "quintic": range(-2, 4)}


@checked
def resample(
    f: Floats, index: Floats, *, border: Border = "circular", interpolation: Interpolation = "cubic"
) -> Tensor:
    """The last d axes of ``f`` at any places, by interpolation between samples.

    Alignment: sample number k of an axis lies at the place k. An index of 0 is the center of the first sample and an
    index of n − 1 the center of the last one (``align_corners=True`` in the words of ``grid_sample``).

    Linear has a kink at every sample. Cubic is the convolution of Keys (a = −½): once differentiable, exact on
    quadratics, and its slope at a sample is the central difference. Quintic is the polynomial through six samples, the
    most accurate of the three for smooth fields.

    Args:
        f: ``(..., n_1, …, n_d)``.
        index: ``(m_1, …, m_d, d)``, places in units of samples; or ``(batch, m_1, …, m_d, d)``, other places for each
            item of ``f``, which is then ``(batch, ..., n_1, …, n_d)``.
        border: what lies outside of the array.
        interpolation: between the nearest 2, 4 or 6 samples along each axis.

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
            expected="a field (..., *sizes) with d sizes, and places (*out, d) or (batch, *out, d) in it, d axes out",
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
    out: Tensor | None = None
    for corner in product(range(len(weights)), repeat=d):
        place, weight = _corner(corner, axes, weights, sizes)
        values = _gathered(flat, place, per_item=per_item) * _beside(weight.to(f.dtype), flat.ndim, per_item=per_item)
        out = values if out is None else out + values
    if out is None:
        raise InputError("resample", expected="at least one axis", got=describe(index))
    return out


def _needs_derivative(*tensors: Tensor) -> bool:
    return any(
        (x.requires_grad and torch.is_grad_enabled()) or forward_ad.unpack_dual(x).tangent is not None for x in tensors
    )


def _by_torch(f: Tensor, index: Tensor, *, per_item: bool) -> Tensor:
    """The same as below, for linear interpolation with zeros outside, without derivatives."""
    d = index.shape[-1]
    # From −1 to 1 between the outer edges of the first and the last sample, which also fits an axis of size 1.
    scale = torch.tensor([2.0 / n for n in f.shape[-d:]], dtype=index.dtype, device=f.device)
    places = torch.addcmul(scale / 2 - 1, index, scale).flip(-1).to(f.dtype)
    items = f.reshape(len(f) if per_item else 1, -1, *f.shape[-d:])
    out = torch.grid_sampler(items, places if per_item else places[None], _BILINEAR, _ZEROS, align_corners=False)
    return out.reshape(*f.shape[:-d], *out.shape[2:])


def _corner(
    corner: tuple[int, ...], axes: list[list[tuple[Tensor, Tensor | None]]], weights: list[Tensor], sizes: torch.Size
) -> tuple[Tensor, Tensor]:
    """Where one of the neighbors is in the flattened array, and with which weight it counts."""
    place, inside = axes[0][corner[0]]
    weight = weights[corner[0]][..., 0]
    for k, offset in enumerate(corner[1:], start=1):
        at, within = axes[k][offset]
        place = place * sizes[k] + at
        weight = weight * weights[offset][..., k]
        inside = within if inside is None or within is None else inside & within
    return place, weight if inside is None else weight * inside


def _neighbors(
    first: Tensor, size: int, border: Border, interpolation: Interpolation
) -> list[tuple[Tensor, Tensor | None]]:
    """For each neighbor along one axis its number, and whether it is inside where that matters."""
    found: list[tuple[Tensor, Tensor | None]] = []
    for offset in _NEIGHBORS[interpolation]:
        at = first + offset
        if border == "mirror":
            found.append((_mirrored(at, size), None))
        elif border == "circular":
            found.append((at % size, None))
        else:
            found.append((at.clamp(0, size - 1), (at >= 0) & (at < size)))
    return found


def _mirrored(index: Tensor, size: int) -> Tensor:
    """Indices folded back at the outermost samples: −1 is 1, size is size − 2."""
    if size == 1:
        return torch.zeros_like(index)
    period = 2 * (size - 1)
    index = index % period
    return torch.minimum(index, period - index)


def _gathered(flat: Tensor, place: Tensor, *, per_item: bool) -> Tensor:
    """``(..., n)`` at places ``(*out)``, or ``(batch, *out)`` with a row of places for each item."""
    rows = place.flatten(1).view(len(place), *[1] * (flat.ndim - 2), -1) if per_item else place.flatten()
    # gather is several times faster than index_select and than indexing, although it repeats the places.
    values = flat.gather(-1, rows.expand(*flat.shape[:-1], -1))
    return values.unflatten(-1, place.shape[1:] if per_item else place.shape)


def _beside(weight: Tensor, axes: int, *, per_item: bool) -> Tensor:
    """Weights ``(batch, *out)`` with an axis of size 1 for each axis that the field has in between."""
    return weight.view(len(weight), *[1] * (axes - 2), *weight.shape[1:]) if per_item else weight


def _weights(u: Tensor, interpolation: Interpolation) -> list[Tensor]:
    """The weights of the neighbors for a place between number 0 and number 1."""
    if interpolation == "linear":
        return [1 - u, u]
    if interpolation == "quintic":
        nodes = _NEIGHBORS[interpolation]
        return [math.prod(((u - j) / (k - j) for j in nodes if j != k), start=torch.ones_like(u)) for k in nodes]
    return [
        ((-0.5 * u + 1.0) * u - 0.5) * u,
        (1.5 * u - 2.5) * u * u + 1.0,
        ((-1.5 * u + 2.0) * u + 0.5) * u,
        (0.5 * u - 0.5) * u * u,
    ]
