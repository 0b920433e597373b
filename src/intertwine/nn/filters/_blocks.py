r"""One block of a filter from free weights: between two kinds of summands, for all copies at once.

A block maps weights ``(n2, n1, k)``, for n1 copies of ρ1 and n2 copies of ρ2, to filters ``(n2 d2, n1 d1, taps)``.
There are four ways; the first that applies is used:

- Both are permutation representations and H maps the lattice to itself: H permutes the entries (tap, row, column) of
  the filter, and entries of one orbit are equal. The filter is a gather, without any product.
- Both are the regular representation of a finite group: with functions φ_m on the plane,
  K[h2, h1, x] = Σ_m w[h2⁻¹h1, m] φ_m(h2⁻¹x), one small batched product. The weights are the coefficients of w over the
  group in an orthonormal basis of its irreducibles. This matters to optimizers that scale each weight on its own, such
  as Adam: the mean over the group is one weight. If each w[h] were a weight, all of them would move together, with
  large steps along the mean, and the running statistics of batch norm would lag behind
  (``benchmarks/initialization.py``).
- A dense basis from the solver is no larger than the filter, or small: it is contracted with the weights.
- Otherwise, harmonics on the taps and the maps that couple them to irreducibles; see ``_harmonic_block.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..._cost_rules import columns_at_once, flat_table_pays, product_first_pays
from ..._devices import on_cpu
from ...groups import FiniteGroup, Representation
from ...kernels import solve
from ...spaces import FieldType, Grid
from ..basis._tables import TableModule
from ._natural import Response, natural_correlation, natural_response
from ._sampling import DEFAULT, Sampling
from ._spread import spread

DENSE_TABLE = 1 << 12
"""The size up to which a dense basis may be larger than the filter made from it.

