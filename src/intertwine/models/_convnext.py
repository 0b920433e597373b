"""ConvNeXt."""

from __future__ import annotations

from functools import partial
from typing import Literal

from .._checked import Positive, checked
from ..nn import Conv2d, ConvNeXtBlock, FitStride, GlobalPool, GroupPool, Layer, LayerNorm, Linear, Sequential
from ..spaces import FieldType, Grid2d
from ._width import GroupName, Match, matched, plane_of, regular, scalars

Size = Literal["tiny", "small", "base", "large"]

_SIZES = {
    "tiny": (96, (3, 3, 9, 3)),
    "small": (96, (3, 3, 27, 3)),
    "base": (128, (3, 3, 27, 3)),
    "large": (192, (3, 3, 27, 3)),
}
_EPS = 1e-6


@checked
def convnext(
    size: Size = "tiny",
    *,
    group: GroupName,
    channels: Positive = 3,
    classes: Positive = 10,
    patch: Positive = 4,
    match: Match = "cost",
    width: float | None = None,
) -> Sequential:
    """A ConvNeXt whose class scores do not change when the group moves the image, on images of any size.

    Four stages of :class:`~intertwine.nn.ConvNeXtBlock` between regular fields: depthwise 7 x 7 convolutions, layer
    norm, GELU, and a scale per field. There is no stochastic depth. See :func:`resnet`, also for the arguments not
    listed here.

    Args:
        size: ``tiny``, ``small``, ``base`` or ``large``.
        group: a group by name, as a group, or as a plane; None is the plain network, the same as torchvision's.
        channels: the channels of the image.
        classes: the number of classes.
        patch: the size and the stride of the first convolution; 1 or 2 for small images. Groups such as C8, which do
            not map the pixel grid to itself, need kernels of odd size: patches of even size then overlap.
        match: what the width is chosen to match, ``weights`` or ``cost``.
        width: the number of regular fields after the stem, instead of a match; 96 in the plain tiny network. The later
            stages have 2, 4 and 8 times as many, rounded.

    Shapes: ``(batch, channels, height, width)`` to ``(batch, classes)``; height and width are at least 8 times the
    patch, and any number above.

    References:
        Liu, Mao, Wu, Feichtenhofer, Darrell & Xie, "A ConvNet for the 2020s", CVPR 2022.

    >>> import torch
    >>> net = convnext("tiny", group="D4", channels=1, patch=2, width=1).eval()
    >>> x = torch.rand(1, 1, 29, 29)
    >>> torch.allclose(net(x), net(x.rot90(1, (-2, -1)).flip(-1)), atol=1e-4)
    True
    """
    plain_width, blocks = _SIZES[size]
    build = partial(_convnext, blocks=blocks, channels=channels, classes=classes, patch=patch)
    plane = plane_of("convnext", group)
    return matched("convnext", build, plane, plain_width, channels=channels, width=width, match=match)


def _convnext(
    plane: Grid2d, width: float, *, blocks: tuple[int, ...], channels: int, classes: int, patch: int
) -> Sequential:
    x = scalars(plane, channels)
    parts: list[Layer] = []
    for number, count in enumerate(blocks):
        y = regular(plane, width * 2**number)
        patches = _patches(x, y, 2 if number else patch)
        norm = LayerNorm(x if number else y, eps=_EPS)
        scaled = [norm, *patches] if number else [*patches, norm]
        parts.append(Sequential(*scaled, *(ConvNeXtBlock(y) for _ in range(count))))
        x = y
    pooled = GroupPool(x)
    values = pooled.out_type
    head = LayerNorm(values, eps=_EPS), Linear(values, scalars(plane, classes))
    return Sequential(*parts, pooled, GlobalPool(values), *head)


def _patches(x: FieldType, y: FieldType, size: int) -> list[Layer]:
    """Convolutions of patches side by side.

    Groups such as C8 need an odd kernel, because 2 x 2 taps cannot show more than quarter turns. Patches then overlap.
    """
    kernel = size if x.space.exact or size % 2 else size + 1  # type: ignore[attr-defined]
    padding = size // 2 if kernel > size else 0
    fit = FitStride(x, kernel, stride=size, padding=padding)
    return [fit, Conv2d(x, y, kernel, stride=size, padding=padding)]
