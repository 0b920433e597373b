"""Change of basis between a type as written and a sum of irreducibles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..._checked import checked
from ..._devices import on_cpu
from ...groups import SO2, SO3, Cyclic, Dihedral, Octahedral, Representation, Symmetric, direct_sum
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, Sphere
from .._layer import Exact, Layer, register_layer
from .._traced import TracedLayer
from ..basis._mix import Mix, mix, mixing
from ..basis._summands import summands
from ..basis._tables import TableModule


class IrreducibleBasis(TableModule):
    """Q⁻¹ and Q with Q⁻¹ρ(h)Q a sum of irreducibles: one small matrix per kind of summand, and a permutation.

    Attributes:
        irreps: the irreducibles; copies of one are neighbors.
    """

    def __init__(self, rho: Representation) -> None:
        super().__init__()
        parts = summands(rho)
        self._shapes = list(zip(parts.counts, (kind.dim for kind in parts.kinds), strict=True))
        self.irreps, order = _sorted(parts.kinds, parts.counts)
        self._turned = []
        for number, kind in enumerate(parts.kinds):
            basis, inverse = _basis(kind)
            self._turned.append(not torch.equal(basis, torch.eye(kind.dim, dtype=torch.float64, device="cpu")))
            if self._turned[-1]:
                self.register_table(f"into{number}", inverse)
                self.register_table(f"back{number}", basis)
        self._gathers = parts.order is not None
        if parts.order is not None:
            self.register_table("gathered", torch.argsort(parts.order))
            self.register_table("scattered", parts.order)
        self._sorts = not torch.equal(order, torch.arange(len(order), device="cpu"))
        if self._sorts:
            self.register_table("sorted", order)
            self.register_table("unsorted", torch.argsort(order))

    def into(self, x: Tensor, mix: Mix) -> Tensor:
        """Q⁻¹x."""
        if self._gathers:
            x = x.index_select(1, self.get_buffer("gathered"))
        x = self._product(x, "into", mix)
        return x.index_select(1, self.get_buffer("sorted")) if self._sorts else x

    def back(self, x: Tensor, mix: Mix) -> Tensor:
        """Qx, the inverse of :meth:`into`."""
        if self._sorts:
            x = x.index_select(1, self.get_buffer("unsorted"))
        x = self._product(x, "back", mix)
        return x.index_select(1, self.get_buffer("scattered")) if self._gathers else x

    def _product(self, x: Tensor, way: str, mix: Mix) -> Tensor:
        if not any(self._turned):
            return x
        start, out = 0, []
        for number, (count, dim) in enumerate(self._shapes):
            part = x[:, start : start + count * dim].unsqueeze(-1).flatten(2)  # one spatial axis, even if x has none
            if self._turned[number]:
                part = mix(self.get_buffer(f"{way}{number}"), part.unflatten(1, (count, dim))).flatten(1, 2)
            out.append(part)
            start += count * dim
        return (out[0] if len(out) == 1 else torch.cat(out, 1)).reshape(x.shape)


@on_cpu
def _basis(kind: Representation) -> tuple[Tensor, Tensor]:
    """Q and Q⁻¹ of one summand."""
    basis = kind.decompose().basis
    return basis, basis.T.contiguous() if kind.is_orthogonal else torch.linalg.inv(basis)


@on_cpu
def _sorted(kinds: Sequence[Representation], counts: Sequence[int]) -> tuple[list[Representation], Tensor]:
    """The irreducibles in order, and the position of each of their channels before sorting."""
    ranks = {psi.digest: rank for rank, psi in reversed(list(enumerate(direct_sum(kinds).decompose().irreps)))}
    placed, start = [], 0
    for kind, n in zip(kinds, counts, strict=True):
        pieces = kind.decompose().irreps
        for _ in range(n):
            for psi in pieces:
                placed.append((ranks[psi.digest], psi, range(start, start + psi.dim)))
                start += psi.dim
    placed.sort(key=lambda piece: piece[0])
    return [psi for _, psi, _ in placed], torch.tensor([c for _, _, channels in placed for c in channels])


@register_layer
class ToIrreps(TracedLayer):
    """f ↦ Q⁻¹f with Q⁻¹ρ(h)Q a direct sum of irreducibles, in which copies of one are neighbors.

    Q is orthogonal if ρ is. :meth:`inverse` is the layer that goes back.

    Shapes: any input of ``in_type`` to the same shape. Equivariance: exact on every space, because Q⁻¹ does not
    depend on position and intertwines ρ with the sum.

    Args:
        in_type: fields of any type.

    >>> C4 = Cyclic(4)
    >>> layer = ToIrreps(Grid2d(C4).field(2 * C4.regular))
    >>> layer.out_type
    Field(2 trivial + 2 irrep(1) + 2 irrep(2) on Grid2d(C4))
    >>> x = torch.randn(1, 8, 3, 3)
    >>> torch.allclose(layer.inverse()(layer(x)), x, atol=1e-6)
    True
    """

    @checked
    def __init__(self, in_type: FieldType) -> None:
        basis = IrreducibleBasis(in_type.rho)
        super().__init__(in_type, in_type.space.field(direct_sum(basis.irreps)), Exact())
        self.basis = basis

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        return (cls(field) for field in _example_types())

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.basis.into(x, mixing(x))

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return self.basis.into(x, mix)

    def inverse(self) -> FromIrreps:
        """The layer that undoes this one."""
        return FromIrreps(self.in_type)


@register_layer
class FromIrreps(TracedLayer):
    """f ↦ Qf, from a direct sum of irreducibles back to the type as written: the inverse of ToIrreps.

    Shapes and equivariance: those of :class:`ToIrreps`.

    Args:
        out_type: fields of any type; ``in_type`` is what ``ToIrreps(out_type)`` returns.

    >>> C4 = Cyclic(4)
    >>> FromIrreps(Grid2d(C4).field(C4.regular)).in_type
    Field(trivial + irrep(1) + irrep(2) on Grid2d(C4))
    """

    @checked
    def __init__(self, out_type: FieldType) -> None:
        basis = IrreducibleBasis(out_type.rho)
        super().__init__(out_type.space.field(direct_sum(basis.irreps)), out_type, Exact())
        self.basis = basis

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        return (cls(field) for field in _example_types())

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.basis.back(x, mixing(x))

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return self.basis.back(x, mix)

    def inverse(self) -> ToIrreps:
        """The layer that undoes this one."""
        return ToIrreps(self.out_type)


def _example_types() -> Iterator[FieldType]:
    C4, D4, O, G = Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3)
    H, so2, so3 = G.subgroup([1]), SO2(), SO3()
    yield Grid2d(D4).field(D4.irrep(1) + D4.regular + D4.trivial + D4.regular)
    yield Grid2d(C4).field(2 * C4.regular)
    yield Grid3d(O).field(O.quotient(O.subgroup([1])) + O.trivial)
    yield HomogeneousSpace(G, H).field(2 * H.regular + H.irreps[1])
    yield Grid3d(so3).field(so3.irrep(1) @ so3.irrep(1))
    yield Sphere().field(so2.irrep(1) @ so2.irrep(1) + so2.trivial)
