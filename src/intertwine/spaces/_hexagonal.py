"""Between the square and the hexagonal lattice."""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor

from .._checked import Positive, checked
from ..errors import InputError
from ._grids import Grid2d
from ._resample import Interpolation, resample

_INRADIUS = 0.75**0.5
"""The distance from the center of a hexagon to its sides, relative to its radius."""


@checked
def to_hexagonal(images: Tensor, size: Positive | None = None, *, interpolation: Interpolation = "cubic") -> Tensor:
    """Resample square images on the hexagonal lattice, inside a hexagon around the center.

    The hexagon covers the largest disk in the image. The result is an array with the hexagon inside it, 0 in its
    corners. At the default size, neighbors in the lattice are as far apart as neighboring pixels.

    Args:
        images: ``(..., height, width)``, float, square.
        size: the size n of the array, odd: the hexagon has (n + 1) / 2 samples along each side. By default, a number of
            the form 4k + 1, which can be pooled with stride 2.
        interpolation: ``linear`` or ``cubic``.

    Returns:
        ``(..., n, n)``.

    >>> to_hexagonal(torch.ones(2, 1, 28, 28)).shape
    torch.Size([2, 1, 33, 33])
    >>> to_hexagonal(torch.ones(5, 5), 5, interpolation="linear").round() + 0.0
    tensor([[1., 1., 1., 0., 0.],
            [1., 1., 1., 1., 0.],
            [1., 1., 1., 1., 1.],
            [0., 1., 1., 1., 1.],
            [0., 0., 1., 1., 1.]])
    """
    side = _require_square("to_hexagonal", images)
    covering = ceil((side - 1) / 2 / _INRADIUS)  # in samples, if they are as dense as pixels
    n = 4 * ceil(covering / 2) + 1 if size is None else _require_odd("to_hexagonal", size)
    spacing = 1.0 if size is None else (side - 1) / 2 / _INRADIUS / max((n - 1) / 2, 1)
    points = _samples(n) * spacing
    index = torch.stack([-points[..., 1], points[..., 0]], -1) + (side - 1) / 2
    inside = _hexagon(n).to(images.device)
    return torch.where(inside, resample(images, index, border="zeros", interpolation=interpolation), 0.0)


@checked
def from_hexagonal(f: Tensor, size: Positive, *, interpolation: Interpolation = "cubic") -> Tensor:
    """Resample fields on the hexagonal lattice on square pixels, for example to look at them.

    The image shows the largest disk in the hexagon, up to the middle of its sides; its corners lie outside.

    Args:
        f: ``(..., n, n)``, float, n odd.
        size: the height and width of the images.
        interpolation: ``linear`` or ``cubic``.

    >>> image = from_hexagonal(to_hexagonal(torch.ones(9, 9)), 9)
    >>> bool((image[3:6, 3:6] - 1).abs().max() < 1e-3)
    True
    """
    n = _require_odd("from_hexagonal", _require_square("from_hexagonal", f))
    axis = torch.linspace(-1, 1, size, dtype=torch.float64) if size > 1 else torch.zeros(1, dtype=torch.float64)
    x, y = torch.meshgrid(axis, -axis, indexing="xy")
    radius = (n - 1) / 2 * _INRADIUS
    basis = Grid2d("C6", lattice="hexagonal").lattice_basis
    point = torch.linalg.solve(basis, radius * torch.stack([x, y], -1)[..., None])[..., 0]
    index = torch.stack([-point[..., 1], point[..., 0]], -1) + (n - 1) / 2
    return resample(f, index, border="zeros", interpolation=interpolation)


def _samples(n: int) -> Tensor:
    """The points of an array on the hexagonal lattice, ``(n, n, 2)``, with the origin at the center."""
    plane = Grid2d("C6", lattice="hexagonal")
    return plane.coordinates((n, n)) @ plane.lattice_basis.T


def _hexagon(n: int) -> Tensor:
    line = torch.arange(n)
    return (line - line[:, None]).abs() <= (n - 1) // 2


def _require_square(caller: str, images: Tensor) -> int:
    if images.ndim < 2 or images.shape[-2] != images.shape[-1] or not images.is_floating_point():
        raise InputError(
            caller,
            expected="square images (..., n, n) of floating-point numbers",
            got=f"{images.dtype} {tuple(images.shape)}",
        )
    return images.shape[-1]


def _require_odd(caller: str, n: int) -> int:
    if n % 2 == 0:
        raise InputError(caller, expected="an odd size, with a sample at the center", got=str(n))
    return n
