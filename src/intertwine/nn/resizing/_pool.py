"""Pooling over the channels of a field."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ..._checked import checked
from ...groups import Dihedral, direct_sum
from ...spaces import FieldType, Grid2d
from .._layer import Layer, pointwise_claim, register_layer
from .._traced import TracedLayer
from ..basis._summands import Per, join, runs, split
from ..nonlinear._nonlinearity import require_orthogonal, require_permutation


def _scalars(field: FieldType) -> FieldType:
    return field.space.field(len(field.rho.atoms) * field.space.stabilizer.trivial)


def _blocks(field: FieldType) -> FieldType:
    return field.space.field(direct_sum(atom.blocks for atom in field.rho.atoms))


@register_layer
class GroupPool(TracedLayer):
    """The maximum over the channels of each permutation field: one invariant value per field.

    Shapes: ``(batch, d, ...)`` to ``(batch, fields, ...)``. Equivariance: the maximum does not depend on the order.

    >>> GroupPool(Grid2d("C4").field("5*regular")).out_type
    Field(5 trivial on Grid2d(C4))
    """

    @checked
    def __init__(self, in_type: FieldType) -> None:
        require_permutation("GroupPool", in_type)
        super().__init__(in_type, _scalars(in_type), pointwise_claim(in_type.space))
        self._runs = runs(in_type.rho)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4 = Dihedral(4)
        yield cls(Grid2d(D4).field(2 * D4.regular + D4.quotient(D4.subgroup([4]))))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return join([part.amax(2) for part in split(x, self._runs)])


@register_layer
class NormPool(TracedLayer):
    """|v| of every summand v of an orthogonal representation: one invariant value per field.

    With ``per="coset"``, the norm of each block of an induced representation, one block per coset: a quotient field,
    whose maximum :class:`GroupPool` takes.

    Shapes: ``(batch, d, ...)`` to ``(batch, fields, ...)``. Equivariance: |ρ(h)v| = |v|.

    Args:
        in_type: fields of an orthogonal representation.
        eps: the smallest value returned.
        per: ``"field"`` for one norm per summand, ``"coset"`` for one per block (``rho.blocks``) of a summand.

    >>> NormPool(Grid2d("C4").field("irrep1")).out_type
    Field(trivial on Grid2d(C4))
    """

    @checked
    def __init__(self, in_type: FieldType, *, eps: float = 1e-6, per: Per = "field") -> None:
        require_orthogonal("NormPool", in_type)
        out_type = _scalars(in_type) if per == "field" else _blocks(in_type)
        super().__init__(in_type, out_type, pointwise_claim(in_type.space))
        self.eps, self._runs = eps, runs(in_type.rho, per)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4 = Dihedral(4)
        yield cls(Grid2d(D4).field(2 * D4.irrep(1) + D4.regular))
        induced = D4.induce(D4.subgroup([1]).irreps[1])
        yield cls(Grid2d(D4).field(induced + D4.irrep(1) + 2 * D4.regular), per="coset")

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks; eps gives the root a finite gradient at 0."""
        return join([part.square().sum(2).clamp_min(self.eps**2).sqrt() for part in split(x, self._runs)])
