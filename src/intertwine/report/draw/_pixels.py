"""Small images as text, for the scripts of a page."""

from __future__ import annotations

import base64

import torch
from torch import Tensor


def signed_pixels(values: Tensor, top: float) -> str:
    """Numbers in [−top, top] as base64, one signed byte per number, row by row; 127 stands for ``top``.

    >>> list(base64.b64decode(signed_pixels(torch.tensor([0.0, 0.5, 1.0]), 0.5)))
    [0, 127, 127]
    """
    scaled = (values.detach().double() * (127 / (top or 1.0))).round().clamp(-127, 127)
    return base64.b64encode(scaled.to(torch.int8).contiguous().numpy().tobytes()).decode()


def gray_pixels(values: Tensor) -> str:
    """Numbers in [0, 1] in the same format; 127 stands for 1."""
    return signed_pixels(values.detach().clamp(0, 1), 1.0)
