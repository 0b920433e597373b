"""Pooling over scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from torch import Tensor

from ..._checked import checked
from ...errors import InputError
from ...spaces import FieldType, Point, ScalePlane, ScaleSpace
from .._layer import Approximate, Layer, register_layer
from .._traced import TracedLayer
from ._scale_conv import require_scales


@register_layer
class ScalePool(TracedLayer):
    """The maximum or the mean over all scales: fields of position and scale to images.

    With ``keep_plane=False`` the maximum over all scales and positions: one value per channel, which neither
    translations nor scalings change. There is no such mean, because an image s times as large has s² times the area.

    Shapes: ``(batch, c, scales, height, width)`` to ``(batch, c, height, width)``, or to ``(batch, c)``.

    Equivariance: exact under translations, approximate under scalings that move nothing out of the sampled scales.

    Args:
        in_type: fields on a :class:`~intertwine.spaces.ScaleSpace`.
        mode: ``max`` or ``mean``.
        keep_plane: whether to return images.

    >>> field = ScaleSpace(base=2**0.5, count=4).field("8*trivial")
    >>> ScalePool(field).out_type, ScalePool(field, keep_plane=False).out_type
    (Field(8 trivial on ScalePlane()), Field(8 trivial on Point(C1)))
    """

    needs_space = True

    @checked
    def __init__(self, in_type: FieldType, *, mode: Literal["max", "mean"] = "max", keep_plane: bool = True) -> None:
        require_scales("ScalePool", in_type)
        if mode == "mean" and not keep_plane:
            raise InputError(
                "ScalePool",
                expected="mode='max' with keep_plane=False",
                got="mode='mean'",
                fix="The mean over the plane changes with the area of what it shows.",
            )
        space = ScalePlane() if keep_plane else Point("C1")
        claim = Approximate(
            "scales are sampled, and those beyond both ends of their axis are missing",
            bound=0.2 if mode == "max" else 0.05,
        )
        super().__init__(in_type, space.field(f"{in_type.dim}*trivial"), claim)
        self.mode, self.keep_plane = mode, keep_plane
        self.keeps_space = keep_plane

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        field = ScaleSpace(base=1.25, count=6).field("2*trivial")
        yield cls(field)
        yield cls(field, mode="mean")
        yield cls(field, keep_plane=False)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        if not self.keep_plane:
            return x.amax((2, 3, 4))
        return x.amax(2) if self.mode == "max" else x.mean(2)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Height and width, or nothing."""
        return tuple(sizes[1:]) if self.keep_plane else ()

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """All positions count."""
        return 1, 0
