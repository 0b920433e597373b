"""A small image classifier, plain or with a built-in symmetry."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from .. import nn as tnn
from .._checked import Floats, Positive, checked
from ..errors import InputError
from ..groups import FiniteGroup
from ..spaces import Grid2d


@checked
def plain_cnn(channels: Positive, classes: Positive, *, widths: Sequence[int] = (23, 34, 46)) -> nn.Module:
    """Blocks of convolution, batch norm, ReLU and pooling, then a mean over the plane and a linear map.

    The counterpart of :class:`GroupCNN` without symmetry. With default widths, it has as many weights as a
    :class:`GroupCNN` for C8.

    Args:
        channels: the channels of the image.
        classes: the number of classes.
        widths: the number of channels after each block.

    Shapes: ``(batch, channels, height, width)``, even sizes, to ``(batch, classes)``.

    >>> import torch
    >>> plain_cnn(1, 10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    layers: list[nn.Module] = []
    before = channels
    for block, width in enumerate(_require_widths(widths)):
        layers += [nn.Conv2d(before, width, 5, padding=2, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.AvgPool2d(2)] if block < 2 else []
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


class GroupCNN(nn.Module):
    """A classifier whose output does not change when the group moves the image.

    Blocks of equivariant convolution between regular fields, batch norm, ReLU and pooling; then the maximum over the
    channels of each field, the mean over the plane, and a linear map. All layers commute with the group, and the
    maximum and the mean are invariant.

    Args:
        group: C_n or D_n.
        channels: the channels of the image.
        classes: the number of classes.
        widths: the number of regular fields after each block. A regular field of C8 has 8 channels.

    Shapes: ``(batch, channels, height, width)``, even sizes, to ``(batch, classes)``.

    >>> import torch
    >>> from intertwine.groups import Cyclic
    >>> net = GroupCNN(Cyclic(4), 1, 10).eval()
    >>> x = torch.rand(1, 1, 28, 28)
    >>> torch.allclose(net(x), net(x.rot90(1, (-2, -1))), atol=1e-5)
    True
    """

    @checked
    def __init__(
        self, group: FiniteGroup, channels: Positive, classes: Positive, *, widths: Sequence[int] = (12, 18, 24)
    ) -> None:
        super().__init__()
        plane = Grid2d(group)
        field = plane.field(channels * group.trivial)
        layers: list[tnn.Layer] = []
        for block, width in enumerate(_require_widths(widths)):
            after = plane.field(width * group.regular)
            layers += [tnn.Conv2d(field, after, 5, padding=2, bias=False), tnn.BatchNorm(after), tnn.ReLU(after)]
            layers += [tnn.AvgPool2d(after, 2)] if block < 2 else []
            field = after
        pooled = tnn.GroupPool(field)
        self.features = tnn.Sequential(*layers, pooled, tnn.GlobalPool(pooled.out_type))
        self.head = nn.Linear(pooled.out_type.dim, classes)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images."""
        return self.head(self.features(x))


def _require_widths(widths: Sequence[int]) -> Sequence[int]:
    if not widths or not all(isinstance(width, int) and width > 0 for width in widths):
        raise InputError(
            "GroupCNN and plain_cnn",
            expected="one positive width per block",
            got=repr(widths),
            fix="For example widths=(8, 12, 16).",
        )
    return widths
