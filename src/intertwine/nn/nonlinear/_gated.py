"""Fields of any type, scaled by gates between 0 and 1 that the network computes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ...groups import SO2, SO3, Cyclic, Dihedral, Octahedral, Symmetric
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, Sphere
from .._layer import Layer, pointwise_claim, register_layer
from .._traced import TracedLayer
from ..basis._summands import is_trivial, join


@register_layer
class Gated(TracedLayer):
    """v ↦ σ(s) v for every nontrivial summand v, with a scalar s per summand; φ(v) for trivial summands.

    You state the output type. ``in_type`` is ``out_type`` followed by the gates, one trivial field per nontrivial
    summand in the same order, so the layer before this one maps to ``Gated(out_type).in_type``. With the default φ a
    scalar is its own gate, φ(s) = σ(s) s.

    Shapes: ``(batch, d + gates, ...)`` to ``(batch, d, ...)``. Equivariance: s is invariant, and ρ(h)(s v) = s ρ(h)v
    for every representation, orthogonal or not.

    Args:
        out_type: the fields to return.
        gate: σ, an elementwise torch module; by default ``torch.nn.Sigmoid()``.
        activation: φ, an elementwise torch module; by default ``torch.nn.SiLU()``.

    >>> import torch
    >>> from intertwine.nn import Conv2d, Sequential
    >>> D4 = Dihedral(4); plane = Grid2d(D4)
    >>> gated = Gated(plane.field(2 * D4.trivial + 3 * D4.irrep(1)))
    >>> gated.in_type
    Field(2 trivial + 3 irrep(1) + 3 trivial on Grid2d(D4))
    >>> net = Sequential(Conv2d(plane.field(D4.trivial), gated.in_type, 3), gated)
    >>> net(torch.zeros(1, 1, 5, 5)).shape
    torch.Size([1, 8, 3, 3])
    """

    @checked
    def __init__(
        self,
        out_type: FieldType,
        *,
        gate: torch_nn.Module | None = None,
        activation: torch_nn.Module | None = None,
    ) -> None:
        pieces: list[tuple[int, int, int, int | None]] = []
        gates = start = 0
        kinds = {atom.digest: is_trivial(atom) for atom in out_type.rho.atoms}
        for (dim, trivial), group in groupby(out_type.rho.atoms, key=lambda atom: (atom.dim, kinds[atom.digest])):
            count = len(list(group))
            pieces.append((start, count, dim, None if trivial else gates))
            gates += 0 if trivial else count
            start += count * dim
        rho = out_type.rho + gates * out_type.space.stabilizer.trivial if gates else out_type.rho
        super().__init__(out_type.space.field(rho), out_type, pointwise_claim(out_type.space))
        self.gate = torch_nn.Sigmoid() if gate is None else gate
        self.activation = torch_nn.SiLU() if activation is None else activation
        self.gates, self._pieces = gates, pieces

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O, G = Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3)
        H = G.subgroup([1])
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.trivial + D4.regular + 2 * D4.irrep(1) + D4.trivial))
        yield cls(Grid2d(C4).field(2 * C4.trivial), activation=torch_nn.Tanh())
        yield cls(Grid3d(O).field(2 * O.irreps[3] + O.irreps[1]), gate=torch_nn.Tanh())
        yield cls(HomogeneousSpace(G, H).field(H.regular + H.irreps[1]))
        so2, so3 = SO2(), SO3()
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial + so2.irrep(2)))
        yield cls(Grid3d(so3).field(so3.irrep(1)))
        yield cls(Sphere().field(so2.trivial + so2.irrep(1)))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        factors = self.gate(x[:, self.out_type.dim :]) if self.gates else x
        out = []
        for start, count, dim, first_gate in self._pieces:
            part = x[:, start : start + count * dim]
            if first_gate is None:
                out.append(self.activation(part))
                continue
            factor = factors[:, first_gate : first_gate + count]
            if dim > 1:
                part, factor = part.unflatten(1, (count, dim)), factor[:, :, None]
            out.append((part * factor).flatten(1, 2) if dim > 1 else part * factor)
        return join(out)

    def extra_repr(self) -> str:
        """The fields and the number of gates."""
        return f"{self.out_type.rho}, {self.gates} gates"
