"""Wide residual networks for small images."""

from __future__ import annotations

from functools import partial

from .._checked import Positive, checked
from ..errors import InputError
from ..nn import BatchNorm, Conv2d, FitStride, Layer, ReLU, Residual, Sequential
from ..spaces import FieldType, Grid2d
from ._resnet import classifier
from ._width import GroupName, Match, matched, plane_of, regular, scalars


@checked
def wide_resnet(
    depth: int = 16,
    factor: Positive = 4,
    *,
    group: GroupName,
    channels: Positive = 3,
    classes: Positive = 10,
    match: Match = "cost",
    width: float | None = None,
) -> Sequential:
    """A wide ResNet for small images whose class scores do not change when the group moves the image, on any size.

    Three stages of blocks of batch norm, ReLU and 3 x 3 convolutions, twice, between regular fields. See
    :func:`resnet`, also for the arguments not listed here.

    Args:
        depth: the number of convolutions, 6 n + 4: 16, 28 and 40 are in the paper.
        factor: how many times wider the stages are than the stem, 2 times that in the second and 4 in the third.
        group: a group by name, as a group, or as a plane; None is the plain network.
        channels: the channels of the image.
        classes: the number of classes.
        match: what the width is chosen to match, ``weights`` or ``cost``.
        width: the number of regular fields after the stem, instead of a match; 16 in the plain network.

    Shapes: ``(batch, channels, height, width)``, any height and width, to ``(batch, classes)``.

    References:
        Zagoruyko & Komodakis, "Wide residual networks", BMVC 2016.

    >>> import torch
    >>> net = wide_resnet(16, 4, group="C4", channels=1, width=1).eval()
    >>> x = torch.rand(1, 1, 28, 28)
    >>> torch.allclose(net(x), net(x.rot90(1, (-2, -1))), atol=1e-4)
    True
    """
    if depth < 10 or depth % 6 != 4:
        raise InputError("wide_resnet", expected="a depth of 10, 16, 22, 28, 34, 40, ... (6 n + 4)", got=str(depth))
    build = partial(_wide_resnet, count=(depth - 4) // 6, factor=factor, channels=channels, classes=classes)
    plane = plane_of("wide_resnet", group)
    return matched("wide_resnet", build, plane, 16, channels=channels, width=width, match=match)


def _wide_resnet(plane: Grid2d, width: float, *, count: int, factor: int, channels: int, classes: int) -> Sequential:
    parts: list[Layer] = [_conv(scalars(plane, channels), regular(plane, width), 3)]
    for number in range(3):
        y = regular(plane, width * factor * 2**number)
        blocks: list[Layer] = []
        for place in range(count):
            before = (blocks or parts)[-1].out_type
            blocks.append(_block(before, y, 2 if number and not place else 1))
        parts.append(Sequential(*blocks))
    return Sequential(*parts, *_activated(y), classifier(y, classes))


def _conv(x: FieldType, y: FieldType, kernel_size: int, stride: int = 1) -> Conv2d:
    return Conv2d(x, y, kernel_size, stride=stride, padding=kernel_size // 2, bias=False)


def _activated(x: FieldType) -> list[Layer]:
    return [BatchNorm(x), ReLU(x)]


def _block(x: FieldType, y: FieldType, stride: int) -> Layer:
    convs = _conv(x, y, 3, stride), *_activated(y), _conv(y, y, 3)
    if x == y and stride == 1:
        return Residual(Sequential(*_activated(x), *convs))
    # Where the width changes, both branches start from the normalized fields.
    fit = [FitStride(x, 3, stride=stride, padding=1)] if stride > 1 else []
    return Sequential(*_activated(x), *fit, Residual(Sequential(*convs), _conv(x, y, 1, stride)))
