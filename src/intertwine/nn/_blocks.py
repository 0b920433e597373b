r"""From free weights to one block of a filter: between one kind of summand and another, for all copies at once.

A block maps weights ``(n2, n1, k)``, for n1 copies of ρ1 and n2 copies of ρ2, to filters ``(n2 d2, n1 d1, taps)``.
There are three ways, the cheapest that fits is taken:

- Both are permutation representations and H keeps the lattice: H permutes the entries (tap, row, column) of the
  filter, and entries of one orbit are equal. The filter is a gather, without any product.
- Both are the regular representation of a finite group: with functions φ_m on the plane,
  K[h2, h1, x] = Σ_m w[h2⁻¹h1, m] φ_m(h2⁻¹x), one small batched product.
- Else a dense basis of the solver, contracted with the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..groups import FiniteGroup, Representation
from ..kernels import solve
from ..spaces import FieldType, Grid
from ._tables import TableModule, on_cpu

FLAT_TABLE = 1 << 20
"""The largest number of entries of a filter that is spread by one table of 4 bytes for each."""

PRODUCT_FIRST = 1 << 16
"""The largest number of entries of a regular filter for which one product before the spreading is faster."""


@dataclass(frozen=True)
class Table:
    """What a block is made from, computed once for each pair of kinds and kernel size.

    Attributes:
        way: ``gather``, ``regular`` or ``dense``.
        weights: how many weights each pair of copies has.
        energy: the mean of |K|² of one block if all weights have variance 1.
        tensors: index tables, and bases in float64.
    """

    way: str
    weights: int
    energy: float
    tensors: dict[str, Tensor]


@lru_cache(maxsize=512)
@on_cpu
def block_table(in_kind: FieldType, out_kind: FieldType, kernel_size: tuple[int, ...]) -> Table:
    """The table of a pair of summands, by the cheapest of the three ways."""
    space, group = in_kind.space, in_kind.space.stabilizer
    p1, p2 = in_kind.rho.permutation_table, out_kind.rho.permutation_table
    if isinstance(space, Grid) and space.exact and p1 is not None and p2 is not None:
        return _gather_table(space, p1, p2, kernel_size)
    if isinstance(group, FiniteGroup) and in_kind.rho == group.regular == out_kind.rho:
        return _regular_table(out_kind, group, kernel_size)
    basis = solve(in_kind, out_kind, kernel_size=kernel_size, allow_empty=True)
    filters = basis.filters()
    return Table("dense", len(filters), float(filters.square().sum()), {"basis": filters.flatten(1).contiguous()})


def _gather_table(space: Grid, p1: Tensor, p2: Tensor, kernel_size: tuple[int, ...]) -> Table:
    """Number the orbits of H on the entries (row, column, tap)."""
    taps = space.coordinates(kernel_size).reshape(-1, space.dimension)
    place = {tuple(tap): n for n, tap in enumerate(taps.tolist())}
    moved = torch.einsum("hij,xj->hxi", space.matrices(space.stabilizer.elements), taps) + 0.0
    image = torch.tensor([[place.get(tuple(tap), -1) for tap in row] for row in moved.tolist()])
    inside = (image >= 0).all(0)  # an orbit that leaves the array (the corners of a hexagon) is zero
    entries = (p2[:, :, None, None] * p1.shape[1] + p1[:, None, :, None]) * len(taps) + image[:, None, None, :]
    names = entries[..., inside].amin(0)  # the smallest entry of the orbit
    numbers, index = torch.unique(names, return_inverse=True)
    whole = torch.zeros(p2.shape[1], p1.shape[1], len(taps), dtype=torch.int64)
    whole[..., inside] = index
    tensors = {"index": whole.flatten()}
    if not bool(inside.all()):
        tensors["mask"] = inside.to(torch.float64)
    return Table("gather", len(numbers), float(names.numel()), tensors)


def _regular_table(kind: FieldType, group: FiniteGroup, kernel_size: tuple[int, ...]) -> Table:
    """The kernels trivial → regular are κ(x)[h] = φ(h⁻¹x) with φ free: they hold φ_m with all its turns."""
    scalar = kind.space.field(group.trivial)
    turned = solve(scalar, kind, kernel_size=kernel_size).filters().flatten(3)[:, :, 0]  # (m, |H|, taps)
    quotient = group.table[group.inverse(group.elements)]  # [h2, h1] = h2⁻¹ h1
    tensors = {"index": quotient.flatten(), "basis": turned.transpose(0, 1).contiguous()}
    return Table("regular", group.order * len(turned), group.order * float(turned.square().sum()), tensors)


class FilterBlock(TableModule):
    """The part of a filter between the copies of one summand and the copies of another, linear in its weights.

    Takes weights ``(n2, n1, k)`` to ``(n2 d2, n1 d1, taps)``.

    Attributes:
        copies: n2 and n1.
        d1: the dimension of the summand of the input.
        d2: the dimension of the summand of the output.
        weights: k, how many weights each pair of copies has.
        energy: Σ|K|² of one pair of copies at one place of the output, if all weights have variance 1.
    """

    copies: tuple[int, int]
    d1: int
    d2: int
    weights: int
    energy: float


class Block(FilterBlock):
    """Weights ``(n2, n1, k)`` to filters ``(n2 d2, n1 d1, taps)``, linear and equivariant by construction.

    Numbers are spread over the filter by one index for each entry as long as that table is small, which is the fastest
    way on little work; for wide layers by one index for each entry of a single pair of copies.

    Args:
        rho1: the summand of the input.
        rho2: the summand of the output.
        table: from :func:`block_table`.
        copies: n2 and n1.
    """

    index: Tensor
    basis: Tensor
    mask: Tensor
    flat: Tensor

    def __init__(self, rho1: Representation, rho2: Representation, table: Table, copies: tuple[int, int]) -> None:
        super().__init__()
        self.d1, self.d2, self.way, self.copies = rho1.dim, rho2.dim, table.way, copies
        self.weights, self.energy = table.weights, table.energy
        self._masked, self._flat, self._product_first = "mask" in table.tensors, False, False
        if table.way != "dense" and table.weights:
            self._flatten(table)
        for name, value in table.tensors.items():
            if name not in self._originals and not (name == "index" and self._flat):
                self.register_table(name, value)

    def _flatten(self, table: Table) -> None:
        """Number the weights, or the products of weights and functions, and spread the numbers the slow way."""
        pairs, index = self.copies[0] * self.copies[1], table.tensors["index"]
        functions, taps = (1, 1) if self.way == "gather" else table.tensors["basis"].shape[1:]
        if self.way == "regular" and pairs * len(index) * taps <= PRODUCT_FIRST:
            # Each weight meets all turns of its functions at once, and the products find their places.
            basis = table.tensors["basis"].transpose(0, 1).flatten(1)
            self.register_table("basis", basis.contiguous())
            self._product_first = self._flat = True
            products = torch.arange(pairs * len(index) * taps, device="cpu").view(*self.copies, self.d2, self.d2, taps)
            h2 = torch.arange(self.d2, device="cpu")
            spread = products[:, :, index.view(self.d2, -1), h2[:, None]].transpose(1, 2)
            self.register_table("flat", spread.flatten().to(torch.int32))
        elif pairs * len(index) * functions <= FLAT_TABLE:
            self._flat = True
            numbers = torch.arange(pairs * table.weights, device="cpu").view(*self.copies, -1)
            self.register_table("flat", self._spread(numbers, index).flatten().to(torch.int32))

    def _spread(self, weight: Tensor, index: Tensor) -> Tensor:
        """Weights repeated over the entries: ``(n2, d2, n1, d1 taps)``, or ``(n2, d2, n1 d1, m)`` for regular."""
        n2, n1 = self.copies
        if self.way == "gather":
            return weight.index_select(2, index).view(n2, n1, self.d2, -1).transpose(1, 2)
        by_element = weight.view(n2, n1, self.d2, -1).index_select(2, index)
        return by_element.view(n2, n1, self.d2, self.d1, -1).transpose(1, 2).flatten(2, 3)

    def forward(self, weight: Tensor) -> Tensor:
        n2, n1 = self.copies
        shape = n2 * self.d2, n1 * self.d1, -1
        if self.way == "dense":
            out = weight.flatten(0, 1) @ self.basis
            return out.view(n2, n1, self.d2, self.d1, -1).transpose(1, 2).reshape(shape)
        if self._product_first:
            products = weight.view(-1, self.basis.shape[0]) @ self.basis
            return products.view(-1).index_select(0, self.flat).view(shape)
        out = weight.view(-1).index_select(0, self.flat) if self._flat else self._spread(weight, self.index)
        if self.way == "regular":
            out = torch.matmul(out.view(n2, self.d2, n1 * self.d1, -1), self.basis)
        out = out.reshape(shape)
        return out * self.mask if self._masked else out

    def extra_repr(self) -> str:
        """How the block is made, as shown by ``print(layer)``."""
        return f"{self.way}, {self.weights} weights for {self.d2} x {self.d1}"
