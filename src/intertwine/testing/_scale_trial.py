"""Trials of layers on images and fields of position and scale, under translations and scalings.

Scalings are tested on smooth fields, away from what an array cannot hold: the border of the plane, and both ends of the
axis of scales, where a scaling brings in scales that were never sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from ..errors import InputError
from ..nn import Layer, ScaleConv2d
from ..relaxed import TRANSLATION
from ..spaces import FieldType, ScalePlane, ScaleSpace, Zoom, Zooms
from ._trial import Move, Trial, everywhere, moving

_SIZES = (49, 48, 65, 64, 97, 96, 129, 128)
_WIDTH = 3  # of the smooth fields, in samples
_RANDOM = 3
_EDGE = 2  # scales at either end that cubic interpolation makes from scales that were not sampled
_INSIDE = 0.5  # the part of the radius that counts


def scale_trial(layer: Layer, space: Zooms, size: int | None, noise: torch.Generator) -> Trial:
    """One translation, and scalings by up to one step of the scales: a whole step either way, and random ones."""
    scales = _scale_space(layer)
    step = log(scales.base if scales is not None else 2**0.5)
    sizes = _sizes(layer, space, size)
    f = torch.randn(2, layer.in_type.dim, *sizes, dtype=torch.float64, generator=noise)
    exponents = [1.0, -1.0, *(2 * torch.rand(_RANDOM, dtype=torch.float64, generator=noise) - 1).tolist()]
    shifts = torch.randint(-2, 3, (len(exponents), 2), generator=noise)
    zooms = [space.zoom(exp(step * e), t) for e, t in zip(exponents, shifts, strict=True)]
    stride = _step_and_margin(layer, sizes)[0] or 1
    return Trial(
        sizes,
        f,
        _translations(layer, space, sizes),
        _smooth(layer.in_type, sizes, noise),
        [_zoomed(layer, zoom, stride) for zoom in zooms],
        _away_from_the_ends(layer),
        tuple(part.draw(f, noise) for part in layer.companions),
    )


def _translations(layer: Layer, space: Zooms, sizes: tuple[int, ...]) -> list[Move]:
    """A translation of a periodic field, or of what lies inside the border."""
    step, margin = _step_and_margin(layer, sizes)
    if step is None:
        return []
    there, before = (1, -2), (step, -2 * step)

    def inside_the_border(f: Tensor) -> Tensor:
        return f[..., margin : f.shape[-2] - margin, margin : f.shape[-1] - margin]

    return [
        Move(
            f"the translation by {before}",
            TRANSLATION,
            lambda f: f.roll(before, (-2, -1)),
            lambda f: f.roll(there, (-2, -1)) if layer.keeps_space else f,
            inside_the_border if margin and layer.keeps_space else everywhere,
            moving(layer, space.zoom(1.0, before)),
        )
    ]


def _step_and_margin(layer: Layer, sizes: tuple[int, ...]) -> tuple[int | None, int]:
    """A shift of the input that shifts the output by one sample, and the part of the border that does not count."""
    step = layer.shift_step(sizes)
    if step is not None:
        return step, 0
    inside = layer.interior(sizes)
    return (None, 0) if inside is None else (inside[0], inside[1] + 2)


def _zoomed(layer: Layer, zoom: Zoom, stride: int) -> Move:
    """A scaling and a translation of the input, and the same of the output, whose samples are ``stride`` apart."""
    after = Zoom(zoom.translation / stride, zoom.factor)
    return Move(
        f"the scaling by {zoom.factor:.3f} and translation by {zoom.translation.tolist()}",
        "scalings",
        lambda f: layer.in_type.transform(f, zoom),
        lambda f: layer.out_type.transform(f, after) if layer.keeps_space else f,
        on_companions=moving(layer, zoom),
    )


def _away_from_the_ends(layer: Layer) -> Callable[[Tensor], Tensor]:
    space = layer.out_type.space

    def inside(f: Tensor) -> Tensor:
        if not layer.keeps_space:
            return f
        f = f[..., _radius(f.shape[-2:]) < _INSIDE]
        if isinstance(space, ScaleSpace):
            f = f[..., _EDGE : space.count - _EDGE - _incomplete(layer), :]
        return f

    return inside


def _incomplete(layer: Layer) -> int:
    """How many of the largest scales lack some of the scales that they should see."""
    return sum(part.reach - 1 for part in layer.modules() if isinstance(part, ScaleConv2d))


def _scale_space(layer: Layer) -> ScaleSpace | None:
    """The scales of a layer; an error if too few of them are away from the ends."""
    spaces = [part.space for part in (layer.in_type, layer.out_type) if isinstance(part.space, ScaleSpace)]
    needed = 2 * _EDGE + 1 + _incomplete(layer)
    if spaces and spaces[-1].count < needed:
        raise InputError(
            "assert_equivariant",
            expected=f"a layer with {needed} scales or more: {needed - 1} at the ends do not count",
            got=f"{spaces[-1]}",
            fix="Test the same layer with more scales; its weights do not depend on their number.",
        )
    return spaces[-1] if spaces else None


def _sizes(layer: Layer, space: Zooms, size: int | None) -> tuple[int, ...]:
    """Sizes that the layer accepts, with an output that the border does not fill."""
    before = (space.count,) if isinstance(space, ScaleSpace) else ()
    if size is not None:
        return *before, size, size
    for n in _SIZES:
        sizes = *before, n, n
        try:
            after = layer.output_sizes(sizes)
        except InputError:
            continue
        if not layer.keeps_space or min(after[-2:]) > 2 * _step_and_margin(layer, sizes)[1]:
            return sizes
    raise InputError(
        "assert_equivariant",
        expected=f"a layer that accepts equal sizes of up to {max(_SIZES)} samples and has an interior there",
        got=type(layer).__name__,
        fix="Pass a size that it accepts: assert_equivariant(layer, size=...).",
    )


def _smooth(field: FieldType, sizes: tuple[int, ...], noise: torch.Generator) -> Tensor:
    """Smoothed noise that vanishes at the border, and at both ends of the axis of scales."""
    f = torch.randn(2, field.dim, *sizes, dtype=torch.float64, generator=noise)
    f = _blurred(_blurred(f, -1, _WIDTH), -2, _WIDTH)
    f = f * torch.exp(-((_radius(sizes[-2:]) / _INSIDE) ** 8))
    if isinstance(field.space, ScalePlane):
        return f
    k = torch.arange(sizes[0], dtype=torch.float64) - (sizes[0] - 1) / 2
    return _blurred(f, -3, 1.0) * torch.exp(-((k / (sizes[0] / 3)) ** 4))[:, None, None]


def _radius(sizes: Sequence[int]) -> Tensor:
    """The distance from the center, scaled to 1 at the middle of the edges."""
    axes = [(torch.arange(n, dtype=torch.float64) - (n - 1) / 2) / (n / 2) for n in sizes]
    return torch.stack(torch.meshgrid(*axes, indexing="ij")).norm(dim=0)


def _blurred(f: Tensor, axis: int, width: float) -> Tensor:
    reach = round(3 * width)
    bell = torch.exp(-(torch.arange(-reach, reach + 1, dtype=torch.float64) / width).square() / 2)
    bell = (bell / bell.square().sum().sqrt()).view(1, 1, -1)
    lines = f.movedim(axis, -1)
    return conv1d(lines.reshape(-1, 1, lines.shape[-1]), bell, padding=reach).view(lines.shape).movedim(-1, axis)
