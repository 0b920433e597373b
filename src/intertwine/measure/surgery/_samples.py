"""Samples of feature maps at random places: what a layer reads there, and what it should compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

_FEWEST = 12
_PER_FEATURE = 10


@dataclass(frozen=True)
class Places:
    """Places in a map: for each image a number of positions, counted along all axes but the channels.

    Attributes:
        axis: the axis of the channels.
        sizes: the sizes of the axes that are positions.
        index: (images, places), the places as flat indices.
    """

    axis: int
    sizes: tuple[int, ...]
    index: Tensor

    @staticmethod
    def draw(value: Tensor, axis: int, features: int, images: int, generator: torch.Generator) -> Places:
        """Random places: at least a dozen per image, and enough for ten samples per feature; or all there are."""
        sizes = tuple(n for k, n in enumerate(value.shape) if k not in (0, axis))
        positions = int(torch.Size(sizes).numel())
        per_image = max(_FEWEST, -(-_PER_FEATURE * features // images))
        if per_image >= positions:
            index = torch.arange(positions).expand(len(value), -1)
        else:
            index = torch.rand(len(value), positions, generator=generator).topk(per_image, 1).indices
        return Places(axis, sizes, index.to(value.device))


def picked(value: Tensor, places: Places) -> Tensor:
    """The channels at the places, as (samples, channels)."""
    flat = value.movedim(places.axis, -1).reshape(len(value), -1, value.shape[places.axis])
    return flat.gather(1, places.index[:, :, None].expand(-1, -1, flat.shape[2])).flatten(0, 1)


def filter_samples(kind: str, node: fx.Node, x: Tensor, weight: Tensor, places: Places) -> Tensor:
    """The features that a layer reads at the places of its output, as (samples, all features)."""
    if kind == "conv2d":
        return _patches(node, x, weight, places)
    return picked(x, places)


def _patches(node: fx.Node, x: Tensor, weight: Tensor, places: Places) -> Tensor:
    args = [*node.args[3:], *[None] * 4]
    stride, dilation = _pair(args[0], 1), _pair(args[2], 1)
    height, width = weight.shape[2:]
    if args[1] == "same":
        padding = (dilation[0] * (height - 1) // 2, dilation[1] * (width - 1) // 2)
    else:
        padding = (0, 0) if args[1] == "valid" else _pair(args[1], 0)
    x = torch.nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0])).permute(0, 2, 3, 1)
    row, column = places.index // places.sizes[1], places.index % places.sizes[1]
    rows = row[:, :, None] * stride[0] + torch.arange(height, device=x.device) * dilation[0]
    columns = column[:, :, None] * stride[1] + torch.arange(width, device=x.device) * dilation[1]
    image = torch.arange(len(x), device=x.device)[:, None, None, None]
    patches = x[image, rows[:, :, :, None], columns[:, :, None]]  # (images, places, height, width, channels)
    return patches.permute(0, 1, 4, 2, 3).flatten(2).flatten(0, 1)


def _pair(value: Any, default: int) -> tuple[int, int]:
    if value is None or value == []:
        return default, default
    return (value, value) if isinstance(value, int) else (value[0], value[-1])
