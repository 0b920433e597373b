"""Vectors that point where a field on the group is largest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..._checked import checked
from ..._devices import on_cpu
from ...errors import TypeMismatchError
from ...groups import Cyclic, Dihedral, FiniteGroup, Octahedral, Representation, direct_sum
from ...spaces import FieldType, Grid, Grid2d, Grid3d, Point
from .._layer import Approximate, Claim, Layer, pointwise_claim, register_layer
from .._traced import TracedLayer
from ..basis._summands import Run, join, split
from ..basis._tables import TableModule
from ._nonlinearity import require_permutation


@register_layer
class OrientationPool(TracedLayer):
    """v ↦ max(v, 0) u(argmax v): one vector per field, with the strongest channel as its direction (Marcos 2017).

    Channel i of a regular or quotient field stands for a vector u(i) with u(gi) = ψ(g) u(i). By default ψ is the
    representation on the plane or 3-space: for C_n, channel k stands for the unit vector at the angle 2πk/n. For D_n,
    an element stands for the image of the vector (1, 0), so for even n an element and its product with the mirror that
    fixes (1, 0) stand for the same vector; pass ``vector`` to tell them apart.

    Shapes: ``(batch, d, ...)`` to ``(batch, dim ψ · fields, ...)``. Equivariance: exact. Channels that share the
    maximum are averaged, so ties are no exception; if all channels are equal, the output is the mean of all u(i), which
    is 0 for irreducible ψ. Rotations that do not map the lattice to itself commute only approximately, because
    directions jump between neighboring samples.

    Args:
        in_type: regular or quotient fields of a finite group.
        psi: the representation ψ of the output; by default the one by which the group moves space.
        vector: u(0), the vector for channel 0, which must be fixed by the elements that fix channel 0; by default the
            part of the first basis vector that they fix, scaled to length 1.

    >>> C4 = Cyclic(4)
    >>> pool = OrientationPool(Grid2d(C4).field(C4.regular))
    >>> pool.out_type
    Field(irrep(1) on Grid2d(C4))
    >>> pool(torch.tensor([[0.5, 2.0, 1.0, -3.0]]))  # the second channel: a quarter turn
    tensor([[0., 2.]])
    """

    @checked
    def __init__(
        self, in_type: FieldType, *, psi: Representation | None = None, vector: Sequence[float] | None = None
    ) -> None:
        require_permutation("OrientationPool", in_type)
        psi = _vectors_of_space(in_type) if psi is None else psi
        out = in_type.space.field(direct_sum([psi] * len(in_type.rho.atoms)))
        claim: Claim = pointwise_claim(in_type.space)
        if isinstance(claim, Approximate):
            claim = Approximate("directions jump where another channel becomes the strongest", bound=0.5)
        super().__init__(in_type, out, claim)
        self.tables, self._parts = TableModule(), _runs_of_kinds(in_type.rho)
        for number, (kind, _) in enumerate(self._parts):
            self.tables.register_table(f"vectors{number}", _directions(kind, psi, vector))

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, C8, D4, D3, O = Cyclic(4), Cyclic(8), Dihedral(4), Dihedral(3), Octahedral()
        yield cls(Grid2d(C4).field(3 * C4.regular))
        yield cls(Grid2d(D4).field(2 * D4.regular + D4.quotient(D4.subgroup([4])) + D4.regular))
        yield cls(Grid2d(D4).field(D4.regular), psi=D4.irrep(1) + D4.irrep(0, -1), vector=(0.6, 0.8, 1.0))
        yield cls(Point(D3).field(2 * D3.regular))
        yield cls(Grid3d(O).field(O.regular))
        yield cls(Grid2d(C8).field(2 * C8.regular))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        out = []
        for number, part in enumerate(split(x, [run for _, run in self._parts])):
            largest = part.amax(2, keepdim=True)
            winners = (part == largest).to(part.dtype)
            vectors = self.tables.get_buffer(f"vectors{number}").to(part.dtype)
            mean = torch.einsum("ij,bcj...->bci...", vectors, winners / winners.sum(2, keepdim=True))
            out.append((torch.relu(largest) * mean).flatten(1, 2))
        return join(out)


def _runs_of_kinds(rho: Representation) -> list[tuple[Representation, Run]]:
    """Neighboring equal fields."""
    parts: list[tuple[Representation, Run]] = []
    for atom in rho.atoms:
        if parts and parts[-1][0] == atom:
            run = parts[-1][1]
            parts[-1] = atom, Run(run.start, run.stop + atom.dim, run.count + 1, atom.dim)
        else:
            start = parts[-1][1].stop if parts else 0
            parts.append((atom, Run(start, start + atom.dim, 1, atom.dim)))
    return parts


@on_cpu
def _vectors_of_space(field: FieldType) -> Representation:
    """How the group moves the plane or 3-space, as an irreducible if it is one."""
    group, space = field.space.stabilizer, field.space
    action = space.action if isinstance(space, Grid) else getattr(group, "standard", None)
    if not isinstance(group, FiniteGroup) or action is None:
        raise TypeMismatchError(
            "OrientationPool",
            expected="fields of a finite group of rotations and reflections",
            got=str(field),
            fix="Name the representation of the output: OrientationPool(field, psi=...).",
        )
    same = (psi for psi in group.irreps if psi.dim == action.dim and _equal(psi, action))
    return next(same, action)


def _equal(psi: Representation, rho: Representation) -> bool:
    return bool((psi.matrices - rho.matrices).abs().max() < 1e-12)


@on_cpu
def _directions(kind: Representation, psi: Representation, vector: Sequence[float] | None) -> Tensor:
    """The vectors u(i) of all channels, ``(dim ψ, d)``."""
    table, group = kind.permutation_table, kind.group
    table = torch.zeros(len(group.elements), 1, dtype=torch.int64) if table is None else table
    fixing = table[:, 0] == 0
    project = psi.matrices[fixing].mean(0)
    if vector is None:
        # The first basis vector, or the first one with a part that is fixed.
        lengths = torch.linalg.vector_norm(project, dim=0)
        candidates = torch.nonzero(lengths > 1e-6).flatten().tolist()
        u = project[:, candidates[0]] / lengths[candidates[0]] if candidates else None
    else:
        u = torch.tensor(list(vector), dtype=torch.float64)
        u = u if u.shape == (psi.dim,) and float((project @ u - u).abs().max()) < 1e-6 else None
    reached = len(table[:, 0].unique()) == kind.dim
    if u is None or not reached:
        raise TypeMismatchError(
            "OrientationPool",
            expected=f"a field whose channels the group all exchanges, and a vector of {psi.name} that the "
            f"{int(fixing.sum())} elements fix which fix channel 0",
            got=f"{kind.name} of {group.name}" + ("" if vector is None else f" and the vector {tuple(vector)}"),
            fix="Regular fields fit every psi and every vector.",
        )
    out = torch.zeros(psi.dim, kind.dim, dtype=torch.float64)
    out[:, table[:, 0]] = (psi.matrices @ u).T
    return out
