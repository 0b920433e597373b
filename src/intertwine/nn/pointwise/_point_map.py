"""Pointwise linear maps between fields, multiplied in the irreducible basis if that is less work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from ..._cost_rules import irreducible_basis_pays, layout_cost
from ..._devices import on_cpu
from ..._kept import Kept
from ...spaces import FieldType
from ..basis._invariants import Invariants
from ..basis._summands import summands
from ..basis._tables import TableModule
from ..filters._blocks import Block, block_table
from ._block_product import BlockDiagonal, DiagonalBlock
from ._irreducible import IrreducibleRows

Expanded = tuple[Tensor, Tensor | None]


class _Pair(NamedTuple):
    """A pair of kinds (j of the output, i of the input), and the widths of every ψ that they share."""

    j: int
    i: int
    copies: tuple[int, int]
    shared: tuple[tuple[str, int, int], ...]


class PointMap(TableModule):
    """f(x) ↦ A2 Ŵ A1⁻¹ f(x) + b, with Ŵ block diagonal over the irreducibles: a filter of one tap, never expanded.

    The weights are those of ``FilterExpansion(in_type, out_type, (1, 1))``. The blocks Ŵ are linear in them; for
    regular fields they are the Fourier transform of the weights over the group. Between regular fields an irreducible
    of dimension d costs d³/|H|² of the dense matrix's multiplications if it has real type, and half of that if it has
    complex type. The dense matrix is never built.

    Args:
        in_type: fields on a grid.
        out_type: fields on the same grid.
    """

    def __init__(self, in_type: FieldType, out_type: FieldType) -> None:
        super().__init__()
        self.incoming, self.outgoing = IrreducibleRows(in_type.rho), IrreducibleRows(out_type.rho)
        self.shape = block_diagonal(self.incoming, self.outgoing)
        self._pairs, tables = self._fourier(in_type, out_type)
        for name, table in tables.items():
            self.register_table(name, table)
        self._cache = Kept[Expanded]()

    @property
    def gain(self) -> int:
        """Multiplications saved per sample, minus the cost of the change of basis."""
        shape = self.shape
        moves = sum(layout_cost(side.dim, turned=not side.is_identity) for side in (self.incoming, self.outgoing))
        return shape.rows * shape.columns - shape.work - moves

    def pays(self, x: Tensor) -> bool:
        """Whether this should be faster than a product with the dense matrix.

        Never under autocast or off the CPU, where it has not been measured, nor for channels-last tensors, which would
        lose their layout. A compiled graph serves all sizes, so there the number of samples does not count.
        """
        if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return False
        if torch.compiler.is_compiling():
            return irreducible_basis_pays(self.gain, None)
        if x.ndim == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
            return False
        return irreducible_basis_pays(self.gain, x.numel() // max(x.shape[1], 1))

    @on_cpu
    def _fourier(self, in_type: FieldType, out_type: FieldType) -> tuple[tuple[_Pair, ...], dict[str, Tensor]]:
        """Per pair of kinds, the matrix from its weights to the entries of its blocks."""
        pairs, tables = [], {}
        ins, outs = summands(in_type.rho), summands(out_type.rho)
        for j, i in product(range(len(outs.kinds)), range(len(ins.kinds))):
            filters = point_filters(in_type.space.field(ins.kinds[i]), out_type.space.field(outs.kinds[j]))
            if not len(filters):
                continue
            rows, columns = self.outgoing.bases[j], self.incoming.bases[i]
            turned = rows.inverse @ filters @ columns.basis
            entries, shared, bottom = [], [], 0
            for c2 in rows.components:
                right = 0
                for c1 in columns.components:
                    if c1.psi == c2.psi:  # blocks are equal for all a: take the first
                        block = turned[:, bottom : bottom + c2.width, right : right + c1.width]
                        entries.append(block.flatten(1))
                        shared.append((c1.psi.digest, c2.width, c1.width))
                    right += c1.repeats * c1.width
                bottom += c2.repeats * c2.width
            tables[f"fourier{j}_{i}"] = torch.cat(entries, 1).T.contiguous()
            pairs.append(_Pair(j, i, (outs.counts[j], ins.counts[i]), tuple(shared)))
        return tuple(pairs), tables

    def blocks(self, weights: Sequence[Tensor]) -> Tensor:
        """All matrices of Ŵ in one flat vector, differentiable in the weights."""
        entries: dict[tuple[str, int, int], Tensor] = {}
        for pair, weight in zip(self._pairs, weights, strict=True):
            n2, n1 = pair.copies
            turned = self.get_buffer(f"fourier{pair.j}_{pair.i}") @ weight.reshape(n2 * n1, -1).T
            parts = turned.split([m2 * m1 for _, m2, m1 in pair.shared])
            for (digest, m2, m1), part in zip(pair.shared, parts, strict=True):
                matrix = part.view(m2, m1, n2, n1).transpose(1, 2).reshape(m2 * n2, m1 * n1)
                entries[digest, pair.j, pair.i] = matrix
        flat = []
        for digest in (digest for digest in self.outgoing.places if digest in self.incoming.places):
            rows = []
            for j in self.outgoing.owners(digest):
                row = [entries[digest, j, i] for i in self.incoming.owners(digest)]
                rows.append(row[0] if len(row) == 1 else torch.cat(row, 1))
            flat += [row.flatten() for row in rows]
        return flat[0] if len(flat) == 1 else torch.cat(flat)

    def expand(self, weights: Sequence[Tensor], bias: Tensor | None) -> Expanded:
        """The blocks, and the coordinates of an invariant bias ``(d2,)``."""
        return self.blocks(weights), None if bias is None else self.outgoing.invariant_rows(bias)

    def kept(self, weights: Sequence[Tensor], bias: Tensor | None, invariants: Invariants) -> Expanded:
        """The result of :meth:`expand`, kept in evaluation mode while no gradient of the weights can be needed."""

        def expand() -> Expanded:
            return self.expand(weights, None if bias is None else invariants(bias))

        if self.training:
            return expand()
        return self._cache.get(expand, [*weights] if bias is None else [*weights, bias])

    def forward(self, x: Tensor, blocks: Tensor, bias: Tensor | None) -> Tensor:
        """``(batch, d1, ...)`` to ``(batch, d2, ...)``, with blocks and bias from :meth:`expand`."""
        return self.outgoing.leave(self.shape(self.incoming.enter(x), blocks, bias), x.shape[0], x.shape[2:])

    def train(self, mode: bool = True) -> Self:
        """Set training mode and drop what was kept."""
        self._cache.forget()
        return super().train(mode)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._cache.forget()
        return super()._apply(fn, recurse)

    def extra_repr(self) -> str:
        """The share of the dense matrix's multiplications that remains."""
        return f"{self.shape.work / (self.shape.rows * self.shape.columns):.3g} of the dense products"


