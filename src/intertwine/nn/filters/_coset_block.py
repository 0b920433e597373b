r"""The part of an equivariant matrix between one kind of summand on G/H1 and another on G/H2.

The matrix is T[a, x; b, y] = κ(s2(x)⁻¹ s1(y))[a, b]. If both are permutation representations, G permutes its entries,
entries of one orbit are equal, and the matrix is a gather. Otherwise the kernel κ_C on G/H1, a small product of weights
and basis, is copied to all pairs of points and multiplied by the twist ρ1(h1(s2(x)⁻¹ s1(y))).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..._devices import on_cpu
from ...groups import Representation
from ...kernels import KernelBasis, solve
from ...spaces import FieldType, HomogeneousSpace
from ..basis._summands import is_trivial
from ._blocks import FilterBlock
from ._natural import Response


@dataclass(frozen=True)
class CosetTable:
    """What a block is made from: a gather by ``index`` alone, or a ``basis`` of κ_C with its transport."""

    norms: Tensor
    index: Tensor
    basis: Tensor | None
    twist: Tensor | None


class CosetBlock(FilterBlock):
    """Weights ``(n2, n1, k)`` to matrices ``(n2 d2, n1 d1, points2 points1)``, equivariant by construction."""

    index: Tensor
    basis: Tensor
    twist: Tensor

    def __init__(self, in_kind: FieldType, out_kind: FieldType, copies: tuple[int, int]) -> None:
        super().__init__()
        table = coset_table(in_kind, out_kind)
        self.copies, self.d1, self.d2 = copies, in_kind.dim, out_kind.dim
        # The points of G/H have no order, so the response is to white noise rather than to natural images.
        self.norms, self.response = table.norms, Response(float(table.norms.sum()))
        self._dense, self._twisted = table.basis is not None, table.twist is not None
        self.register_table("index", table.index)
        if table.basis is not None:
            self.register_table("basis", table.basis)
        if table.twist is not None:
            self.register_table("twist", table.twist)

    def forward(self, weight: Tensor) -> Tensor:
        n2, n1 = self.copies
        if not self._dense:
            out = weight.index_select(2, self.index).view(n2, n1, self.d2, self.d1, -1)
        else:
            kappa = (weight.flatten(0, 1) @ self.basis).view(n2 * n1, -1, self.d2, self.d1)
            out = kappa.index_select(1, self.index)  # κ_C at s2(x)⁻¹ y for all pairs of points
            if self._twisted:
                out = out @ self.twist
            out = out.permute(0, 2, 3, 1).view(n2, n1, self.d2, self.d1, -1)
        return out.transpose(1, 2).reshape(n2 * self.d2, n1 * self.d1, -1)

    def extra_repr(self) -> str:
        """How the block is made, as shown by ``print(layer)``."""
        return f"{'twisted' if self._dense else 'gather'}, {self.weights} weights for {self.d2} x {self.d1}"


@lru_cache(maxsize=256)
@on_cpu
def coset_table(in_kind: FieldType, out_kind: FieldType) -> CosetTable:
    """The table of a pair of summands."""
    space1, space2 = in_kind.space, out_kind.space
    if isinstance(space1, HomogeneousSpace) and isinstance(space2, HomogeneousSpace):
        p1, p2 = _permutations(in_kind.rho), _permutations(out_kind.rho)
        if p1 is not None and p2 is not None:
            index = _orbits(_moves(space2, p2), _moves(space1, p1))
            n = index.view(out_kind.dim, space2.points, in_kind.dim, space1.points).permute(0, 2, 1, 3)
            norms = torch.bincount(n.flatten()).to(torch.float64) / space2.points
            return CosetTable(norms, n.flatten(), None, None)
    basis: KernelBasis = solve(in_kind, out_kind, allow_empty=True)
    kappa = basis.on_cosets()
    index, twist = basis.transport()
    trivial = bool((twist == torch.eye(in_kind.dim, dtype=twist.dtype)).all())
    # The basis is orthonormal on G/H1, and each output sees all of κ_C once.
    norms = kappa.square().sum((1, 2, 3))
    return CosetTable(norms, index, kappa.flatten(1).contiguous(), None if trivial else twist)


def _permutations(rho: Representation) -> Tensor | None:
    """``(|H|, d)``: where each element sends the basis vectors; None unless it permutes them."""
    if is_trivial(rho):
        return torch.zeros(rho.group.order, 1, dtype=torch.int64)  # type: ignore[attr-defined]
    return rho.permutation_table


def _moves(space: HomogeneousSpace, p: Tensor) -> Tensor:
    """Where each generator of G sends each entry (channel, point) of a field: ``(generators, d points)``."""
    g = torch.as_tensor(space.group.generators, dtype=torch.int64)
    channel = p[space.cocycle_table[g]].transpose(1, 2)  # (generators, d, points)
    return (channel * space.points + space.action[g][:, None, :]).flatten(1)


def _orbits(rows: Tensor, columns: Tensor) -> Tensor:
    """The number of the orbit of every entry of a matrix whose rows and columns the generators permute."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, m = rows.shape[1], columns.shape[1]
    source = torch.arange(n * m).repeat(len(rows))
    target = (rows[:, :, None] * m + columns[:, None, :]).flatten()
    graph = coo_array((torch.ones(len(source)).numpy(), (source.numpy(), target.numpy())), shape=(n * m, n * m))
    _, labels = connected_components(graph, directed=False)
    return torch.from_numpy(labels.astype("int64"))