Not a cost rule, although it started as one: beyond it a block is made from harmonics, and its weights are coordinates
in another basis of the same kernels. Changing it would change what the weights in saved checkpoints mean.
"""


@dataclass(frozen=True)
class Table:
    """What a block is made from, computed once per pair of kinds and kernel size.

    Attributes:
        way: ``gather``, ``regular`` or ``dense``.
        norms: Σ|κ_k|² of the kernel κ_k of each weight.
        response: the response of all kernels together to natural images; see :class:`FilterBlock`.
        tensors: index tables, and bases in float64.
    """

    way: str
    norms: Tensor
    response: Response
    tensors: dict[str, Tensor]

    @property
    def weights(self) -> int:
        """The number of weights per pair of copies."""
        return len(self.norms)


def block_way(in_kind: FieldType, out_kind: FieldType) -> str:
    """``gather`` or ``regular`` if these apply to a pair of summands, else ``dense``."""
    space, group = in_kind.space, in_kind.space.stabilizer
    if isinstance(space, Grid) and space.exact and in_kind.rho.is_permutation and out_kind.rho.is_permutation:
        return "gather"
    if isinstance(group, FiniteGroup) and in_kind.rho == group.regular == out_kind.rho:
        return "regular"
    return "dense"


@lru_cache(maxsize=512)
@on_cpu
def block_table(
    in_kind: FieldType, out_kind: FieldType, kernel_size: tuple[int, ...], sampling: Sampling = DEFAULT
) -> Table:
    """The table of a pair of summands, for the way that :func:`block_way` names."""
    space, group = in_kind.space, in_kind.space.stabilizer
    way = block_way(in_kind, out_kind)
    p1, p2 = in_kind.rho.permutation_table, out_kind.rho.permutation_table
    if way == "gather" and isinstance(space, Grid) and p1 is not None and p2 is not None:
        return _gather_table(space, p1, p2, kernel_size)
    if way == "regular" and isinstance(group, FiniteGroup):
        return _regular_table(out_kind, group, kernel_size, sampling)
    basis_of = solve(in_kind, out_kind, kernel_size=kernel_size, allow_empty=True, **sampling.options)
    filters = basis_of.filters().flatten(3)
    basis = filters.flatten(1).contiguous()
    taps = natural_correlation(in_kind.space, kernel_size)  # type: ignore[arg-type]
    response = natural_response(filters, taps, in_kind.rho)
    return Table("dense", basis.square().sum(1), response, {"basis": basis})


def _gather_table(space: Grid, p1: Tensor, p2: Tensor, kernel_size: tuple[int, ...]) -> Table:
    """Number the orbits of H on the entries (row, column, tap)."""
    image = tap_images(space, kernel_size)
    taps, inside = image.shape[1], (image >= 0).all(0)  # orbits that leave the array (corners of a hexagon) are zero
    names = torch.full((p2.shape[1], p1.shape[1], int(inside.sum())), p2.shape[1] * p1.shape[1] * taps)
    for to2, to1, places in zip(p2, p1, image[:, inside], strict=True):  # the smallest entry names the orbit
        names = torch.minimum(names, (to2[:, None, None] * p1.shape[1] + to1[:, None]) * taps + places)
    numbers, index = torch.unique(names, return_inverse=True)
    padded = torch.zeros(p2.shape[1], p1.shape[1], taps, dtype=torch.int64)
    padded[..., inside] = index
    tensors = {"index": padded.flatten()}
    if not bool(inside.all()):
        tensors["mask"] = inside.to(torch.float64)
    norms = torch.bincount(index.flatten(), minlength=len(numbers)).to(torch.float64)
    response = _gather_response(p1, p2, image[:, inside], natural_correlation(space, kernel_size))
    return Table("gather", norms, response, tensors)


def _gather_response(p1: Tensor, p2: Tensor, places: Tensor, correlation: Tensor) -> Response:
    """Entries of one row that share a weight add up: those exchanged by an element that fixes the row."""
    start = places[0]  # under the identity
    uncorrelated = torch.zeros(p2.shape[1], p1.shape[1], len(start), dtype=torch.float64)
    shared, again = (
        torch.zeros_like(uncorrelated),
        torch.zeros_like(uncorrelated),
    )  # again: elements per entry
    for to2, to1, place in zip(p2, p1, places, strict=True):
        row = (to2 == torch.arange(len(to2)))[:, None, None]
        column = (to1 == torch.arange(len(to1)))[:, None]
        uncorrelated += (row & column) * correlation[start, place]
        shared += (row & ~column) * correlation[start, place]
        again += row & column & (place == start)
    return Response(float((uncorrelated / again).sum()), float((shared / again).sum()))


def tap_images(space: Grid, kernel_size: tuple[int, ...]) -> Tensor:
    """Where each element of H sends each tap, ``(|H|, taps)``; -1 outside the array."""
    taps = space.coordinates(kernel_size).reshape(-1, space.dimension)
    place = {tuple(tap): n for n, tap in enumerate(taps.tolist())}
    moved = torch.einsum("hij,xj->hxi", space.matrices(space.stabilizer.elements), taps) + 0.0
    return torch.tensor([[place.get(tuple(tap), -1) for tap in row] for row in moved.tolist()])


def _regular_table(kind: FieldType, group: FiniteGroup, kernel_size: tuple[int, ...], sampling: Sampling) -> Table:
    """The kernels trivial → regular are κ(x)[h] = φ(h⁻¹x) with φ free: they hold every φ_m, transformed by all h."""
    scalar = kind.space.field(group.trivial)
    solved = solve(scalar, kind, kernel_size=kernel_size, **sampling.options)
    turned = solved.filters().flatten(3)[:, :, 0]  # (m, |H|, taps)
    quotient = group.table[group.inverse(group.elements)]  # [h2, h1] = h2⁻¹ h1
    tensors = {
        "index": quotient.flatten(),
        "basis": turned.transpose(0, 1).contiguous(),
        "fourier": group.regular.decompose().basis,
    }
    norms = turned.square().sum((1, 2)).repeat(group.order)
    taps = natural_correlation(kind.space, kernel_size)  # type: ignore[arg-type]
    # No two channels of a field share a weight in one row, so their correlation makes no difference.
    response = Response(group.order * natural_response(turned[:, :, None], taps, group.trivial).uncorrelated)
    return Table("regular", norms, response, tensors)


class FilterBlock(TableModule):
    """The part of a filter between the copies of one summand and the copies of another, linear in its weights.

    Maps weights ``(n2, n1, k)`` to ``(n2 d2, n1 d1, taps)``; or, if ``spectral``, to the coefficients of harmonics on
    the taps, ``(n2 d2, n1 d1, harmonics)``.

    Attributes:
        copies: n2 and n1.
        d1: the dimension of the summand of the input.
        d2: the dimension of the summand of the output.
        norms: Σ|κ_k|² of the kernel of each weight, at one output position.
        response: Σ tr κ_k C κ_kᵀ over the kernels of all weights, where C is the correlation of taps and channels in
            fields made from natural images.
    """

    copies: tuple[int, int]
    d1: int
    d2: int
    norms: Tensor
    response: Response
    spectral = False

    @property
    def weights(self) -> int:
        """k, the number of weights per pair of copies."""
        return len(self.norms)


class Block(FilterBlock):
    """Weights ``(n2, n1, k)`` to filters ``(n2 d2, n1 d1, taps)``, linear and equivariant by construction.

    Weights are spread over the filter by one index per entry while that table is small, which is fastest for small
    layers; for wide layers by one index per entry of a single pair of copies (``_cost_rules.flat_table_pays``).

    Args:
        rho1: the summand of the input.
        rho2: the summand of the output.
        table: from :func:`block_table`.
        copies: n2 and n1.
    """

    index: Tensor
    basis: Tensor
    fourier: Tensor
    mask: Tensor
    flat: Tensor

    def __init__(self, rho1: Representation, rho2: Representation, table: Table, copies: tuple[int, int]) -> None:
        super().__init__()
        self.d1, self.d2, self.way, self.copies = rho1.dim, rho2.dim, table.way, copies
        self.norms, self.response = table.norms, table.response
        self._masked, self._flat, self._product_first = "mask" in table.tensors, False, False
        if table.way != "dense" and table.weights:
            self._flatten(table)
        for name, value in table.tensors.items():
            if name not in self._originals and not (name == "index" and self._flat):
                self.register_table(name, value)

    def _flatten(self, table: Table) -> None:
        """Build the index tables: number the weights, or their products with functions, and spread the numbers."""
        pairs, index = self.copies[0] * self.copies[1], table.tensors["index"]
        functions, taps = (1, 1) if self.way == "gather" else table.tensors["basis"].shape[1:]
        if self.way == "regular" and pairs > 1 and product_first_pays(pairs * len(index) * taps):
            # One product of all weights with all transformed functions is one large matrix product; an index then moves
            # each result to its entry. Spreading first would need a small product per row of the filter.
            basis = table.tensors["basis"].transpose(0, 1).flatten(1)
            self.register_table("basis", basis.contiguous())
            self._product_first = self._flat = True
            products = torch.arange(pairs * len(index) * taps, device="cpu").view(*self.copies, self.d2, self.d2, taps)
            h2 = torch.arange(self.d2, device="cpu")
            places = products[:, :, index.view(self.d2, -1), h2[:, None]].transpose(1, 2)
            self.register_table("flat", places.flatten().to(torch.int32))
            return
        if self.way == "regular":
            # A product with few columns is slow. A block-diagonal basis multiplies several h1 at once and has more.
            self._at_once = columns_at_once(self.d1, taps)
            diagonal = [torch.block_diag(*[turned] * self._at_once) for turned in table.tensors["basis"]]
            self.register_table("basis", torch.stack(diagonal))
        index = (index[:, None] * functions + torch.arange(functions, device="cpu")).view(self.d2, -1)
        if pairs < 2 or flat_table_pays(pairs * index.numel()):  # of one pair, both tables have the same size
            self._flat = True
            numbers = torch.arange(pairs * table.weights, device="cpu").view(*self.copies, -1)
            self.register_table("flat", spread(numbers, index).flatten().to(torch.int32))
        else:
            self.register_table("index", index)

    def forward(self, weight: Tensor) -> Tensor:
        n2, n1 = self.copies
        shape = n2 * self.d2, n1 * self.d1, -1
        if self.way == "dense":
            out = weight.flatten(0, 1) @ self.basis
            return out.view(n2, n1, self.d2, self.d1, -1).transpose(1, 2).reshape(shape)
        if self.way == "regular":  # from coefficients over irreducibles to values w[h]
            weight = torch.matmul(self.fourier, weight.view(n2, n1, self.d2, -1)).flatten(2)
        if self._product_first:
            products = weight.view(-1, self.basis.shape[0]) @ self.basis
            return products.view(-1).index_select(0, self.flat).view(shape)
        out = weight.view(-1).index_select(0, self.flat) if self._flat else spread(weight, self.index)
        if self.way == "regular":
            out = torch.matmul(out.view(n2, self.d2, n1 * self.d1 // self._at_once, -1), self.basis)
        out = out.reshape(shape)
        return out * self.mask if self._masked else out

    def extra_repr(self) -> str:
        """How the block is made, as shown by ``print(layer)``."""
        return f"{self.way}, {self.weights} weights for {self.d2} x {self.d1}"
