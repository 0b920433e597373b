"""The relax tab: the filters that a relaxed layer applies across the image, for each position of its dial."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ...errors import InputError
from ...relaxed import TRANSLATION, LowRankLocalConv2d, RelaxedLayer, SoftConv2d, to_equivariant_
from ...testing import equivariance_errors
from ..draw._pixels import gray_pixels, signed_pixels
from ._pictures import DEFAULT, digit_picture

IMAGE = 33
KERNEL = 11
GRID = 5
LARGEST_SOFTNESS = 3.0
LARGEST_RANK = 6
_CALLER = "relax"


def soft_answer(softness: float, *, seed: int = 0, digit: int = DEFAULT) -> dict[str, Any]:
    """The filters of a seeded :class:`SoftConv2d` with this ω': strict at 0, freer as it grows.

    Also what it makes of a picture of this digit, beside the same layer made strict.

    >>> soft_answer(0.0)["error"] < 1e-5 < soft_answer(1.0)["error"]
    True
    """
    if not 0 <= softness <= LARGEST_SOFTNESS:
        raise InputError(_CALLER, expected=f"a softness from 0 to {LARGEST_SOFTNESS:g}", got=str(softness))
    with _seeded(seed):
        layer = SoftConv2d(1, 1, KERNEL, softness=softness, bias=False)
    return _answer(layer, digit)


def low_rank_answer(rank: int, strength: float, *, seed: int = 0, digit: int = DEFAULT) -> dict[str, Any]:
    """The filters of a :class:`LowRankLocalConv2d`: ``rank`` banks, mixed by waves over the image.

    The combining logits are smooth waves times ``strength``; 0 mixes all banks equally, as in a new layer. The banks
    are gratings with different directions, which are easier to tell apart than noise.

    >>> [low_rank_answer(rank, 2.0)["error"] > 1e-5 for rank in (1, 3)]
    [False, True]
    """
    if not 1 <= rank <= LARGEST_RANK or not 0 <= strength <= 10:
        raise InputError(
            _CALLER,
            expected=f"a rank from 1 to {LARGEST_RANK} and a strength from 0 to 10",
            got=f"{rank} and {strength}",
        )
    with _seeded(seed):
        layer = LowRankLocalConv2d(
            1, 1, KERNEL, rank=rank, input_size=IMAGE, padding="same", bias=False, spatial_bias=False
        )
        waves, phases = torch.rand(2, rank, 2), torch.rand(rank)
    place = torch.linspace(-1, 1, IMAGE)
    with torch.no_grad():
        layer.weight.copy_(_gratings(rank, phases)[:, None, None])
        for table, wave in zip((layer.combining.rows, layer.combining.columns), waves, strict=True):
            table.copy_(strength * torch.sin(math.pi * (1 + wave[:, :1]) * place + 2 * math.pi * wave[:, 1:]))
    answer = _answer(layer, digit)
    maps = layer.combining_weights().detach()
    answer["maps"] = [signed_pixels(each, 1.0) for each in maps]
    answer["banks"] = [signed_pixels(bank[0, 0], answer["largest"]) for bank in layer.weight]
    return answer


def _gratings(count: int, phases: Tensor) -> Tensor:
    line = torch.linspace(-1, 1, KERNEL)
    y, x = line[:, None], line[None, :]
    angles = math.pi * torch.arange(count)[:, None, None] / count
    waves = torch.cos(5.0 * (x * angles.cos() + y * angles.sin()) + math.pi * phases[:, None, None])
    return waves * torch.exp(-2.0 * (x**2 + y**2))


def _answer(layer: RelaxedLayer, digit: int) -> dict[str, Any]:
    layer.requires_grad_(False)  # so that the filters are computed once, and not again for each image
    filters = filters_at_places(layer)
    mean = filters.mean(0)
    top = float(filters.abs().max())
    return {
        "image": IMAGE,
        "kernel": KERNEL,
        "grid": GRID,
        "filters": [signed_pixels(each, top) for each in filters],
        "largest": top,
        "relaxation": dict(layer.relaxation()),
        "error": equivariance_errors(layer, size=IMAGE)[TRANSLATION],
        "spread": float((filters - mean).norm() / filters.norm().clamp_min(1e-30)),
        **_on_picture(layer, digit),
    }


@torch.no_grad()
def _on_picture(layer: RelaxedLayer, digit: int) -> dict[str, Any]:
    """What the layer makes of a picture, and what the nearest strict layer does."""
    picture = _large(digit_picture(digit))
    strict = deepcopy(layer)
    to_equivariant_(strict)
    outputs = {"relaxed": layer(picture)[0, 0], "strict": strict(picture)[0, 0]}
    outputs["difference"] = outputs["relaxed"] - outputs["strict"]
    top = float(torch.stack(list(outputs.values())).abs().max())
    return {
        "picture": gray_pixels(picture[0, 0]),
        "outputs": {name: signed_pixels(values, top) for name, values in outputs.items()},
        "largest_output": top,
        "apart": float(outputs["difference"].norm() / outputs["strict"].norm().clamp_min(1e-30)),
    }


def _large(picture: Tensor) -> Tensor:
    """The picture at the size of the layer, ``(1, 1, IMAGE, IMAGE)``."""
    return interpolate(picture[None, None], size=IMAGE, mode="bilinear", align_corners=True)


def filters_at_places(layer: torch.nn.Module) -> Tensor:
    """The filters that a linear layer applies at a grid of positions: ``(positions, kernel, kernel)``, row by row.

    They are the gradients of the layer's output at each position with respect to the image. The positions are a 5 × 5
    grid whose windows lie inside the image.
    """
    half = KERNEL // 2
    line = torch.linspace(half, IMAGE - 1 - half, GRID).round().long().tolist()
    places = [(i, j) for i in line for j in line]
    x = torch.zeros(len(places), 1, IMAGE, IMAGE, requires_grad=True)
    y = layer(x)
    picked = torch.stack([y[n, 0, i, j] for n, (i, j) in enumerate(places)])
    (gradient,) = torch.autograd.grad(picked.sum(), x)
    return torch.stack(
        [gradient[n, 0, i - half : i + half + 1, j - half : j + half + 1] for n, (i, j) in enumerate(places)]
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the random numbers in this block, and restore them afterwards."""
    if not 0 <= seed < 2**31:
        raise InputError(_CALLER, expected="a seed from 0 to 2147483647", got=str(seed))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
