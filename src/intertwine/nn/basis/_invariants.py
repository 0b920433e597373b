"""The part of a field on which the group acts trivially, where biases and means live."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._devices import on_cpu
from ...groups import Representation
from ._summands import Summands, is_trivial, summands
from ._tables import TableModule


class Invariants(TableModule):
    """The vectors v with ρ(h)v = v: one coordinate per trivial component of ρ.

    For a permutation representation they are constant on the orbits of channels, and the coordinates are the values on
    the orbits. A bias is :meth:`forward` of free parameters; :meth:`coordinates` gives the invariant part of a mean.

    >>> from intertwine.groups import Dihedral
    >>> D4 = Dihedral(4)
    >>> Invariants(D4.trivial + 2 * D4.regular + D4.irrep(0, -1)).size
    3
    """

    number_of: Tensor

    def __init__(self, rho: Representation) -> None:
        super().__init__()
        self._parts = summands(rho)
        vectors = [invariant_vectors(kind) for kind in self._parts.kinds]
        self._numbers = [len(v) for v in vectors]
        self.size = sum(n * k for n, k in zip(self._parts.counts, self._numbers, strict=True))
        for number, value in enumerate(vectors):
            self.register_table(f"vectors{number}", value)
            self.register_table(f"duals{number}", (value / value.square().sum(1, keepdim=True)).T.contiguous())
        if self._parts.order is not None:
            self.register_table("order", self._parts.order)
        # If every channel belongs to exactly one invariant vector, one gather replaces the products.
        self._indexed = False
        if all(bool(((v == 0) | (v == 1)).all()) and bool((v.sum(0) == 1).all()) for v in vectors):
            self.register_table("number_of", _numbers(self._parts, vectors))
            self._indexed = True

    def forward(self, coordinates: Tensor) -> Tensor:
        """The vector ``(d,)`` with these coordinates ``(size,)``."""
        if self._indexed:
            return coordinates.index_select(0, self.number_of)
        start, out = 0, []
        for number, (n, k) in enumerate(zip(self._parts.counts, self._numbers, strict=True)):
            vectors = self.get_buffer(f"vectors{number}").to(coordinates.dtype)
            stop = start + n * k
            if k == 1:  # no sum needed
                out.append((coordinates[start:stop, None] * vectors).flatten())
            else:  # not a matrix product, which autocast would round
                out.append((coordinates[start:stop].view(n, k, 1) * vectors).sum(1).flatten())
            start = stop
        vector = out[0] if len(out) == 1 else torch.cat(out)
        return vector if self._parts.order is None else vector.index_select(0, self.get_buffer("order"))

    def extra_repr(self) -> str:
        """The number of coordinates."""
        return str(self.size)

    def coordinates(self, v: Tensor) -> Tensor:
        """The coordinates ``(size,)`` of the invariant part of a vector ``(d,)``, for an orthogonal ρ."""
        if self._parts.order is not None:
            v = torch.zeros_like(v).index_copy(0, self.get_buffer("order"), v)
        start, out = 0, []
        for number, (n, kind) in enumerate(zip(self._parts.counts, self._parts.kinds, strict=True)):
            stop = start + n * kind.dim
            duals = self.get_buffer(f"duals{number}").to(v.dtype)
            out.append((v[start:stop].view(n, kind.dim, 1) * duals).sum(1).flatten())
            start = stop
        return torch.cat(out)


@on_cpu
def _numbers(parts: Summands, vectors: list[Tensor]) -> Tensor:
    """The number of the coordinate that each channel shows."""
    start, out = 0, []
    for n, v in zip(parts.counts, vectors, strict=True):
        out.append((start + len(v) * torch.arange(n)[:, None] + v.argmax(0)).flatten())
        start += n * len(v)
    numbers = torch.cat(out)
    return numbers if parts.order is None else numbers[parts.order]


@on_cpu
def invariant_vectors(rho: Representation) -> Tensor:
    """A basis ``(m, d)`` of the invariant vectors; for a permutation representation the indicators of its orbits."""
    if is_trivial(rho):
        return torch.ones(1, 1, dtype=torch.float64)
    if rho.permutation_table is not None:
        orbit = rho.permutation_table.amin(0)
        return (orbit == torch.unique(orbit)[:, None]).to(torch.float64)
    pieces = rho.decompose()
    columns, start = [], 0
    for psi in pieces.irreps:
        if is_trivial(psi):
            columns.append(pieces.basis[:, start])
        start += psi.dim
    return torch.stack(columns) if columns else torch.zeros(0, rho.dim, dtype=torch.float64)
