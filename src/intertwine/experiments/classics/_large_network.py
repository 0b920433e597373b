"""A larger classifier of rotated digits, after the networks of Weiler & Cesa (2019).

Five convolutions between regular fields of a fine group, with antialiased pooling. The filters of the last one cover
the whole map; the maximum over the group and a small head follow. Their networks are several times wider, with six
convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ... import nn as tnn
from ...groups import FiniteGroup
from ...spaces import Grid2d

_SIZES = (7, 5, 5, 5, 7)
_POOLED = (0, 2)  # maps of 28 x 28 shrink to 14 x 14 and 7 x 7, and by the last convolution to one pixel
_HIDDEN = 64


class LargeNetwork(nn.Module):
    """Regular fields of C_n, or of D_n with a restriction to its rotations before the last convolution.

    For images of 28 x 28 pixels. Mirrors help to find strokes; but a mirrored digit is another digit, or none.

    Args:
        group: C_n or D_n.
        channels: the channels of the image.
        classes: the number of classes.
        widths: the number of regular fields after each of the five convolutions.
        dropout: the share of hidden units that training sets to 0.
    """

    def __init__(
        self, group: FiniteGroup, channels: int, classes: int, *, widths: Sequence[int], dropout: float
    ) -> None:
        super().__init__()
        plane, rotations = Grid2d(group), group.subgroup([1])
        field = plane.field(channels * group.trivial)
        layers: list[tnn.Layer] = []
        for k, (size, width) in enumerate(zip(_SIZES, widths, strict=True)):
            last = k == len(_SIZES) - 1
            if last and rotations.order < group.order:
                layers.append(tnn.Restrict(field, rotations))
                field = layers[-1].out_type
            after = field.space.field(f"{width}*regular")
            layers += [
                tnn.Conv2d(field, after, size, padding=0 if last else size // 2, bias=False),
                tnn.BatchNorm(after),
                tnn.ELU(after),
            ]
            layers += [tnn.MaxBlurPool(after)] if k in _POOLED else []
            field = after
        pooled = tnn.GroupPool(field)
        self.features = tnn.Sequential(*layers, pooled, tnn.GlobalPool(pooled.out_type))
        self.head = nn.Sequential(
            nn.Linear(pooled.out_type.dim, _HIDDEN),
            nn.BatchNorm1d(_HIDDEN),
            nn.ELU(),
            nn.Dropout(dropout),
            nn.Linear(_HIDDEN, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The class scores of a batch of images."""
        return self.head(self.features(x))
