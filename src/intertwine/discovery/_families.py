"""The built-in families of transformations; functions of the module, so that they can be sent to other processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations

import torch
from torch import Tensor

from ..measure import Transformation
from ..spaces import resample

_DRAWN = 16  # elements of a large family


def _shifted(x: Tensor, by: tuple[int, ...]) -> Tensor:
    return x.roll(by, tuple(range(2, 2 + len(by))))


def _zoomed(x: Tensor, factor: float) -> Tensor:
    centers = [(n - 1) / 2 for n in x.shape[2:]]
    axes = [(torch.arange(n, dtype=x.dtype) - c) / factor + c for n, c in zip(x.shape[2:], centers, strict=True)]
    index = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
    return resample(x, index, border="mirror", interpolation="linear")


def _permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    return x[:, list(order)]


def _recolored(x: Tensor, angle: float) -> Tensor:
    """Rotate colors about the gray axis; shades of gray stay as they are."""
    k = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], dtype=x.dtype) / math.sqrt(3)
    turn = torch.eye(3, dtype=x.dtype) + math.sin(angle) * k + (1 - math.cos(angle)) * (k @ k)
    return torch.einsum("ij,njhw->nihw", turn, x)


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor


def _negated(x: Tensor) -> Tensor:
    return 1 - x


def _shifts(shape: tuple[int, ...]) -> Sequence[Transformation]:
    generator = torch.Generator().manual_seed(0)
    reach = [max(1, n // 4) for n in shape[1:]]
    drawn: list[tuple[int, ...]] = []
    while len(drawn) < _DRAWN:
        by = tuple(int(torch.randint(-r, r + 1, (), generator=generator)) for r in reach)
        drawn += [by] if any(by) else []
    return [
        Transformation(
            f"shift by {by}", partial(_shifted, by=by), partial(_shifted, by=tuple(-b for b in by)), exact=True
        )
        for by in drawn
    ]


def _zooms(shape: tuple[int, ...]) -> Sequence[Transformation]:
    factors = [1.25 ** (k / 4) for k in (-4, -3, -2, 2, 3, 4)]
    return [
        Transformation(f"zoom by {f:.2f}", partial(_zoomed, factor=f), partial(_zoomed, factor=1 / f)) for f in factors
    ]


def _colors(shape: tuple[int, ...]) -> Sequence[Transformation]:
    orders = list(permutations(range(shape[0])))[1:]
    return [
        Transformation(
            f"channels {order}",
            partial(_permuted, order=order),
            partial(_permuted, order=tuple(sorted(range(len(order)), key=order.__getitem__))),
            exact=True,
        )
        for order in orders
    ]


def _hues(shape: tuple[int, ...]) -> Sequence[Transformation]:
    angles = [2 * math.pi * k / 8 for k in range(1, 8)]
    return [
        Transformation(
            f"hue by {math.degrees(a):.0f}°", partial(_recolored, angle=a), partial(_recolored, angle=-a), exact=True
        )
        for a in angles
    ]


def _brightnesses(shape: tuple[int, ...]) -> Sequence[Transformation]:
    factors = [1.5 ** (k / 4) for k in (-4, -3, -2, -1, 1, 2, 3, 4)]
    return [
        Transformation(f"brightness × {f:.2f}", partial(_scaled, factor=f), partial(_scaled, factor=1 / f), exact=True)
        for f in factors
    ]


def _negatives(shape: tuple[int, ...]) -> Sequence[Transformation]:
    return [Transformation("negative", _negated, _negated, exact=True)]


NEEDS: dict[str, tuple[str, Callable[[tuple[int, ...]], bool]]] = {
    "images": ("images (channels, height, width)", lambda shape: len(shape) == 3),
    "channels": ("2 to 4 channels", lambda shape: 2 <= shape[0] <= 4),
    "colors": ("images with 3 channels", lambda shape: len(shape) == 3 and shape[0] == 3),
    "anything": ("samples", lambda shape: True),
}

FAMILIES: dict[str, tuple[str, str, Callable[[tuple[int, ...]], Sequence[Transformation]]]] = {
    "shifts": ("circular shifts", "images", _shifts),
    "scale": ("zooms by up to a quarter", "images", _zooms),
    "colors": ("permutations of the channels", "channels", _colors),
    "hue": ("other hues", "colors", _hues),
    "brightness": ("brighter or darker", "anything", _brightnesses),
    "negative": ("black and white exchanged", "anything", _negatives),
}
"""Name → what it does, which samples it needs, and its transformations."""
