"""The networks of Cohen & Welling (2016) for rotated MNIST: Z2CNN, and P4CNN with and without rotation pooling.

Seven convolutions without padding, six of 3 x 3 and a last one of 4 x 4, which takes images of 28 x 28 to one pixel;
batch norm, ReLU and dropout between them, and max pooling after the second.
"""

from __future__ import annotations

from torch import Tensor, nn

from ... import nn as tnn
from ...groups import FiniteGroup
from ...spaces import Grid2d

SIZES = (3, 3, 3, 3, 3, 3, 4)
POOLED = 1
"""The index of the convolution that max pooling follows."""


def plain_seven_layers(channels: int, classes: int, *, width: int, dropout: float) -> nn.Module:
    """Z2CNN: plain convolutions with ``width`` channels."""
    layers: list[nn.Module] = []
    before = channels
    for k, size in enumerate(SIZES[:-1]):
        layers += [nn.Conv2d(before, width, size, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if k == POOLED else []
        layers.append(nn.Dropout2d(dropout))
        before = width
    return nn.Sequential(*layers, nn.Conv2d(before, classes, SIZES[-1]), nn.Flatten())


class GroupSevenLayers(nn.Module):
    """P4CNN for C4, and the same for other groups of quarter turns and mirrors.

    Args:
        group: the group.
        channels: the channels of the image.
        classes: the number of classes.
        width: the number of fields in every layer.
        dropout: the share of fields that training sets to 0.
        pooled: take the maximum over the group after every layer ("rotation pooling"), not only after the last one.
    """

    def __init__(
        self, group: FiniteGroup, channels: int, classes: int, *, width: int, dropout: float, pooled: bool = False
    ) -> None:
        super().__init__()
        plane = Grid2d(group)
        field, regular = plane.field(channels * group.trivial), plane.field(width * group.regular)
        layers: list[tnn.Layer] = []
        for k, size in enumerate(SIZES[:-1]):
            layers += [tnn.Conv2d(field, regular, size, bias=False), tnn.BatchNorm(regular), tnn.ReLU(regular)]
            layers += [tnn.GroupPool(regular)] if pooled else []
            field = layers[-1].out_type
            layers += [tnn.MaxPool2d(field, 2)] if k == POOLED else []
            layers.append(tnn.Dropout(field, dropout))
        scores = plane.field(classes * group.regular)
        self.layers = tnn.Sequential(*layers, tnn.Conv2d(field, scores, SIZES[-1]), tnn.GroupPool(scores))

    def forward(self, x: Tensor) -> Tensor:
        """The class scores of a batch of images of 28 x 28."""
        return self.layers(x).flatten(1)
