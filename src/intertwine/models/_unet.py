"""U-Nets."""

from __future__ import annotations

from .._checked import Positive, checked
from ..nn import Concat, Conv2d, FitStride, Identity, Layer, MaxPool2d, ReLU, SameSize, Sequential
from ..spaces import FieldType, Grid2d
from ._resnet import normalized
from ._width import GroupName, Match, matched, plane_of, regular, scalars


@checked
def unet(
    depth: Positive = 4,
    *,
    group: GroupName,
    channels: Positive = 3,
    classes: Positive = 2,
    output: str | None = None,
    match: Match = "cost",
    width: float | None = None,
) -> Sequential:
    """A U-Net whose output moves with the image, on images of any size: a map of scores per class, or other fields.

    Each level has two 3 x 3 convolutions with batch norm and ReLU between regular fields, a max pooling to the next
    level, and two more after the output of that level is interpolated back (:class:`~intertwine.nn.SameSize`). See
    :func:`resnet`, also for the arguments not listed here.

    Args:
        depth: how many times the image is halved.
        group: a group by name, as a group, or as a plane; None is the plain network.
        channels: the channels of the image.
        classes: the number of classes, each a map of scores.
        output: fields to return instead, such as ``"irrep1"``, a vector at each pixel, for rotations.
        match: what the width is chosen to match, ``weights`` or ``cost``.
        width: the number of regular fields of the first level, instead of a match; 64 in the plain network. Each level
            has twice as many as the one before, rounded.

    Shapes: ``(batch, channels, height, width)`` to ``(batch, classes, height, width)``; height and width are at least
    2 to the power of the depth, and any number above.

    References:
        Ronneberger, Fischer & Brox, "U-Net: convolutional networks for biomedical image segmentation", MICCAI 2015.
        Here, convolutions keep the size, and interpolation with a 1 x 1 convolution replaces transposed convolutions.

    >>> import torch
    >>> net = unet(2, group="D4", channels=1, width=1).eval()
    >>> x = torch.rand(1, 1, 30, 30)
    >>> torch.allclose(net(x).rot90(1, (-2, -1)), net(x.rot90(1, (-2, -1))), atol=1e-4)
    True
    >>> unet(2, group="C4", output="trivial + irrep1", width=1).out_type
    Field(trivial + irrep(1) on Grid2d(C4))
    """
    plane = plane_of("unet", group)

    count = classes if output is None else plane.field(output).dim

    def build(space: Grid2d, width: float) -> Sequential:
        # The plain network that a width is matched to has as many channels, but they are scalars.
        target = scalars(space, count) if output is None or space != plane else space.field(output)
        level = _level(scalars(space, channels), width, depth)
        return Sequential(level, Conv2d(level.out_type, target, 1))

    return matched("unet", build, plane, 64, channels=channels, width=width, match=match)


def _level(x: FieldType, width: float, depth: int) -> Sequential:
    """The fields of a level, with what all coarser levels add."""
    y = regular(x.space, width)
    if not depth:
        return _double(x, y)
    coarser = _level(y, 2 * width, depth - 1)
    narrow = *normalized(coarser.out_type, y, 1), ReLU(y)
    body = Sequential(FitStride(y, 2, stride=2), MaxPool2d(y, 2), coarser, *narrow)
    both = Concat(Identity(y), SameSize(body))
    return Sequential(_double(x, y), both, _double(both.out_type, y))


def _double(x: FieldType, y: FieldType) -> Sequential:
    layers: list[Layer] = [*normalized(x, y, 3), ReLU(y), *normalized(y, y, 3), ReLU(y)]
    return Sequential(*layers)
