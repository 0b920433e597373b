"""White shapes on black, rendered from their factors: the grid of dSprites, at any size, without its file.

Shapes, sizes and orientations follow the description of dSprites. The outlines are our own, so single pixels differ
from the original images. At 64 x 64, one step in position is one pixel, no shape touches the border, and the mean over
all images is 0.042 (0.043 in the original).
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import torch
from torch import Tensor

from ..._checked import checked
from ._factors import FactorGrid
from ._source import ImageSource

SHAPES = ("square", "ellipse", "heart")

DSPRITES = FactorGrid(
    ("shape", "scale", "orientation", "x", "y"),
    (
        (1.0, 2.0, 3.0),
        tuple(0.5 + 0.1 * k for k in range(6)),
        tuple(2 * pi * k / 39 for k in range(40)),  # the last orientation repeats the first, as in the original
        tuple(k / 31 for k in range(32)),
        tuple(k / 31 for k in range(32)),
    ),
)
"""3 shapes, 6 scales, 40 orientations, 32 x 32 positions: 737280 images in the order of the original file."""

# All lengths are in units of the image size. Centers move over 31/64, symmetrically about the middle.
_FIRST_CENTER, _TRAVEL = 16.5 / 64, 31 / 64
_SQUARE_HALF = 0.14
_ELLIPSE_HALVES = 0.19, 0.11
_HEART_UNIT = 0.139
_REACH = 0.2  # the distance of the farthest point of any shape from its center
# If an outline runs exactly through a pixel's center, the pixel must not depend on rounding errors.
_TIE = 1e-9
_SAMPLES = 4
_CHUNK = 256

_Contains = Callable[[Tensor, Tensor], Tensor]


class SpriteImages(ImageSource):
    """Images of a grid of sprites, rendered when read.

    A pixel is on if its center is inside the shape. With ``antialias``, its value is the number of 4 x 4 sample points
    inside. ``x`` moves the shape to the right, ``y`` moves it down, and the orientation rotates it counterclockwise.

    Args:
        grid: five factors as in :data:`DSPRITES`: shape (1 square, 2 ellipse, 3 heart), scale, orientation in radians,
            and position from 0 to 1.
        size: height and width.
        antialias: soft instead of binary outlines.

    >>> source = SpriteImages(DSPRITES, (16, 16))
    >>> image = source.read(DSPRITES.index(torch.tensor([[0, 5, 0, 16, 16]])))[0, 0]
    >>> image.dtype, int(image.sum())
    (torch.uint8, 16)
    """

    @checked
    def __init__(self, grid: FactorGrid, size: tuple[int, int], *, antialias: bool = False) -> None:
        self._grid, self._size, self._antialias = grid, size, antialias

    @property
    def shape(self) -> tuple[int, int, int]:
        """One channel, height and width."""
        return 1, *self._size

    @property
    def white(self) -> float:
        """1, or the number of sample points per pixel if anti-aliased."""
        return float(_SAMPLES**2) if self._antialias else 1.0

    @property
    def in_memory(self) -> bool:
        """False: reading renders images."""
        return False

    def __len__(self) -> int:
        return len(self._grid)

    def resized(self, size: tuple[int, int]) -> ImageSource:
        """The same sprites, rendered at another size."""
        return SpriteImages(self._grid, size, antialias=self._antialias)

    def read(self, positions: Tensor) -> Tensor:
        """Raw images ``(n, 1, height, width)``, uint8."""
        factors = self._grid.value(self._grid.classes(positions))
        parts = [self._render(part) for part in factors.split(_CHUNK)]
        return torch.cat(parts) if parts else torch.zeros((0, *self.shape), dtype=torch.uint8)

    def _render(self, factors: Tensor) -> Tensor:
        images = torch.zeros((len(factors), *self._size), dtype=torch.uint8)
        for number, contains in enumerate((_in_square, _in_ellipse, _in_heart), start=1):
            which = (factors[:, 0] == number).nonzero().flatten()
            if len(which):
                self._draw(images, which, factors[which], contains)
        return images[:, None]

    def _draw(self, images: Tensor, which: Tensor, factors: Tensor, contains: _Contains) -> None:
        """Draw one kind of shape into these images, testing only the pixels it may reach."""
        height, width = self._size
        samples = _SAMPLES if self._antialias else 1
        scale, angle, x, y = (factor[:, None, None] for factor in factors[:, 1:].unbind(1))
        reach = _REACH * float(scale.max())
        center_x, center_y = (_FIRST_CENTER + _TRAVEL * position for position in (x, y))
        columns, rows = _window(center_x, reach, width), _window(center_y, reach, height)
        right = (_points(columns, width, samples)[:, None, :] - center_x) / scale
        up = (center_y - _points(rows, height, samples)[:, :, None]) / scale
        cos, sin = angle.cos(), angle.sin()
        # Convert to the frame of the shape, which is rotated by the angle.
        inside = contains(cos * right + sin * up, cos * up - sin * right)
        count = inside.reshape(len(which), rows.shape[1], samples, columns.shape[1], samples).sum((2, 4))
        images[which[:, None, None], rows[:, :, None], columns[:, None, :]] = count.to(torch.uint8)


def _window(center: Tensor, reach: float, length: int) -> Tensor:
    """The indices ``(n, window)`` of the pixels along one axis that a shape at this center may touch."""
    wide = min(length, int(2 * reach * length) + 3)
    first = ((center.flatten() - reach) * length).floor().long() - 1
    return first.clamp(0, length - wide)[:, None] + torch.arange(wide)


def _points(pixels: Tensor, length: int, samples: int) -> Tensor:
    """The coordinates ``(n, window * samples)`` of the sample points in these pixels."""
    within = (torch.arange(samples, dtype=torch.float64) + 0.5) / samples
    return ((pixels[:, :, None] + within) / length).flatten(1)


def _in_square(u: Tensor, v: Tensor) -> Tensor:
    return torch.maximum(u.abs(), v.abs()) <= _SQUARE_HALF - _TIE


def _in_ellipse(u: Tensor, v: Tensor) -> Tensor:
    a, b = _ELLIPSE_HALVES
    return (u / a).square() + (v / b).square() <= 1 - _TIE


def _in_heart(u: Tensor, v: Tensor) -> Tensor:
    # The sextic (u² + v² - 1)³ = u² v³, tip down.
    u, v = u.square() / _HEART_UNIT**2, v / _HEART_UNIT
    w = u + v.square() - 1
    return w * w * w - u * v * v * v <= -_TIE
