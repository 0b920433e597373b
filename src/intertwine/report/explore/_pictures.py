"""The pictures that the tabs turn and filter: embedded digits, or the reader's own, which is untrusted."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..._checked import describe
from ...data import load
from ...errors import InputError
from ...spaces import resample

DEFAULT = 2
"""The digit that a tab starts with."""

DIGIT = 14
MARGIN = 3
"""Black pixels on each side of a digit, so that no corner leaves the picture when it turns."""

SIDE = DIGIT + 2 * MARGIN
_CALLER = "picture"


@lru_cache(maxsize=2)
def digits(part: str) -> tuple[Tensor, Tensor]:
    """The embedded digits of a part of the dataset, ``(n, 1, SIDE, SIDE)`` in [0, 1], and their labels."""
    split = replace(getattr(load("digits", size=DIGIT), part), normalization=None)
    images, labels = split.as_tensors()
    return pad(images, (MARGIN,) * 4).clamp(0, 1), labels


def digit_picture(digit: int, number: int = 0) -> Tensor:
    """A digit that no network of the explorer was trained on, ``(SIDE, SIDE)``.

    >>> digit_picture(4).shape
    torch.Size([20, 20])
    """
    images, labels = digits("test")
    matching = images[labels == digit, 0]
    if not 0 <= number < len(matching):
        limit = f", and an image number below {len(matching)}" if len(matching) else ""
        raise InputError(
            _CALLER, expected=f"a digit from 0 to 9{limit}", got=f"number {describe(number)} of digit {describe(digit)}"
        )
    return matching[number]


def read_picture(value: Any) -> tuple[Tensor, int | None]:
    """The picture that a request means, and its class if that is known.

    Args:
        value: ``{"digit": 4, "number": 0}`` for an embedded digit, or ``{"pixels": rows}`` with SIDE rows of SIDE
            numbers from 0 (black) to 1 (white).
    """
    if not isinstance(value, dict) or set(value) not in ({"digit", "number"}, {"pixels"}):
        raise InputError(_CALLER, expected="a digit and a number, or pixels", got=describe(value))
    if "pixels" in value:
        return _own_picture(value["pixels"]), None
    digit, number = (whole(value[key], _CALLER, f"a whole number for {key}") for key in ("digit", "number"))
    return digit_picture(digit, number), digit


def _own_picture(rows: Any) -> Tensor:
    if not isinstance(rows, list) or len(rows) != SIDE or any(not isinstance(r, list) or len(r) != SIDE for r in rows):
        raise InputError(_CALLER, expected=f"{SIDE} rows of {SIDE} numbers", got=_shape(rows))
    for value in (value for row in rows for value in row):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise InputError(_CALLER, expected="numbers from 0 (black) to 1 (white)", got=describe(value))
    return torch.tensor(rows, dtype=torch.float32)


def _shape(rows: Any) -> str:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return describe(rows)
    lengths = sorted({len(row) for row in rows})
    return f"{len(rows)} rows of {' or '.join(map(str, lengths[:3])) or 'no'} numbers"


def whole(value: Any, caller: str, expected: str) -> int:
    """The whole number in an untrusted value."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(caller, expected=expected, got=describe(value))
    return value


def turned(images: Tensor, degrees: float) -> Tensor:
    """Square images ``(..., n, n)`` turned counterclockwise: exactly by quarter turns, the rest by interpolation.

    Outside is black.

    >>> x = torch.rand(3, 3)
    >>> bool((turned(x, 90) == x.rot90(1)).all())
    True
    """
    quarters = round(degrees / 90)
    images = images.rot90(quarters, (-2, -1))
    rest = math.radians(degrees - 90 * quarters)
    if rest == 0:
        return images
    n = images.shape[-1]
    line = torch.arange(n, dtype=images.dtype) - (n - 1) / 2
    row, column = torch.meshgrid(line, line, indexing="ij")
    cos, sin = math.cos(rest), math.sin(rest)
    # Where each pixel comes from. Rows count downward, so this is the inverse of a counterclockwise turn.
    source = torch.stack([cos * row + sin * column, cos * column - sin * row], -1) + (n - 1) / 2
    return resample(images, source, border="zeros", interpolation="linear")