def point_map(in_type: FieldType, out_type: FieldType) -> PointMap | None:
    """The map in the irreducible basis; None if the dense product is less work for any number of samples."""
    best = in_type.dim * out_type.dim - layout_cost(in_type.dim + out_type.dim, turned=False)
    if not irreducible_basis_pays(best, None):  # even if no product remained; skips a decomposition
        return None
    point = PointMap(in_type, out_type)
    return point if irreducible_basis_pays(point.gain, None) else None


@lru_cache(maxsize=512)
@on_cpu
def point_filters(in_kind: FieldType, out_kind: FieldType) -> Tensor:
    """The matrix that belongs to each weight, at one tap: ``(k, d2, d1)`` in float64."""
    sizes = (1,) * in_kind.space.dimension  # type: ignore[attr-defined]
    table = block_table(in_kind, out_kind, sizes)
    if not table.weights:
        return torch.zeros(0, out_kind.dim, in_kind.dim, dtype=torch.float64)
    block = Block(in_kind.rho, out_kind.rho, table, (table.weights, 1)).double()
    units = torch.eye(table.weights, dtype=torch.float64)[:, None]
    return block(units).view(table.weights, out_kind.dim, in_kind.dim)


def block_diagonal(incoming: IrreducibleRows, outgoing: IrreducibleRows) -> BlockDiagonal:
    """One block per irreducible that both types contain."""
    blocks, gaps, size = [], [], 0
    for digest, place in outgoing.places.items():
        source = incoming.places.get(digest)
        if source is None:
            gaps.append((place.start, place.stop))
            continue
        shape = (place.width, source.width)
        blocks.append(DiagonalBlock(place.repeats, shape, size, place.start, source.start))
        size += shape[0] * shape[1]
    holes = [(p.start, p.stop) for digest, p in incoming.places.items() if digest not in outgoing.places]
    trivial = outgoing.trivial
    shifted = (0, 0) if trivial is None else (trivial.start, trivial.stop)
    return BlockDiagonal(outgoing.dim, incoming.dim, size, tuple(blocks), tuple(gaps), tuple(holes), shifted)
