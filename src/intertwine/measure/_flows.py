"""Smooth motions of images that forward-mode differentiation can follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._checked import checked
from .._registry import Registry
from ..errors import InputError
from ..spaces import Interpolation, resample
from ._transformation import Transformation

Flow = Callable[[Tensor, Tensor], Tensor]
"""Maps images and a scalar time t to the images at that time; t = 0 is the identity."""

FLOWS = Registry[Flow]("flow")
"""One-parameter groups of image maps by name: translations in units of the image's width, angles in radians, …"""


def affine(x: Tensor, matrix: Tensor, shift: Tensor, *, interpolation: Interpolation = "cubic") -> Tensor:
    """Sample the image at A p + b for each pixel p = (y, x), in coordinates that run from −1 to 1 on the longer axis.

    Both axes have the same unit, so rotations stay rotations on images that are not square.
    """
    height, width = x.shape[-2:]
    half = max(height - 1, width - 1, 1) / 2
    y, z = (torch.arange(n, dtype=matrix.dtype, device=x.device) - (n - 1) / 2 for n in (height, width))
    y, z = y[:, None] / half, z[None] / half
    rows = matrix[0, 0] * y + matrix[0, 1] * z + shift[0]
    columns = matrix[1, 0] * y + matrix[1, 1] * z + shift[1]
    index = torch.stack([half * rows + (height - 1) / 2, half * columns + (width - 1) / 2], -1)
    return resample(x, index, border="mirror", interpolation=interpolation)


@dataclass(frozen=True)
class AffineFlow:
    """Coordinates moved by exp(t M) and by t b; one of M and b is zero."""

    matrix: tuple[tuple[float, float], tuple[float, float]] = ((0, 0), (0, 0))
    shift: tuple[float, float] = (0, 0)
    interpolation: Interpolation = "cubic"

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        m, b = (torch.tensor(part, dtype=x.dtype, device=x.device) for part in (self.matrix, self.shift))
        return affine(x, torch.linalg.matrix_exp(t * m), t * b, interpolation=self.interpolation)


def using(flow: Flow, interpolation: Interpolation) -> Flow:
    """The same flow with another interpolation; flows that move no pixels are returned unchanged."""
    return replace(flow, interpolation=interpolation) if isinstance(flow, AffineFlow) else flow


# To move the image by +t, sample it at coordinates moved by −t.
FLOWS.add("translation_x", AffineFlow(shift=(0, -2)))
FLOWS.add("translation_y", AffineFlow(shift=(-2, 0)))
FLOWS.add("rotation", AffineFlow(((0, 1), (-1, 0))))
FLOWS.add("scale", AffineFlow(((-1, 0), (0, -1))))
FLOWS.add("shear_x", AffineFlow(((0, 0), (-1, 0))))
FLOWS.add("shear_y", AffineFlow(((0, -1), (0, 0))))


def _hue(x: Tensor, t: Tensor) -> Tensor:
    """Rotate colors about the gray axis by the angle t."""
    if x.shape[1] != 3:
        raise InputError("hue", expected="images with 3 colors", got=f"{x.shape[1]} channels")
    axis = x.new_tensor([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
    gray, identity = x.new_full((3, 3), 1 / 3), torch.eye(3, dtype=x.dtype, device=x.device)
    matrix = gray + torch.cos(t) * (identity - gray) + torch.sin(t) * axis
    return torch.einsum("ij,njhw->nihw", matrix, x)


def _brightness(x: Tensor, t: Tensor) -> Tensor:
    """x eᵗ."""
    return x * torch.exp(t)


FLOWS.add("hue", _hue)
FLOWS.add("brightness", _brightness)


@checked
def flow_step(name: str, t: float) -> Transformation:
    """The flow with this name at time t, as one transformation.

    The unit of t is the width of the image for translations, radians for rotation and hue, the logarithm of the factor
    for scale and brightness, and the slope for shears.

    >>> quarter = flow_step("rotation", math.pi / 2)
    >>> image = torch.rand(1, 1, 5, 5, dtype=torch.float64)
    >>> torch.allclose(quarter(image), image.rot90(1, (2, 3)))
    True
    """
    flow = FLOWS[name]

    def motion(time: float) -> Callable[[Tensor], Tensor]:
        return lambda x: flow(x, torch.tensor(time, dtype=x.dtype, device=x.device))

    return Transformation(f"{name} {t:.3g}", motion(t), motion(-t))
