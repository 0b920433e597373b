"""A layer whose output is resized to the size of its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import getitem

from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import interpolate

from ..._checked import checked
from ...errors import TypeMismatchError
from ...groups import Cyclic, Dihedral
from ...spaces import Grid2d, Grid3d
from .._centers import require_square_lattice
from .._layer import Claim, Exact, Layer, combined_claim, pointwise_claim, register_layer, require_grid
from ..linear._conv2d import Conv2d
from ..resizing._fit_stride import FitStride
from ..resizing._window_pool import AvgPool2d, AvgPool3d
from ._sequential import Sequential

_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


@register_layer
class SameSize(Layer):
    """Φ(f) = body(f), interpolated to the samples of f: what a U-Net adds at a coarser scale.

    Shapes: ``(batch, d1, *space)`` to ``(batch, d2, *space)``, whatever size the body returns. Equivariance: that of
    the body; linear interpolation is symmetric about the center on every size.

    Args:
        body: a layer between fields on a grid, such as a pooling followed by convolutions.

    >>> import torch
    >>> D4 = Dihedral(4); x = Grid2d(D4).field(2 * D4.regular)
    >>> coarse = Sequential(FitStride(x, 2, stride=2), AvgPool2d(x, 2), Conv2d(x, x, 3, padding=1))
    >>> SameSize(coarse)(torch.randn(1, 16, 9, 9)).shape
    torch.Size([1, 16, 9, 9])
    """

    needs_space = True

    @checked
    def __init__(self, body: Layer) -> None:
        space = require_grid("SameSize", body.in_type, body.out_type)
        require_square_lattice("SameSize", space)
        if not body.keeps_space or body.companions:
            raise TypeMismatchError(
                "SameSize",
                expected="a body from one field to a field with spatial axes",
                got=f"{type(body).__name__}, which "
                + ("takes more than one input" if body.companions else "returns values without spatial axes"),
            )
        super().__init__(body.in_type, body.out_type, Exact())
        self.fixed_sizes = body.fixed_sizes
        self.body, self._mode = body, _MODES[space.dimension]

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, C8 = Cyclic(4), Dihedral(4), Cyclic(8)
        x = Grid2d(D4).field(D4.regular + D4.irrep(1))
        fit, pool = FitStride(x, 2, stride=2), AvgPool2d(x, 2)
        yield cls(Sequential(fit, pool, Conv2d(x, Grid2d(D4).field(D4.regular), 3, padding=1)))
        x = Grid2d(C8).field(C8.regular)
        yield cls(Sequential(FitStride(x, 2, stride=2), AvgPool2d(x, 2)))
        yield cls(AvgPool3d(Grid3d("O").field("regular"), 3, stride=2, padding=1))
        yield cls(AvgPool2d(Grid2d(C4).field(C4.irrep(1)), 3, stride=2))

    @property
    def claim(self) -> Claim:
        """That of the body and of the interpolation."""
        return combined_claim([self.body.claim, pointwise_claim(self.in_type.space)])

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return interpolate(self.body(x), size=tuple(x.shape[2:]), mode=self._mode)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The same sizes; an error if they do not suit the body."""
        self.body.output_sizes(sizes)
        return tuple(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """None: a step of the body is several steps of the output."""
        return None

    def to_plain(self) -> torch_nn.Module:
        """A graph of the plain body and torch's interpolation."""
        from torch.fx import Graph, GraphModule  # imported here because it is slow to import

        root, graph = torch_nn.Module(), Graph()
        root.body = self.body.to_plain()
        x = graph.placeholder("x")
        sizes = graph.call_function(getitem, (graph.call_method("size", (x,)), slice(2, None)))
        body = graph.call_module("body", (x,))
        graph.output(graph.call_function(interpolate, (body,), {"size": sizes, "mode": self._mode}))
        return GraphModule(root, graph, class_name="PlainSameSize")

    def extra_repr(self) -> str:
        """Nothing: the body prints itself."""
        return ""
