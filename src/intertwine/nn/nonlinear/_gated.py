"""Fields of any type, scaled by gates between 0 and 1 that the network computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ...errors import InputError, TypeMismatchError
from ...groups import SO2, SO3, Cyclic, Dihedral, Octahedral, Representation, Symmetric, direct_sum
from ...spaces import Cloud3d, FieldType, Grid2d, Grid3d, HomogeneousSpace, Sphere
from .._layer import Layer, field_companion, pointwise_claim, register_layer
from .._traced import TracedLayer
from ..basis._summands import Per, Run, is_trivial, join, runs


@dataclass(frozen=True)
class _Piece:
    """Neighboring fields alike: their channels, and the first of their gates, one per block; None if trivial."""

    run: Run
    first_gate: int | None


@register_layer
class Gated(TracedLayer):
    """v ↦ σ(s) v for every nontrivial summand v, with a scalar s per summand; φ(v) for trivial summands.

    You state the output type. ``in_type`` is ``out_type`` followed by the gates, one trivial field per nontrivial
    summand in the same order, so the layer before this one maps to ``Gated(out_type).in_type``. With the default φ a
    scalar is its own gate, φ(s) = σ(s) s.

    With ``gates="given"``, the gates are a second input of type ``gate_type``, and ``in_type`` is ``out_type``. With
    ``per="coset"``, an induced representation has one gate for each of its blocks, one block per coset; the gates are
    then quotient fields, which the group permutes like the blocks.

    Shapes: ``(batch, d + gates, ...)`` to ``(batch, d, ...)``, or ``(batch, d, ...)`` and ``(batch, gates, ...)``.
    Equivariance: s is invariant, and ρ(h)(s v) = s ρ(h)v for every representation, orthogonal or not.

    Args:
        out_type: the fields to return.
        gate: σ, an elementwise torch module; by default ``torch.nn.Sigmoid()``.
        activation: φ, an elementwise torch module; by default ``torch.nn.SiLU()``.
        gates: ``"appended"`` to the fields, or ``"given"`` as a second input.
        per: ``"field"`` for one gate per summand, ``"coset"`` for one per block (``rho.blocks``) of a summand.

    >>> import torch
    >>> from intertwine.nn import Conv2d, Sequential
    >>> D4 = Dihedral(4); plane = Grid2d(D4)
    >>> gated = Gated(plane.field(2 * D4.trivial + 3 * D4.irrep(1)))
    >>> gated.in_type
    Field(2 trivial + 3 irrep(1) + 3 trivial on Grid2d(D4))
    >>> net = Sequential(Conv2d(plane.field(D4.trivial), gated.in_type, 3), gated)
    >>> net(torch.zeros(1, 1, 5, 5)).shape
    torch.Size([1, 8, 3, 3])
    >>> two_inputs = Gated(plane.field(2 * D4.irrep(1)), gates="given")
    >>> two_inputs.gate_type
    Field(2 trivial on Grid2d(D4))
    >>> two_inputs(torch.zeros(1, 4, 3, 3), torch.zeros(1, 2, 3, 3)).shape
    torch.Size([1, 4, 3, 3])
    """

    @checked
    def __init__(
        self,
        out_type: FieldType,
        *,
        gate: torch_nn.Module | None = None,
        activation: torch_nn.Module | None = None,
        gates: Literal["appended", "given"] = "appended",
        per: Per = "field",
    ) -> None:
        space, trivial = out_type.space, out_type.space.stabilizer.trivial
        gated = [atom for atom in out_type.rho.atoms if not is_trivial(atom)]
        kinds = [trivial if per == "field" else atom.blocks for atom in gated]
        if gates == "given" and not kinds:
            raise TypeMismatchError("Gated", expected="fields that take gates", got=f"scalars only, {out_type}")
        self.gate_type = space.field(direct_sum(kinds)) if kinds else None
        rho = direct_sum([out_type.rho, *kinds]) if gates == "appended" else out_type.rho
        super().__init__(space.field(rho), out_type, pointwise_claim(space))
        self.gate = torch_nn.Sigmoid() if gate is None else gate
        self.activation = torch_nn.SiLU() if activation is None else activation
        self.gates, self._pieces = sum(kind.dim for kind in kinds), _pieces(out_type.rho, per)
        if gates == "given":
            self.companions = (field_companion("gates", space.field(direct_sum(kinds))),)
            self.traced_method = "compute_given"

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
        induced = D4.induce(D4.subgroup([1]).irreps[1])
        yield cls(Grid2d(D4).field(D4.irrep(1) + 2 * induced + D4.trivial), per="coset")
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.trivial + 2 * induced), per="coset", gates="given")
        yield cls(Cloud3d("O(3)").field("2*irrep1 + irrep0"), gates="given")
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial), gates="given")

    def forward(self, x: Tensor, gates: Tensor | None = None) -> Tensor:
        self.check_input(x)
        if not self.companions:
            if gates is not None:
                raise InputError("Gated", expected="one input: the gates are its last channels", got="two inputs")
            return self.compute(x)
        expected = len(x), self.gates, *x.shape[2:]
        if gates is None or gates.shape != expected:
            got = "none" if gates is None else f"shape {tuple(gates.shape)}"
            raise InputError("Gated", expected=f"gates of shape {expected}, fields of {self.gate_type}", got=got)
        return self.compute_given(x, gates)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return self.compute_given(x, x[:, self.out_type.dim :])

    def compute_given(self, x: Tensor, gates: Tensor) -> Tensor:
        """The map without checks, with gates as a second input."""
        factors = self.gate(gates) if self.gates else gates
        out = []
        for piece in self._pieces:
            run, first = piece.run, piece.first_gate
            part = x[:, run.start : run.stop]
            if first is None:
                out.append(self.activation(part))
                continue
            factor = factors[:, first : first + run.count]
            if run.dim > 1:
                part, factor = part.unflatten(1, (run.count, run.dim)), factor[:, :, None]
            out.append((part * factor).flatten(1, 2) if run.dim > 1 else part * factor)
        return join(out)

    def extra_repr(self) -> str:
        """The fields and the number of gates."""
        return f"{self.out_type.rho}, {self.gates} gates" + (" given" if self.companions else "")


def _pieces(rho: Representation, per: Per) -> list[_Piece]:
    """Runs of trivial fields, and runs of fields alike with the number of their first gate."""
    pieces, gates, start = [], 0, 0
    for trivial, group in groupby(rho.atoms, key=is_trivial):
        part = direct_sum(group)
        for run in runs(part, "field" if trivial else per):
            moved = replace(run, start=start + run.start, stop=start + run.stop)
            pieces.append(_Piece(moved, None if trivial else gates))
            gates += 0 if trivial else run.count
        start += part.dim
    return pieces
