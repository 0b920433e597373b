"""Smooth motions of images by a resampler that knows forward-mode derivatives.

torch's ``grid_sample`` has none. This one is a sum of shifted pixels, each with a weight that is a polynomial of the
coordinates, so that every transform of functions passes through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from .._checked import checked
from .._registry import Registry
from ..errors import InputError
from ._transformation import Transformation

Interpolation = Literal["linear", "cubic", "quintic"]
Flow = Callable[[Tensor, Tensor], Tensor]
"""Images and a time t, a scalar, to the images at that time; t = 0 is the identity."""

FLOWS = Registry[Flow]("flow")
"""One-parameter groups of image maps by name: translations in units of the image's width, angles in radians, …"""


_REACH = {"linear": range(2), "cubic": range(-1, 3), "quintic": range(-2, 4)}


@checked
def resample(x: Tensor, rows: Tensor, columns: Tensor, *, interpolation: Interpolation = "cubic") -> Tensor:
    """x at the given coordinates, in pixels, ``(h', w')`` each; beyond the border the image is mirrored.

    Cubic is the interpolation of Keys (a = −½): it meets the pixels, is once differentiable, and its slope at a pixel
    is the central difference. Linear is the usual one, with a kink at each pixel. Quintic is the polynomial through six
    pixels, the most accurate of the three for smooth images.

    >>> x = torch.arange(4.0).view(1, 1, 1, 4)
    >>> resample(x, torch.zeros(1, 2), torch.tensor([[1.5, 2.0]]), interpolation="linear").flatten().tolist()
    [1.5, 2.0]
    """
    if x.ndim < 2 or rows.shape != columns.shape or rows.is_complex():
        raise InputError(
            "resample",
            expected="images (..., h, w), and coordinates of rows and columns of one shape",
            got=f"{tuple(x.shape)}, {tuple(rows.shape)} and {tuple(columns.shape)}",
        )
    first_row, first_column = rows.detach().floor(), columns.detach().floor()
    row_weights = _weights(rows - first_row, interpolation)
    column_weights = _weights(columns - first_column, interpolation)
    reach = _REACH[interpolation]
    out: Tensor | float = 0.0
    for a, of_row in zip(reach, row_weights, strict=True):
        at_row = _mirrored(first_row.long() + a, x.shape[-2])
        for b, of_column in zip(reach, column_weights, strict=True):
            at_column = _mirrored(first_column.long() + b, x.shape[-1])
            out = out + (of_row * of_column) * x[..., at_row, at_column]
    return torch.as_tensor(out)


def _weights(u: Tensor, interpolation: Interpolation) -> list[Tensor]:
    """The weights of the neighbors in reach, for a point u to the right of number 0."""
    if interpolation == "linear":
        return [1 - u, u]
    if interpolation == "quintic":
        nodes = _REACH[interpolation]
        return [math.prod(((u - j) / (k - j) for j in nodes if j != k), start=torch.ones_like(u)) for k in nodes]
    return [
        -0.5 * u + u**2 - 0.5 * u**3,
        1 - 2.5 * u**2 + 1.5 * u**3,
        0.5 * u + 2 * u**2 - 1.5 * u**3,
        -0.5 * u**2 + 0.5 * u**3,
    ]


def _mirrored(index: Tensor, size: int) -> Tensor:
    """Indices folded back at the border pixels: −1 is 1, size is size − 2."""
    if size == 1:
        return torch.zeros_like(index)
    period = 2 * (size - 1)
    index = index % period
    return torch.minimum(index, period - index)


def affine(x: Tensor, matrix: Tensor, shift: Tensor, *, interpolation: Interpolation = "cubic") -> Tensor:
    """The image at A p + b for each pixel p = (y, x), in a system whose longer axis runs from −1 to 1 over the pixels.

    Both axes have the same unit, so that turns of images that are not square are turns.
    """
    height, width = x.shape[-2:]
    half = max(height - 1, width - 1, 1) / 2
    y, z = (torch.arange(n, dtype=matrix.dtype, device=x.device) - (n - 1) / 2 for n in (height, width))
    y, z = y[:, None] / half, z[None] / half
    rows = matrix[0, 0] * y + matrix[0, 1] * z + shift[0]
    columns = matrix[1, 0] * y + matrix[1, 1] * z + shift[1]
    return resample(x, half * rows + (height - 1) / 2, half * columns + (width - 1) / 2, interpolation=interpolation)


@dataclass(frozen=True)
class AffineFlow:
    """Coordinates moved by exp(t M), and by t b: for these, one of M and b is zero."""

    matrix: tuple[tuple[float, float], tuple[float, float]] = ((0, 0), (0, 0))
    shift: tuple[float, float] = (0, 0)
    interpolation: Interpolation = "cubic"

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        m, b = (torch.tensor(part, dtype=x.dtype, device=x.device) for part in (self.matrix, self.shift))
        return affine(x, torch.linalg.matrix_exp(t * m), t * b, interpolation=self.interpolation)


def using(flow: Flow, interpolation: Interpolation) -> Flow:
    """The same flow by another interpolation; flows that move no pixels stay as they are."""
    return replace(flow, interpolation=interpolation) if isinstance(flow, AffineFlow) else flow


# The image moves by +t: its content is read at the coordinates moved by −t.
FLOWS.add("translation_x", AffineFlow(shift=(0, -2)))
FLOWS.add("translation_y", AffineFlow(shift=(-2, 0)))
FLOWS.add("rotation", AffineFlow(((0, 1), (-1, 0))))
FLOWS.add("scale", AffineFlow(((-1, 0), (0, -1))))
FLOWS.add("shear_x", AffineFlow(((0, 0), (-1, 0))))
FLOWS.add("shear_y", AffineFlow(((0, -1), (0, 0))))


def _hue(x: Tensor, t: Tensor) -> Tensor:
    """Colors turned about the gray axis by the angle t."""
    if x.shape[1] != 3:
        raise InputError("hue", expected="images of 3 colors", got=f"{x.shape[1]} channels", fix="Leave hue out.")
    axis = x.new_tensor([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    gray, whole = x.new_full((3, 3), 1 / 3), torch.eye(3, dtype=x.dtype, device=x.device)
    matrix = gray + torch.cos(t) * (whole - gray) + torch.sin(t) * axis
    return torch.einsum("ij,njhw->nihw", matrix, x)


def _brightness(x: Tensor, t: Tensor) -> Tensor:
    """x eᵗ."""
    return x * torch.exp(t)


FLOWS.add("hue", _hue)
FLOWS.add("brightness", _brightness)


@checked
def flow_step(name: str, t: float) -> Transformation:
    """The flow of this name after the time t, as one transformation.

    Times are: the width of the image for translations, radians for rotation and hue, the logarithm of the factor for
    scale and brightness, the slope for shears.

    >>> quarter = flow_step("rotation", math.pi / 2)
    >>> image = torch.rand(1, 1, 5, 5, dtype=torch.float64)
    >>> torch.allclose(quarter(image), image.rot90(1, (2, 3)))
    True
    """
    flow = FLOWS[name]

    def at(time: float) -> Callable[[Tensor], Tensor]:
        return lambda x: flow(x, torch.tensor(time, dtype=x.dtype, device=x.device))

    return Transformation(f"{name} {t:.3g}", at(t), at(-t))
