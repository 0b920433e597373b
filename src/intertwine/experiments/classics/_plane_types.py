"""Classifiers with the field types of published networks on the plane, one block pattern for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Literal

from torch import Tensor, nn

from ... import nn as tnn
from ...groups import O2, SO2, direct_sum
from ...spaces import FieldType, Grid2d, to_hexagonal

Block = Callable[[FieldType, int], list[tnn.Layer]]
"""Convolution, norm and nonlinearity, from a field type to a number of fields."""


class PlaneNetwork(nn.Module):
    """Blocks with pooling after the first two, then scalars, their mean over the plane, and a linear map.

    Args:
        plane: the plane with its group.
        block: makes a block of layers.
        pool: makes a pooling layer.
        widths: the number of fields after each block.
        channels: the channels of the image.
        classes: the number of classes.
    """

    def __init__(
        self,
        plane: Grid2d,
        block: Block,
        pool: Callable[[FieldType], tnn.Layer],
        *,
        widths: Sequence[int],
        channels: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.hexagonal = plane.lattice == "hexagonal"
        field = plane.field(channels * plane.stabilizer.trivial)
        layers: list[tnn.Layer] = []
        for number, width in enumerate(widths):
            layers += block(field, width)
            field = layers[-1].out_type
            if number < 2:
                layers.append(pool(field))
        scalars = plane.field(24 * plane.stabilizer.trivial)
        layers += [_conv(field, scalars, 3), tnn.BatchNorm(scalars), tnn.ReLU(scalars), tnn.GlobalPool(scalars)]
        self.features = tnn.Sequential(*layers)
        self.head = nn.Linear(scalars.dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        """The class scores of a batch of images."""
        return self.head(self.features(_hexagonal(x) if self.hexagonal else x))


def _hexagonal(x: Tensor) -> Tensor:
    """Samples about as dense as the pixels, of a size that can be pooled twice."""
    covering = (x.shape[-1] - 1) / 0.75**0.5
    return to_hexagonal(x, 8 * ceil(covering / 8) + 1)


def plane_network(kind: str, channels: int, classes: int, *, widths: Sequence[int]) -> PlaneNetwork:
    """A classifier by the name of its field types.

    Args:
        kind: one of
            ``c4-types``, vectors and sign fields of C4 beside regular ones (Cohen & Welling 2017);
            ``c8``, regular fields;
            ``c6-hexagonal``, regular fields on the hexagonal lattice (Hoogeboom et al. 2018);
            ``c8-free``, regular fields with free filters, rotated by interpolation (Zhou 2017; Bekkers 2018);
            ``c8-vectors``, vectors that point where a regular field of C8 is largest (Marcos et al. 2017);
            ``so2`` and ``o2``, irreducibles up to frequency 2 with gates (Worrall et al. 2017; Weiler & Cesa 2019).
        channels: the channels of the image.
        classes: the number of classes.
        widths: the number of fields of each kind after each block.
    """
    planes = {
        "c4-types": Grid2d("C4"),
        "c8": Grid2d("C8"),
        "c6-hexagonal": Grid2d("C6", lattice="hexagonal"),
        "c8-free": Grid2d("C8"),
        "c8-vectors": Grid2d("C8"),
        "so2": Grid2d(SO2()),
        "o2": Grid2d(O2()),
    }
    blocks: dict[str, Block] = {
        "c4-types": partial(_gated_block, text="regular + irrep1 + irrep2"),
        "c8": _regular_block,
        "c6-hexagonal": _regular_block,
        "c8-free": partial(_regular_block, filters="free"),
        "c8-vectors": _vector_block,
        "so2": partial(_gated_block, text="trivial + irrep1 + irrep2"),
        "o2": partial(_gated_block, text="trivial + irrep1 + irrep2"),
    }
    hexagonal = kind == "c6-hexagonal"

    def pool(field: FieldType) -> tnn.Layer:
        return tnn.AvgPool2d(field, 3, stride=2, padding=1) if hexagonal else tnn.AvgPool2d(field, 2)

    return PlaneNetwork(planes[kind], blocks[kind], pool, widths=widths, channels=channels, classes=classes)


def _conv(field: FieldType, after: FieldType, size: int) -> tnn.Layer:
    return tnn.Conv2d(field, after, size, padding=size // 2, bias=False)


def _regular_block(
    field: FieldType, width: int, *, filters: Literal["steerable", "free"] = "steerable"
) -> list[tnn.Layer]:
    after = field.space.field(f"{width}*regular")
    conv = tnn.Conv2d(field, after, 5, padding=2, bias=False, filters=filters)
    return [conv, tnn.BatchNorm(after), tnn.ReLU(after)]


def _vector_block(field: FieldType, width: int) -> list[tnn.Layer]:
    return [*_regular_block(field, width)[:2], tnn.OrientationPool(field.space.field(f"{width}*regular"))]


def _gated_block(field: FieldType, width: int, *, text: str) -> list[tnn.Layer]:
    one = field.space.field(text).rho
    gated = tnn.Gated(field.space.field(direct_sum([one] * width)))
    return [_conv(field, gated.in_type, 5), tnn.BatchNorm(gated.in_type), gated]
