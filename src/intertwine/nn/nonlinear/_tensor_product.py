"""Quadratic maps: products of the values of a field, decomposed into representations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._cost_rules import cost_rules_enabled, paths_pay
from ..._devices import autocast_rounds, on_cpu, without_autocast
from ..._kept import Kept
from ...errors import EmptyKernelSpaceError, TypeMismatchError
from ...groups import O3, SO2, SO3, Cyclic, Dihedral, Octahedral, Representation, Symmetric, direct_sum
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, Sphere
from .._layer import Layer, pointwise_claim, register_layer
from .._traced import TracedLayer
from ..basis._hom import hom_basis, symmetric_square
from ..basis._mix import Mix, mix, mixing
from ..basis._summands import join, summands
from ..basis._tables import TableModule
from ._path_by_path import Path, PathProduct


@dataclass(frozen=True)
class _Pairs:
    """Products of channels that one representation acts on, for several pairs of copies.

    Attributes:
        rho: ρ1 ⊗ ρ2 for two fields, Sym²ρ for one field with itself.
        left: the channels of the first factors, ``(copies, D)``.
        right: the channels of the second factors.
        scale: ``(D,)``, from products to the coordinates s in which ρ acts.
        second_moment: ``(D,)``, the vector u with E ssᵀ = a·1 + uuᵀ for white noise.
        variance: a.
        factors: for two different fields, the channels of all copies of each, and the pairs of copies.
    """

    rho: Representation
    left: Tensor
    right: Tensor
    scale: Tensor
    second_moment: Tensor
    variance: float
    factors: tuple[Tensor, Tensor, Tensor | None] | None = None


@on_cpu
def _channels(rho: Representation) -> tuple[tuple[Representation, ...], list[Tensor]]:
    """The kinds of summands, and the channels of the copies of each kind, ``(n, d)``."""
    parts, start, channels = summands(rho), 0, []
    order = torch.arange(rho.dim) if parts.order is None else torch.argsort(parts.order)
    for kind, n in zip(parts.kinds, parts.counts, strict=True):
        channels.append(order[start : start + n * kind.dim].view(n, kind.dim))
        start += n * kind.dim
    return parts.kinds, channels


@on_cpu
def _squares(kind: Representation, channels: Tensor) -> _Pairs:
    """Each field with itself: products p ≤ q."""
    p, q = torch.triu_indices(kind.dim, kind.dim)
    same = p == q
    scale = (2.0 - same.to(torch.float64)).sqrt()
    return _Pairs(symmetric_square(kind), channels[:, p], channels[:, q], scale, same.to(torch.float64), 2.0)


@on_cpu
def _products(
    first: Representation, second: Representation, a: Tensor, b: Tensor, pairs: tuple[Tensor, Tensor] | None = None
) -> _Pairs:
    """Fields of one kind with fields of another, ``(n1, d1)`` and ``(n2, d2)``: these pairs of copies, or all."""
    i, j = torch.cartesian_prod(torch.arange(len(a)), torch.arange(len(b))).T if pairs is None else pairs
    left = a[i][:, :, None].expand(-1, -1, second.dim).flatten(1)
    right = b[j][:, None].expand(-1, first.dim, -1).flatten(1)
    ones = torch.ones(first.dim * second.dim, dtype=torch.float64)
    factors = a, b, None if pairs is None else i * len(b) + j
    return _Pairs(first @ second, left, right, ones, torch.zeros_like(ones), 1.0, factors)


@on_cpu
def _all_pairs(rho: Representation) -> list[_Pairs]:
    """Every product of two channels once."""
    kinds, channels = _channels(rho)
    pairs = []
    for kind, copies in zip(kinds, channels, strict=True):
        pairs.append(_squares(kind, copies))
        if len(copies) > 1:
            i, j = torch.triu_indices(len(copies), len(copies), 1)
            pairs.append(_products(kind, kind, copies, copies, (i, j)))
    for (first, a), (second, b) in combinations(zip(kinds, channels, strict=True), 2):
        pairs.append(_products(first, second, a, b))
    return pairs


class _Paths(TableModule):
    """The filter ``(d2, P)`` from products of channels to the output, linear in one weight per path."""

    def __init__(self, in_type: FieldType, out_type: FieldType) -> None:
        super().__init__()
        self._out = summands(out_type.rho)
        pairs = [(p, [hom_basis(p.rho, kind) for kind in self._out.kinds]) for p in _all_pairs(in_type.rho)]
        pairs = [(p, maps) for p, maps in pairs if any(len(basis) for basis in maps)]
        reaching = [sum(len(p.left) * len(maps[c]) for p, maps in pairs) for c in range(len(self._out.kinds))]
        for kind, paths in zip(self._out.kinds, reaching, strict=True):
            if not paths:
                raise EmptyKernelSpaceError(
                    "TensorProduct",
                    expected=f"a nonzero equivariant quadratic map from {in_type} to {kind.name}",
                    got="none",
                    fix="Omit this summand, or add fields whose products contain it: (rho1 @ rho2).decompose().",
                )
        self.register_table("left", torch.cat([p.left.flatten() for p, _ in pairs]))
        self.register_table("right", torch.cat([p.right.flatten() for p, _ in pairs]))
        if self._out.order is not None:
            self.register_table("rows", self._out.order)
        # Per block (kind of output, pairs): output copies, pairs of copies, number of maps, and their two dimensions.
        self._shapes: list[list[tuple[int, int, int, int, int]]] = []
        self._deviations: list[Tensor] = []
        for c, (kind, n) in enumerate(zip(self._out.kinds, self._out.counts, strict=True)):
            row = []
            for number, (p, maps) in enumerate(pairs):
                basis = maps[c]
                row.append((n, len(p.left), len(basis), kind.dim, basis.shape[2]))
                if len(basis):
                    energy = p.variance * basis.square().sum((1, 2)) + (basis @ p.second_moment).square().sum(1)
                    self._deviations.append((kind.dim / (reaching[c] * energy)).sqrt())
                    self.register_table(f"maps{c}_{number}", (basis * p.scale).flatten(1))
            self._shapes.append(row)
        self.paths = torch_nn.ModuleDict()
        self._split(pairs, out_type.dim)

    def _split(self, pairs: list[tuple[_Pairs, list[Tensor]]], d2: int) -> None:
        """Prepare products of two fields path by path, if that is less work."""
        paths = {
            f"{c}_{number}": Path(*p.factors, maps[c], n)
            for c, n in enumerate(self._out.counts)
            for number, (p, maps) in enumerate(pairs)
            if p.factors is not None and len(maps[c])
        }
        entries = d2 * sum(p.left.numel() for p, _ in pairs)
        if paths_pay(entries, sum(path.cost for path in paths.values())):
            self.paths = torch_nn.ModuleDict({name: PathProduct(path) for name, path in paths.items()})

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """Shapes of the weights: copies of the output, pairs of fields, independent maps between them."""
        return [(n, copies, k) for row in self._shapes for n, copies, k, _, _ in row if k]

    def initial_weights(self) -> list[Tensor]:
        """Normal weights that map unit white noise to mean square 1, with the same share for every path."""
        return [
            deviation.to(torch.get_default_dtype()).to(torch.get_default_device()) * torch.randn(shape)
            for deviation, shape in zip(self._deviations, self.shapes, strict=True)
        ]

    def by_path(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """The output ``(batch, d2)`` for values without space, path by path.

        Skips the filter on all products of channels, which for many fields costs more to build and apply than all paths
        together.
        """
        rest, rows, start = iter(weights), [], [0]
        for copies, size in ((copies, size) for _, copies, _, _, size in self._shapes[0]):
            start.append(start[-1] + copies * size)
        left, right = self.get_buffer("left"), self.get_buffer("right")
        for c, row in enumerate(self._shapes):
            total: Tensor | None = None
            for number, (n, copies, k, d, size) in enumerate(row):
                if not k:
                    continue
                weight, name = next(rest), f"{c}_{number}"
                if name in self.paths:
                    part = self.paths[name](x, weight)
                else:  # squares of single fields have no paths
                    block_range = slice(start[number], start[number + 1])
                    products = x.index_select(1, left[block_range]) * x.index_select(1, right[block_range])
                    block = torch.matmul(weight, self.get_buffer(f"maps{name}")).view(n, copies, d, size)
                    part = (products @ block.permute(1, 3, 0, 2).reshape(copies * size, n * d)).view(-1, n, d)
                total = part if total is None else total + part
            rows.append(total.flatten(1) if total is not None else x.new_zeros(x.shape[0], 0))
        out = rows[0] if len(rows) == 1 else torch.cat(rows, 1)
        return out if self._out.order is None else out.index_select(1, self.get_buffer("rows"))

    def forward(self, weights: list[Tensor]) -> Tensor:
        """The filter ``(d2, P)``."""
        rest, rows = iter(weights), []
        for c, row in enumerate(self._shapes):
            blocks = []
            for number, (n, copies, k, d, size) in enumerate(row):
                if k:
                    block = torch.matmul(next(rest), self.get_buffer(f"maps{c}_{number}"))
                    blocks.append(block.view(n, copies, d, size).transpose(1, 2).reshape(n * d, copies * size))
                else:
                    blocks.append(weights[0].new_zeros(n * d, copies * size))
            rows.append(join(blocks))
        out = rows[0] if len(rows) == 1 else torch.cat(rows, 0)
        return out if self._out.order is None else out.index_select(0, self.get_buffer("rows"))


class _Product(torch_nn.Module):
    """The arithmetic with a given filter and no branches on the input, for tracing the plain version."""

    def __init__(self, left: Tensor, right: Tensor, filter: Tensor) -> None:
        super().__init__()
        self.register_buffer("left", left)
        self.register_buffer("right", right)
        self.filter = torch_nn.Parameter(filter, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return _quadratic(x, self.get_buffer("left"), self.get_buffer("right"), self.filter, mix)


def _quadratic(x: Tensor, left: Tensor, right: Tensor, filter: Tensor, mix: Mix) -> Tensor:
    products = (x.index_select(1, left) * x.index_select(1, right)).unsqueeze(-1).flatten(2)
    return _with_space(mix(filter, products), x)


def _with_space(y: Tensor, x: Tensor) -> Tensor:
    """``(batch, d2, samples)`` with the spatial axes of ``x``."""
    return y.reshape(y.shape[:2] + x.shape[2:])


@register_layer
class TensorProduct(Layer):
    r"""y = Σ w_k T_k(f ⊗ f): every quadratic map from one type to another, one weight per map.

    T_k is a basis of the linear maps from the symmetric part of ρ1 ⊗ ρ1 to ρ2 that commute with the group: for SO(3)
    the Clebsch-Gordan couplings of every pair of fields with every field of the output, for a finite group the
    couplings that its characters count. There are dim Hom(Sym²ρ1, ρ2) weights; none is redundant.

    The work grows with the square of the number of channels: use few fields, or :class:`TensorSquare` followed by a
    convolution, which mixes fields.

    Shapes: ``(batch, d1, ...)`` to ``(batch, d2, ...)``. Equivariance: (ρ1 ⊗ ρ1)(h)(v ⊗ v) = ρ1(h)v ⊗ ρ1(h)v. Initial
    weights map unit white noise to mean square 1 in every field, with the same share for every path.

    Args:
        in_type: fields of any type.
        out_type: fields on the same space, each of which must occur in a product of two fields of the input.

    >>> so3 = SO3()
    >>> space = Grid3d(so3)
    >>> layer = TensorProduct(space.field(2 * so3.irrep(1)), space.field(so3.trivial + so3.irrep(1) + so3.irrep(2)))
    >>> [tuple(w.shape) for w in layer.weights]  # squares and products of the two vectors
    [(1, 2, 1), (1, 1, 1), (1, 1, 1), (1, 2, 1), (1, 1, 1)]
    """

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType) -> None:
        if in_type.space != out_type.space:
            raise TypeMismatchError(
                "TensorProduct",
                expected=f"an output type on {in_type.space.name}, like the input",
                got=str(out_type),
                fix="Build both from the same space: space.field(rho).",
            )
        super().__init__(in_type, out_type, pointwise_claim(in_type.space))
        self.paths = _Paths(in_type, out_type)
        self.weights = torch_nn.ParameterList([torch.empty(shape) for shape in self.paths.shapes])
        self._cache = Kept[tuple[Tensor, Tensor | None]]()
        self.reset_parameters()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O, G = Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3)
        H, so2, so3, o3 = G.subgroup([1]), SO2(), SO3(), O3()
        plane = Grid2d(D4)
        yield cls(
            plane.field(D4.irrep(1) + 2 * D4.trivial + D4.irrep(1)),
            plane.field(D4.irrep(1) + D4.regular + D4.irrep(0, -1) + D4.irrep(1)),
        )
        yield cls(Grid2d(C4).field(C4.regular + C4.irrep(1)), Grid2d(C4).field(C4.regular))
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial), Grid3d(O).field(O.irreps[4] + O.trivial + O.irreps[3]))
        cosets = HomogeneousSpace(G, H)
        yield cls(cosets.field(H.regular + H.irreps[1]), cosets.field(2 * H.regular))
        disk = Grid2d(so2)
        yield cls(disk.field(so2.trivial + so2.irrep(1)), disk.field(so2.trivial + so2.irrep(1) + so2.irrep(2)))
        yield cls(Grid3d(so3).field(2 * so3.irrep(1)), Grid3d(so3).field(so3.irrep(1) + so3.trivial + so3.irrep(2)))
        yield cls(Grid3d(o3).field(o3.irrep(1) + o3.trivial), Grid3d(o3).field(o3.irrep(2) + o3.irrep(1)))
        sphere = Sphere()
        yield cls(sphere.field(so2.trivial + so2.irrep(1)), sphere.field(so2.trivial + so2.irrep(1)))

    def reset_parameters(self) -> None:
        """Draw new weights."""
        with torch.no_grad():
            for weight, value in zip(self.weights, self.paths.initial_weights(), strict=True):
                weight.copy_(value)

    def expand(self) -> tuple[Tensor, None]:
        """The filter ``(d2, P)`` on the P products of channels, differentiable in the weights."""
        weights = list(self.weights)
        with without_autocast(weights[0]):  # autocast would round the filter here, and again in the product
            return self.paths(weights), None

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if x.ndim == 2 and self.paths.paths and cost_rules_enabled() and not autocast_rounds(x):
            return self.paths.by_path(x, list(self.weights))
        filter, _ = self.expand() if self.training else self._cache.get(self.expand, list(self.weights))
        return _quadratic(x, self.paths.get_buffer("left"), self.paths.get_buffer("right"), filter, mixing(x))

    def train(self, mode: bool = True) -> Self:
        """Set training mode and drop the kept filter."""
        self._cache.forget()
        super().train(mode)
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._cache.forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def to_plain(self) -> torch_nn.Module:
        """A graph of torch functions with the filter as a constant."""
        from torch.fx import symbolic_trace  # imported here because it is slow to import

        with torch.no_grad():
            filter, _ = self.expand()
        left, right = (self.paths.get_buffer(name).clone() for name in ("left", "right"))
        return symbolic_trace(_Product(left, right, filter.clone())).eval()


@register_layer
class TensorSquare(TracedLayer):
    """v ↦ v ⊗ v for every summand v, in irreducible coordinates: no weights, no mixing of fields.

    For every input field the output has the irreducibles of Sym²ρ, grouped by kind of summand: for n vectors of SO(3),
    n times (trivial + degree 2). Follow it with a convolution or a linear layer to mix them.

    Shapes: ``(batch, d1, ...)`` to ``(batch, d2, ...)`` with d(d+1)/2 channels per field of dimension d. Equivariance:
    as :class:`TensorProduct`. Each irreducible is scaled to map unit white noise to mean square 1.

    Args:
        in_type: fields of any type.

    >>> so3 = SO3()
    >>> TensorSquare(Grid3d(so3).field(2 * so3.irrep(1))).out_type
    Field(trivial + irrep(2) + trivial + irrep(2) on Grid3d(SO(3)))
    """

    @checked
    def __init__(self, in_type: FieldType) -> None:
        kinds, channels = _channels(in_type.rho)
        tables, out, maps = TableModule(), [], []
        for kind, copies in zip(kinds, channels, strict=True):
            pairs = _squares(kind, copies)
            irreps, matrix = _irreducible_squares(pairs)
            out += len(copies) * irreps
            maps.append((pairs, matrix))
        super().__init__(in_type, in_type.space.field(direct_sum(out)), pointwise_claim(in_type.space))
        self._shapes = [tuple(pairs.left.shape) for pairs, _ in maps]
        for number, (pairs, matrix) in enumerate(maps):
            tables.register_table(f"left{number}", pairs.left.flatten())
            tables.register_table(f"right{number}", pairs.right.flatten())
            tables.register_table(f"maps{number}", matrix)
        self.tables = tables

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O, G = Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3)
        H, so2, so3 = G.subgroup([1]), SO2(), SO3()
        yield cls(Grid2d(D4).field(D4.irrep(1) + 2 * D4.trivial + D4.irrep(1) + D4.irrep(0, -1)))
        yield cls(Grid2d(C4).field(C4.regular))
        yield cls(Grid3d(O).field(2 * O.irreps[3]))
        yield cls(HomogeneousSpace(G, H).field(2 * H.regular + H.irreps[1]))
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial))
        yield cls(Grid3d(so3).field(so3.irrep(1) + so3.trivial))
        yield cls(Sphere().field(so2.irrep(1) + so2.trivial))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self._map(x, mixing(x))

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return self._map(x, mix)

    def _map(self, x: Tensor, mix: Mix) -> Tensor:
        out = []
        for number, (count, size) in enumerate(self._shapes):
            left, right, matrix = (self.tables.get_buffer(f"{name}{number}") for name in ("left", "right", "maps"))
            products = (x.index_select(1, left) * x.index_select(1, right)).unsqueeze(-1).flatten(2)
            out.append(mix(matrix, products.unflatten(1, (count, size))).flatten(1, 2))
        return _with_space(join(out), x)


@on_cpu
def _irreducible_squares(pairs: _Pairs) -> tuple[list[Representation], Tensor]:
    """The irreducibles of Sym²ρ, and the matrix from products to their coordinates."""
    pieces = pairs.rho.decompose()
    inverse = pieces.basis.T if pairs.rho.is_orthogonal else torch.linalg.inv(pieces.basis)
    rows, start = [], 0
    for psi in pieces.irreps:
        row = inverse[start : start + psi.dim]
        energy = pairs.variance * row.square().sum() + (row @ pairs.second_moment).square().sum()
        rows.append(row * (psi.dim / energy).sqrt())
        start += psi.dim
    return list(pieces.irreps), torch.cat(rows) * pairs.scale
