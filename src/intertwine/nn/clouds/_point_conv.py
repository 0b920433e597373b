"""Convolutions of fields on scattered points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import NonNegative, Positive, checked
from ..._cost_rules import columns_pay, edges_at_once
from ..._devices import on_cpu, without_autocast
from ...errors import InputError, TypeMismatchError
from ...spaces import Cloud2d, Cloud3d, FieldType
from .._layer import Exact, Layer, companions_by_name, register_layer
from .._traced import TracedLayer
from ..basis._summands import is_trivial
from ..basis._tables import TableModule
from ._companions import cloud_geometry
from ._frames import PlanarFrames, SpatialFrames
from ._irreducibles import Kind, SortedFields, sorted_fields
from ._radial import RadialBasis, RadialNetwork
from ._radius_graph import as_box, edge_vectors
from ._sectors import Sector, sectors

_FADE = 0.1
"""Directions fade out below this share of the radius: the direction of an edge of length 0 is not defined."""


@register_layer
class PointConv(TracedLayer):
    r"""(Φf)(x_i) = Σ_j κ(x_j − x_i) f(x_j) over the edges from j to i, with κ(hr) = ρ2(h) κ(r) ρ1(h)⁻¹.

    A kernel is known from its values along one axis, κ(r) = ρ2(h) A(\|r\|) ρ1(h)⁻¹ for r = \|r\| h e, where A commutes
    with the turns about the axis: these are the kernels on H\\G/H. So each edge is turned into its own frame,
    multiplied by matrices that are sparse there, and turned back. With n copies of each degree up to L that takes about
    n²L³ multiplications per edge instead of the n²L⁶ of tensor products with harmonics.

    The matrices are A(r) = Σ_k W_k R_k(r) with weights W_k and radial functions R_k, one for each copy and row of the
    input. The radial functions come from a small network of the distance and vanish smoothly at the radius. A second,
    isotropic part Σ_j R_0(r) f(x_j) is mixed after the sum over the edges. Directions fade out where points meet, so
    that κ is continuous there and has a derivative; only the isotropic part remains.

    Shapes: features ``(points, d1)`` to ``(points, d2)``; positions ``(points, dimension)``; edges ``(2, edges)``, each
    column a source and a target, as in PyTorch Geometric. Equivariance: exact under all motions, and under permutations
    of the points.

    With ``edge_features``, κ also depends on numbers that belong to an edge and that motions don't change, such as the
    type of a bond or the product of two charges: the radial network takes them beside the distance.

    Args:
        in_type: fields on a cloud under SO(2), O(2), SO(3) or O(3), a sum of irreducibles.
        out_type: fields on the same cloud.
        radius: edges this long and longer contribute nothing.
        rank: how many radial functions each copy and row has.
        basis: the functions of the distance that the radial network starts from, :func:`gaussian_basis` or
            :func:`bessel_basis`.
        functions: how many of them.
        hidden: widths of the hidden layers of the radial network.
        neighbors: a typical number of edges per point, by which the sum is scaled.
        bias: one number per trivial field of the output.
        edge_features: how many invariant numbers each edge has.
        periodic: whether the points repeat in a box, which the layer then takes as a further input.

    >>> from intertwine.nn import radius_graph
    >>> space = Cloud3d("SO(3)")
    >>> layer = PointConv(space.field("4*irrep0"), space.field("4*irrep0 + 2*irrep1"), radius=1.0)
    >>> positions = torch.rand(20, 3)
    >>> layer(torch.randn(20, 4), positions, radius_graph(positions, 1.0)).shape
    torch.Size([20, 10])
    """

    needs_space = True

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        *,
        radius: float,
        rank: Positive = 1,
        basis: RadialBasis = "gaussian",
        functions: Positive = 8,
        hidden: Sequence[int] = (64,),
        neighbors: float = 1.0,
        bias: bool = True,
        edge_features: NonNegative = 0,
        periodic: bool = False,
    ) -> None:
        self._require(in_type, out_type, radius, neighbors)
        super().__init__(in_type, out_type, Exact())
        inputs, outputs = (sorted_fields(field, caller="PointConv") for field in (in_type, out_type))
        self.companions = cloud_geometry(
            in_type.space,  # type: ignore[arg-type]
            edge_features=edge_features,
            box_width=2 * float(radius) if periodic else None,
        )
        self.edge_features, self.periodic = edge_features, periodic
        self.radius, self.rank, self.neighbors = float(radius), rank, float(neighbors)
        self._inputs, self._outputs = inputs, outputs
        self._sectors = sectors(in_type.space.stabilizer, inputs, outputs)  # type: ignore[arg-type]
        self._isotropic = _isotropic(inputs, outputs)
        degrees = tuple(sorted({*inputs.degrees, *outputs.degrees}))
        self.frames = SpatialFrames(degrees) if in_type.space.dimension == 3 else PlanarFrames(degrees)  # type: ignore[attr-defined]
        self._directional = sum(sector.sizes[0] for sector in self._sectors) * rank
        copies = sum(inputs.count(degree) for degree in inputs.degrees)
        radial_functions = self._directional + copies
        self.radial = RadialNetwork(
            radial_functions,
            radius=self.radius,
            basis=basis,
            functions=functions,
            hidden=hidden,
            edge_features=edge_features,
        )
        self.weights = torch_nn.ParameterList(
            torch_nn.Parameter(torch.empty(rank * rows, (2 if sector.phase else 1) * columns))
            for sector, (rows, columns) in ((sector, sector.sizes) for sector in self._sectors)
        )
        self.isotropic = torch_nn.ParameterList(
            torch_nn.Parameter(torch.empty(inputs.kinds[i].count, outputs.kinds[o].count)) for i, o in self._isotropic
        )
        self.channels = _Channels(inputs.order, outputs.inverse, _trivial_channels(out_type))
        scalars = len(self.channels.scalars)
        self.bias = torch_nn.Parameter(torch.zeros(scalars)) if bias and scalars else None
        self.reset_parameters()

    @staticmethod
    def _require(in_type: FieldType, out_type: FieldType, radius: float, neighbors: float) -> None:
        if in_type.space != out_type.space:
            raise TypeMismatchError("PointConv", expected="field types on one cloud", got=f"{in_type} and {out_type}")
        for name, value in (("radius", radius), ("neighbors", neighbors)):
            if not 0 < value < float("inf"):
                raise InputError("PointConv", expected=f"{name} above 0", got=str(value))

    @property
    def kernels(self) -> int:
        """The number of equivariant kernels at each radius: maps that commute with the rotations about the edge.

        >>> space = Cloud3d("SO(3)")
        >>> PointConv(space.field("irrep1"), space.field("irrep1"), radius=1.0).kernels
        3
        """
        pairs = ((sector, *sector.sizes) for sector in self._sectors)
        return sum(inputs * outputs * (2 if sector.phase else 1) for sector, inputs, outputs in pairs)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the weights so that unit features give outputs of about unit size."""
        for weight, sector in zip(self.weights, self._sectors, strict=True):
            weight.normal_(0, 1 / sqrt(len(weight) * (2 if sector.phase else 1)))
        for weight in self.isotropic:
            weight.normal_(0, 1 / sqrt(len(weight)))
        if self.bias is not None:
            self.bias.zero_()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        space = Cloud3d("SO(3)")
        yield cls(space.field("2*irrep0 + irrep1"), space.field("irrep2 + 3*irrep0 + 2*irrep1"), radius=1.5)
        space = Cloud3d("O(3)")
        mixed = space.field("2*irrep(1,-1) + irrep(0,-1) + irrep(1,1) + irrep(0,1) + irrep(2,1) + irrep(2,-1)")
        yield cls(mixed, mixed, radius=1.5, rank=2, neighbors=8.0)
        plane = Cloud2d("SO(2)")
        yield cls(plane.field("irrep1 + trivial + irrep3"), plane.field("2*irrep2 + irrep1"), radius=1.5, bias=False)
        plane = Cloud2d("O(2)")
        yield cls(plane.field("irrep1 + irrep(0,-1) + trivial"), plane.field("irrep2 + irrep(0,-1)"), radius=1.5)
        field = space.field("irrep0 + irrep1")
        yield cls(field, field, radius=1.5, periodic=True)
        yield cls(field, field, radius=1.5, edge_features=2)
        yield cls(field, field, radius=1.5, edge_features=1, periodic=True)

    # -- the map -----------------------------------------------------------------------------------------------

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        positions: Tensor,
        edges: Tensor,
        *more: Tensor,
        edge_features: Tensor | None = None,
        box: Tensor | Sequence[float] | None = None,
    ) -> Tensor:
        """Φ(x) at the same points.

        Args:
            x: features ``(points, channels)``.
            positions: ``(points, dimension)``.
            edges: ``(2, edges)``, sources and targets.
            more: edge features and box by position, as far as the layer takes them.
            edge_features: ``(edges, edge_features)``, for a layer that has them.
            box: as in :func:`radius_graph`, for a periodic layer.
        """
        self.check_input(x)
        self._check_geometry(x, positions, edges)
        values = companions_by_name(self, (positions, edges, *more), {"edge_features": edge_features, "box": box})
        features, box = values.get("edge_features"), values.get("box")
        self._check_edge_features(x, edges, features)
        matrix = None if box is None else as_box(box, positions, self.radius, caller="PointConv")
        with without_autocast(x):  # distances need full precision, and mixed types cannot be summed over edges
            vectors = edge_vectors(positions, edges, matrix)
            if torch.is_grad_enabled() or torch.compiler.is_compiling():
                return self._along(x, vectors, edges, features)
            return self._in_blocks(x, vectors, edges, features, edges_at_once(edges.shape[1], x.shape[1]))

    def compute(self, x: Tensor, positions: Tensor, edges: Tensor, *more: Tensor) -> Tensor:
        """The map without checks. A box must be a matrix."""
        features = more[0] if self.edge_features else None
        box = more[1 if self.edge_features else 0] if self.periodic else None
        return self._along(x, edge_vectors(positions, edges, box), edges, features)

    def _along(self, x: Tensor, vectors: Tensor, edges: Tensor, features: Tensor | None) -> Tensor:
        source, target = edges[0], edges[1]
        sent = x[:, self.channels.sort][source]
        frames, directional, isotropic = self._geometry(vectors, features)
        turned = x.new_zeros(x.shape[0], self.out_type.dim).index_add(
            0, target, self._turned(sent, frames, directional)
        )
        scaled = torch.zeros_like(x).index_add(0, target, self._scaled(sent, isotropic))
        return self._received(scaled, turned)

    def _in_blocks(self, x: Tensor, vectors: Tensor, edges: Tensor, features: Tensor | None, block: int) -> Tensor:
        """``_along`` for passes without gradients: messages that stay in the cache, and never all of them at once."""
        values = x[:, self.channels.sort]
        scaled, turned = torch.zeros_like(x), x.new_zeros(len(x), self.out_type.dim)
        for start in range(0, edges.shape[1], block):
            part = slice(start, start + block)
            source, target = edges[:, part]
            sent = values[source]
            frames, directional, isotropic = self._geometry(vectors[part], None if features is None else features[part])
            scaled.index_add_(0, target, self._scaled(sent, isotropic))
            turned.index_add_(0, target, self._turned(sent, frames, directional))
        return self._received(scaled, turned)

    def _geometry(self, vectors: Tensor, features: Tensor | None) -> tuple[dict[int, Tensor], Tensor, Tensor]:
        """The frames of the edges, and the radial functions of the directional and of the isotropic part."""
        distance, directions = _polar(vectors)
        fade = distance.square() / (distance.square() + (_FADE * self.radius) ** 2)
        return self.frames(directions), *self.radial.faded(distance, features, fade, self._directional)

    def _scaled(self, sent: Tensor, radial: Tensor) -> Tensor:
        """The messages of the isotropic part."""
        scaled, start = [], 0
        for l, part in _by_degree(sent, self._inputs).items():
            scaled.append((part * radial[:, None, start : start + self._inputs.count(l)]).flatten(1))
            start += self._inputs.count(l)
        return torch.cat(scaled, 1)

    def _received(self, scaled: Tensor, turned: Tensor) -> Tensor:
        """The output from the sums of messages."""
        out = ((turned + self._mixed(scaled)) / sqrt(2 * self.neighbors))[:, self.channels.unsort]
        if self.bias is None:
            return out
        return out.index_add(1, self.channels.scalars, self.bias.expand(scaled.shape[0], -1))

    def _turned(self, sent: Tensor, frames: dict[int, Tensor], radial: Tensor) -> Tensor:
        """The messages of the directional part: into the frames of the edges, through the sectors, and back."""
        parts = _by_degree(sent, self._inputs)
        rows = {l: _product(frames[l].mT, part, self._inputs, l) if l else part for l, part in parts.items()}
        pieces: dict[tuple[int, int], list[tuple[int, Tensor]]] = {}
        start = 0
        for sector, weight in zip(self._sectors, self.weights, strict=True):
            width = self.rank * sector.sizes[0]
            for part, row, sign, values in _through(sector, weight, rows, radial[:, start : start + width], self.rank):
                signed = values if sign > 0 else -values
                pieces.setdefault((part.degree, row), []).append((part.first, signed))
            start += width
        back = []
        for l in self._outputs.degrees:
            stacked = torch.stack(
                [_joined(pieces.get((l, row), []), self._outputs, l, sent) for row in range(self._outputs.dims[l])], 1
            )
            back.append((_product(frames[l], stacked, self._outputs, l) if l else stacked).flatten(1))
        return torch.cat(back, 1)

    def _mixed(self, summed: Tensor) -> Tensor:
        """The isotropic part: it commutes with all turns, so the weights wait until the edges are summed."""
        values = _by_degree(summed, self._inputs)
        mixed = {}
        for (i, o), weight in zip(self._isotropic, self.isotropic, strict=True):
            kind = self._inputs.kinds[i]
            mixed[o] = values[kind.degree][:, :, kind.first : kind.first + kind.count] @ weight
        out = []
        for l in self._outputs.degrees:
            numbers = [o for o, kind in enumerate(self._outputs.kinds) if kind.degree == l]
            parts = [
                mixed[o]
                if o in mixed
                else summed.new_zeros(summed.shape[0], self._outputs.dims[l], self._outputs.kinds[o].count)
                for o in numbers
            ]
            out.append(torch.cat(parts, 2).flatten(1))
        return torch.cat(out, 1)

    def _check_geometry(self, x: Tensor, positions: Tensor, edges: Tensor) -> None:
        n, d = len(x), self.in_type.space.dimension  # type: ignore[attr-defined]
        if positions.shape != (n, d) or positions.dtype != x.dtype:
            raise InputError(
                "PointConv",
                expected=f"positions ({n}, {d}) of {x.dtype}, one per row of the features",
                got=f"{positions.dtype} of shape {tuple(positions.shape)}",
            )
        if edges.ndim != 2 or len(edges) != 2 or edges.dtype != torch.int64:
            raise InputError(
                "PointConv",
                expected="edges (2, edges) of torch.int64",
                got=f"{edges.dtype} of shape {tuple(edges.shape)}",
                fix="Make them with intertwine.nn.radius_graph.",
            )
        if torch.compiler.is_compiling() or x.device.type == "meta":  # what follows looks at values
            return
        low, high = map(int, edges.aminmax()) if edges.numel() else (0, -1)
        if low < 0 or high >= n:
            raise InputError(
                "PointConv", expected=f"edges between points 0 to {n - 1}", got=f"numbers from {low} to {high}"
            )
        if not bool(positions.detach().isfinite().all()):
            raise InputError("PointConv", expected="finite positions", got="infinite or missing numbers among them")

    def _check_edge_features(self, x: Tensor, edges: Tensor, features: Tensor | None) -> None:
        if features is None:
            return
        shape = (edges.shape[1], self.edge_features)
        if features.shape != shape or features.dtype != x.dtype:
            raise InputError(
                "PointConv",
                expected=f"edge features {shape} of {x.dtype}, one row per edge",
                got=f"{features.dtype} of shape {tuple(features.shape)}",
            )


