"""Linear maps of the values of a field, the same at every position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import linear

from ..._checked import checked
from ...groups import SO2, Cyclic, Dihedral
from ...spaces import Cloud, Cloud3d, FieldType, Grid2d, Point, Space
from .._export import filled
from .._layer import Layer, pointwise_claim, register_layer, require_grid
from ..pointwise._point_map import point_map
from ._filter_layer import FilterLayer, at_one_point


@register_layer
class Linear(FilterLayer):
    """(Φf)(x) = W f(x) + b with ρ2(h) W = W ρ1(h) and ρ2(h) b = b for all h in H.

    In bases where both representations are sums of irreducibles, W is block diagonal and needs fewer multiplications
    than a dense matrix: 3/16 for regular fields of D4, 6/16 for C4, 8/16 for a mirror. Wide layers multiply in those
    bases, faster than a plain layer of the same width; narrow layers multiply by the dense matrix. Each call picks the
    way that should be faster (:class:`~intertwine.nn.cost_rules`); the weights are the same for both. Types that are
    sums of irreducibles need no change of basis.

    Shapes: ``(batch, d1)`` to ``(batch, d2)``, or ``(batch, d1, *space)`` to ``(batch, d2, *space)``. Equivariance:
    exact at every position.

    Args:
        in_type: fields on a grid.
        out_type: fields on the same grid.
        bias: whether to add a bias, one per trivial component of the output.
        gain: standard deviation of the output on natural images of variance 1; use √2 before a ReLU.

    >>> from intertwine.groups import Dihedral
    >>> from intertwine.spaces import Grid2d
    >>> D4 = Dihedral(4); plane = Grid2d(D4)
    >>> layer = Linear(plane.field(2 * D4.regular), plane.field(D4.irrep(1) + D4.trivial))
    >>> layer(torch.randn(5, 16)).shape
    torch.Size([5, 3])
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (1,)), ('weights.0', (1, 2, 2)), ('weights.1', (1, 2, 1))]
    """

    needs_space = False

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType, *, bias: bool = True, gain: float = 1.0) -> None:
        space = _require_values("Linear", in_type, out_type)
        grid = at_one_point(in_type).space
        claim, sizes = pointwise_claim(space), (1,) * grid.dimension  # type: ignore[attr-defined]
        super().__init__(in_type, out_type, claim, kernel_size=sizes, groups=1, bias=bias, gain=gain)
        self.point = point_map(at_one_point(in_type), at_one_point(out_type))

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, so2 = Cyclic(4), Dihedral(4), SO2()
        plane = Grid2d(C4)
        yield cls(plane.field(2 * C4.regular), plane.field(C4.irrep(2) + 2 * C4.trivial))
        plane = Grid2d(D4)
        wide = plane.field(24 * D4.regular)  # wide enough for the irreducible basis when compiled
        yield cls(wide, plane.field(D4.regular + 20 * D4.irrep(1) + 20 * D4.regular), bias=False)
        plane = Grid2d(so2)
        fields = plane.field(so2.irrep(2) + so2.irrep(0) + 2 * so2.irrep(1))
        yield cls(fields, fields)
        cloud = Cloud3d("O(3)")
        yield cls(cloud.field("3*irrep0 + irrep(1,1) + 2*irrep1"), cloud.field("2*irrep0 + 2*irrep1 + irrep(1,1)"))
        point = Point("S3")
        yield cls(point.field("regular + irrep1"), point.field("irrep2 + trivial + regular"))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if self.point is not None and self.point.pays(x):
            return self.point(x, *self.point.kept(list(self.weights), self.bias, self.invariants))
        matrix, bias = self.filter_and_bias()
        return linear(x.movedim(1, -1), matrix.flatten(1), bias).movedim(-1, 1)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Every sample."""
        return 1, 0

    def to_plain(self) -> torch_nn.Module:
        """A graph around a ``torch.nn.Linear`` with this matrix, for inputs with and without space."""
        from torch.fx import Graph, GraphModule  # imported here because it is slow to import

        with torch.no_grad():
            matrix, bias = self.expand()
        root = torch_nn.Module()
        root.linear = filled(torch_nn.Linear, *matrix.flatten(1).T.shape, weight=matrix.flatten(1), bias=bias)
        graph = Graph()
        last = graph.call_function(torch.movedim, (graph.placeholder("x"), 1, -1))
        graph.output(graph.call_function(torch.movedim, (graph.call_module("linear", (last,)), -1, 1)))
        return GraphModule(root, graph, class_name="PlainLinear")


def _require_values(caller: str, in_type: FieldType, out_type: FieldType) -> Space:
    """The space of both types: a point, a cloud or a grid."""
    if isinstance(in_type.space, Point | Cloud) and in_type.space == out_type.space:
        return in_type.space
    return require_grid(caller, in_type, out_type)
