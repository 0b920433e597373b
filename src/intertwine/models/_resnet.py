"""Residual networks."""

from __future__ import annotations

from functools import partial
from typing import Literal

from .._checked import Positive, checked
from ..nn import (
    BatchNorm,
    Conv2d,
    FitStride,
    GlobalPool,
    GroupPool,
    Layer,
    Linear,
    MaxPool2d,
    ReLU,
    Residual,
    Sequential,
)
from ..spaces import FieldType, Grid2d
from ._width import GroupName, Match, matched, plane_of, regular, scalars

Depth = Literal[18, 34, 50, 101, 152]
Stem = Literal["imagenet", "cifar"]

_GAIN = 2**0.5  # before a ReLU


@checked
def resnet(
    depth: Depth = 18,
    *,
    group: GroupName,
    channels: Positive = 3,
    classes: Positive = 10,
    stem: Stem = "imagenet",
    match: Match = "cost",
    width: float | None = None,
) -> Sequential:
    """A ResNet whose class scores do not change when the group moves the image, on images of any size.

    The blocks are those of the paper, between regular fields: 3 x 3 convolutions for depths 18 and 34, bottlenecks
    above. :class:`~intertwine.nn.FitStride` keeps every strided layer symmetric about the center. After the last block
    come the maximum over the channels of each field, the mean over the plane, and a linear map.

    Args:
        depth: 18, 34, 50, 101 or 152.
        group: a group by name (``"D4"``, ``"C4"``, ``"hflip"``, ``"C8"``), as a group, or as a plane. None is the
            plain network, the same as torchvision's. Groups that do not map the pixel grid to itself, such as C8, are
            exact for those elements that do (quarter turns), and approximate for the others.
        channels: the channels of the image.
        classes: the number of classes.
        stem: ``imagenet`` starts with a 7 x 7 convolution and a max pooling, both with stride 2; ``cifar`` with a
            3 x 3 convolution with stride 1, for small images.
        match: choose the width to have as many weights as the plain network (``weights``), or as many
            multiplications per image, with all filters written out (``cost``).
        width: the number of regular fields after the stem, instead of a match; 64 in the plain network. The later
            stages have 2, 4 and 8 times as many, rounded.

    Shapes: ``(batch, channels, height, width)``, any height and width, to ``(batch, classes)``. Mirrors and half turns
    act on images of any shape, quarter turns on square ones.

    References:
        He, Zhang, Ren & Sun, "Deep residual learning for image recognition", CVPR 2016.

    >>> import torch
    >>> net = resnet(18, group="D4", channels=1, stem="cifar", width=2).eval()
    >>> net.in_type, net.out_type
    (Field(trivial on Grid2d(D4)), Field(10 trivial on Grid2d(D4)))
    >>> x = torch.rand(1, 1, 30, 30)
    >>> torch.allclose(net(x), net(x.rot90(1, (-2, -1)).flip(-1)), atol=1e-4)
    True
    """
    build = partial(_resnet, depth=depth, channels=channels, classes=classes, stem=stem)
    plane = plane_of("resnet", group)
    return matched("resnet", build, plane, _WIDTH, channels=channels, width=width, match=match)


_WIDTH = 64
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def _resnet(plane: Grid2d, width: float, *, depth: int, channels: int, classes: int, stem: Stem) -> Sequential:
    block = _basic if depth < 50 else _bottleneck
    parts: list[Layer] = [_stem(scalars(plane, channels), regular(plane, width), stem)]
    for number, count in enumerate(_BLOCKS[depth]):
        blocks: list[Layer] = []
        for place in range(count):
            before = (blocks or parts)[-1].out_type
            blocks.append(block(before, width * 2**number, 2 if number and not place else 1))
        parts.append(Sequential(*blocks))
    return Sequential(*parts, classifier(parts[-1].out_type, classes))


def classifier(field: FieldType, classes: int) -> Sequential:
    """Class scores of regular fields: invariant values, their mean over the plane, and a linear map."""
    pooled = GroupPool(field)
    values = pooled.out_type
    return Sequential(pooled, GlobalPool(values), Linear(values, scalars(field.space, classes)))


def normalized(x: FieldType, y: FieldType, kernel_size: int, *, stride: int = 1) -> list[Layer]:
    """A convolution that keeps the size, up to its stride, and a batch norm."""
    conv = Conv2d(x, y, kernel_size, stride=stride, padding=kernel_size // 2, bias=False, gain=_GAIN)
    return [conv, BatchNorm(y)]


def _stem(x: FieldType, y: FieldType, kind: Stem) -> Sequential:
    if kind == "cifar":
        return Sequential(*normalized(x, y, 3), ReLU(y))
    fit = FitStride(x, 7, stride=2, padding=3)
    pool = FitStride(y, 3, stride=2, padding=1), MaxPool2d(y, 3, stride=2, padding=1)
    return Sequential(fit, *normalized(x, y, 7, stride=2), ReLU(y), *pool)


def _basic(x: FieldType, width: float, stride: int) -> Layer:
    y = regular(x.space, width)
    return _block(x, [*normalized(x, y, 3, stride=stride), ReLU(y), *normalized(y, y, 3)], stride)


def _bottleneck(x: FieldType, width: float, stride: int) -> Layer:
    middle, y = regular(x.space, width), regular(x.space, 4 * width)
    narrow = [*normalized(x, middle, 1), ReLU(middle), *normalized(middle, middle, 3, stride=stride), ReLU(middle)]
    return _block(x, [*narrow, *normalized(middle, y, 1)], stride)


def _block(x: FieldType, body: list[Layer], stride: int) -> Sequential:
    y = body[-1].out_type
    shortcut = None if x == y and stride == 1 else Sequential(*normalized(x, y, 1, stride=stride))
    # Before both branches, because they must see the same samples.
    fit = [FitStride(x, 3, stride=stride, padding=1)] if stride > 1 else []
    return Sequential(*fit, Residual(Sequential(*body), shortcut), ReLU(y))