def _polar(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Lengths and directions. A vector of length 0 gets the last axis as direction, and no gradient."""
    squares = vectors.square().sum(1)
    zero = squares == 0
    length = torch.where(zero, torch.ones_like(squares), squares).sqrt()
    axis = torch.zeros_like(vectors[:1])
    axis = torch.cat([axis[:, 1:], torch.ones_like(axis[:, :1])], 1)
    directions = torch.where(zero[:, None], axis, vectors / length[:, None])
    return torch.where(zero, torch.zeros_like(length), length), directions


def _by_degree(values: Tensor, fields: SortedFields) -> dict[int, Tensor]:
    """Sorted channels as one ``(edges, rows, copies)`` per degree."""
    parts, start = {}, 0
    for l in fields.degrees:
        width = fields.dims[l] * fields.count(l)
        parts[l] = values[:, start : start + width].unflatten(1, (fields.dims[l], fields.count(l)))
        start += width
    return parts


def _product(frames: Tensor, values: Tensor, fields: SortedFields, degree: int) -> Tensor:
    """frames @ values: one small matrix per edge."""
    rows = fields.dims[degree]
    if not columns_pay(rows, fields.count(degree)):
        return frames @ values
    columns, parts = frames.unsqueeze(3).unbind(2), values.unsqueeze(1).unbind(2)
    total = columns[0] * parts[0]
    for number in range(1, rows):
        total = torch.addcmul(total, columns[number], parts[number])
    return total


def _through(
    sector: Sector, weight: Tensor, rows: dict[int, Tensor], radial: Tensor, rank: int
) -> Iterator[tuple[Kind, int, int, Tensor]]:
    """One sector of A(r): scale each copy by its radial functions, then mix the copies."""
    size = len(sector.inputs[0].rows)
    columns = []
    for number in range(size):
        parts = []
        for part in sector.inputs:
            row, sign = part.rows[number]
            values = rows[part.kind.degree][:, row, part.kind.first : part.kind.first + part.kind.count]
            parts.append(values if sign > 0 else -values)
        columns.append(torch.cat(parts, 1))
    values = torch.stack(columns, 1)
    if rank > 1:
        values = values.repeat(1, 1, rank)
    mixed = (values * radial[:, None]) @ weight
    if sector.phase:  # (a + ib)(c + is)
        a, b = mixed.chunk(2, 2)
        mixed = torch.stack([a[:, 0] - b[:, 1], a[:, 1] + b[:, 0]], 1)
    start = 0
    for part in sector.outputs:
        for number, (row, sign) in enumerate(part.rows):
            yield part.kind, row, sign, mixed[:, number, start : start + part.kind.count]
        start += part.kind.count


def _joined(pieces: list[tuple[int, Tensor]], fields: SortedFields, degree: int, like: Tensor) -> Tensor:
    """One row of all copies of a degree; copies that no sector reaches are zero."""
    by_start = dict(pieces)
    columns = [
        by_start[kind.first] if kind.first in by_start else like.new_zeros(like.shape[0], kind.count)
        for kind in fields.kinds
        if kind.degree == degree
    ]
    return columns[0] if len(columns) == 1 else torch.cat(columns, 1)


def _isotropic(inputs: SortedFields, outputs: SortedFields) -> tuple[tuple[int, int], ...]:
    """Pairs of equal irreducibles, by number."""
    return tuple(
        (i, o)
        for i, a in enumerate(inputs.kinds)
        for o, b in enumerate(outputs.kinds)
        if (a.degree, a.natural) == (b.degree, b.natural)
    )


class _Channels(TableModule):
    """Which channels come where: sorted by degree, and back; and which of the output are scalars."""

    sort: Tensor
    unsort: Tensor
    scalars: Tensor

    def __init__(self, sort: Tensor, unsort: Tensor, scalars: Tensor) -> None:
        super().__init__()
        for name, table in (("sort", sort), ("unsort", unsort), ("scalars", scalars)):
            self.register_table(name, table)


@on_cpu
def _trivial_channels(field: FieldType) -> Tensor:
    channels, start = [], 0
    for atom in field.rho.atoms:
        if is_trivial(atom):
            channels.append(start)
        start += atom.dim
    return torch.tensor(channels, dtype=torch.int64)
