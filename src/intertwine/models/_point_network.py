"""Networks on point clouds."""

from __future__ import annotations

from typing import Any

from .._checked import Positive, checked
from ..groups import direct_sum
from ..nn import Concat, Gated, Layer, Linear, PointConv, Residual, Sequential
from ..spaces import FieldType


@checked
def point_block(hidden: FieldType, *, radius: float, **options: Any) -> Residual:
    """One residual block on scattered points, for networks of your own.

    It convolves over the edges, adds a linear map of the point itself, scales the fields by gates, and mixes them.

    Args:
        hidden: the features that it takes and returns, a sum of irreducibles.
        radius: the reach of the convolution.
        options: passed to :class:`~intertwine.nn.PointConv`, such as ``neighbors``.

    >>> import torch
    >>> from intertwine.nn import radius_graph
    >>> from intertwine.spaces import Cloud3d
    >>> block = point_block(Cloud3d("O(3)").field("4*irrep0 + 2*irrep1"), radius=1.0)
    >>> positions = torch.rand(6, 3)
    >>> block(torch.randn(6, 10), positions, radius_graph(positions, 1.0)).shape
    torch.Size([6, 10])
    """
    gated = Gated(hidden)
    around = PointConv(hidden, gated.in_type, radius=radius, **options)
    both = Residual(around, Linear(hidden, gated.in_type))
    return Residual(Sequential(both, gated, Linear(hidden, hidden)))


@checked
def point_network(
    in_type: FieldType,
    hidden: FieldType,
    out_type: FieldType,
    *,
    layers: Positive = 3,
    radius: float,
    **options: Any,
) -> Sequential:
    """An equivariant residual network on scattered points.

    It maps the features to hidden ones, adds :func:`point_block` several times, and maps the result to the output. The
    network is a typed layer: it takes features, positions and edges,
    :func:`~intertwine.testing.assert_equivariant` tests it, and ``to_plain`` exports it.

    Args:
        in_type: features of the points, on a cloud.
        hidden: features inside, a sum of irreducibles.
        out_type: features to return.
        layers: the number of blocks.
        radius: the reach of the convolutions.
        options: passed to :class:`~intertwine.nn.PointConv`, such as ``neighbors``.

    >>> import torch
    >>> from intertwine.nn import radius_graph
    >>> from intertwine.spaces import Cloud3d
    >>> space = Cloud3d("O(3)")
    >>> charges, forces = space.field("irrep0"), space.field("irrep1")
    >>> net = point_network(charges, space.field("8*irrep0 + 8*irrep1"), forces, layers=2, radius=2.0)
    >>> positions = torch.rand(10, 3)
    >>> net(torch.ones(10, 1), positions, radius_graph(positions, 2.0)).shape
    torch.Size([10, 3])
    """
    # A linear map keeps the degrees of the input. A convolution reaches all others, but leaves out the point itself.
    kinds = set(in_type.rho.atoms)
    kept = [atom for atom in hidden.rho.atoms if atom in kinds]
    first: Layer = PointConv(in_type, hidden, radius=radius, **options)
    if kept:
        first = Concat(Linear(in_type, hidden.space.field(direct_sum(kept))), first)
    blocks = [point_block(hidden, radius=radius, **options) for _ in range(layers)]
    return Sequential(first, Linear(first.out_type, hidden), *blocks, Linear(hidden, out_type))
