"""A strict convolution relaxed by low rank over orientations: K strict kernels, mixed differently for every one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

import torch
from torch import Tensor, nn

from ..._checked import checked
from ...errors import InputError
from ...groups import Dihedral, Representation
from ...nn import Conv2d, register_layer
from ...spaces import FieldType, Grid2d
from .._relaxed_layer import RelaxedLayer, add_noise_
from ._banked_conv import BankedConv
from ._position_conv import spread_banks
from ._strict_conv import require_strict_conv, types_of, weights_of


@register_layer
class OrientationConv(BankedConv):
    """(Φf)(x)_o = Σ_k c_k(o) (κ_k ⋆ f)(x)_o + b_o: K strict kernels, combined differently for every orientation o.

    The channels of a regular field are the orientations of the group, those of a quotient field its cosets; all fields
    of one kind share the combining weights c = softmax over k of a_k(o). Fields of other kinds, such as scalars and
    vectors, have no orientations and stay strict. Translations stay exact. The layer starts as the strict one: all c
    are 1/K, and the kernels are κ + δ_k with small random δ_k that add up to 0.

    Shapes: those of ``conv``. Equivariance: under translations as ``conv``; under the stabilizer where c does not
    depend on the orientation.

    Args:
        conv: where to start, with regular or quotient fields at its output.
        rank: K.
        spread: standard deviation of δ_k relative to the weights.

    References: Wang, Walters, Yu, *Approximately equivariant networks for imperfectly symmetric dynamics*, 2022.

    >>> plane = Grid2d("C4")
    >>> conv = Conv2d(plane.field("3*trivial"), plane.field("2*regular"), 3)
    >>> layer = OrientationConv(conv, rank=2)
    >>> x = torch.randn(2, 3, 8, 8)
    >>> torch.allclose(layer(x), conv(x), atol=1e-5), layer.claim
    (True, Relaxed(C4=0.0))
    """

    @checked
    def __init__(self, conv: nn.Module, *, rank: int = 2, spread: float = 0.1) -> None:
        strict = require_strict_conv(type(self).__name__, conv)
        if rank < 2:
            raise InputError(type(self).__name__, expected="a rank of 2 or more", got=str(rank))
        out_type = types_of(strict)[1]
        kinds = oriented_kinds(out_type)
        if not kinds:
            raise InputError(
                type(self).__name__,
                expected="regular or quotient fields at the output, whose channels are orientations",
                got=str(out_type),
            )
        super().__init__(strict, spread_banks(type(self).__name__, strict, rank, spread), None)
        like = weights_of(strict)[0].detach()
        self.logits = nn.ParameterList([nn.Parameter(like.new_zeros(rank, kind.dim)) for kind in kinds])
        self._columns = _columns(out_type, kinds)

    def reset_parameters(self) -> None:
        """Equal combining weights."""
        for table in self.logits:
            nn.init.zeros_(table)

    def coefficients(self) -> Tensor:
        """c, ``(K, out, 1, ...)``."""
        still = torch.zeros_like(self.logits[0][:, :1])  # fields without orientations
        table = torch.cat([still, *self.logits], 1)[:, self._columns].softmax(0)
        return table[(..., *[None] * self.window.dimension)]

    def penalty(self) -> Tensor:
        """Σ_k (c_k − mean c_k)², averaged over the orientations of each kind of field."""
        c = [table.softmax(0) for table in self.logits]
        return torch.stack([(w - w.mean(1, keepdim=True)).square().sum(0).mean() for w in c]).sum()

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """√ of the penalty."""
        return {"combining weights": float(self.penalty().sqrt())}

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """The combining weights become their means over the orientations."""
        for table in self.logits:
            mean = table.softmax(0).mean(1, keepdim=True)
            table.copy_(mean.clamp_min(torch.finfo(mean.dtype).tiny).log().expand_as(table))
        return self

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Noise on the logits."""
        for table in self.logits:
            add_noise_(table, scale, generator)
        return self

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """Regular and quotient fields beside scalars and vectors; a group that does not map the lattice to itself."""
        square = Dihedral(4)
        D4, C8 = Grid2d(square), Grid2d("C8")
        scalars, regular = D4.field("2*trivial"), D4.field("2*regular")
        yield cls(Conv2d(scalars, regular, 3, padding=1), rank=2)
        axes = square.quotient(square.subgroup([4]))
        mixed = D4.field(square.trivial + square.regular + square.irrep(1) + 2 * axes)
        yield cls(Conv2d(regular, mixed, 3, bias=False, padding=1, padding_mode="circular"), rank=3)
        yield cls(Conv2d(C8.field("trivial"), C8.field("2*regular"), 5, padding=2), rank=2)


def oriented_kinds(out_type: FieldType) -> list[Representation]:
    """The kinds of fields whose channels the group exchanges transitively, each once."""
    kinds: list[Representation] = []
    for atom in out_type.rho.atoms:
        if atom.dim > 1 and atom.is_permutation and atom not in kinds:
            kinds.append(atom)
    return kinds


def _columns(out_type: FieldType, kinds: list[Representation]) -> list[int]:
    """For each channel the column of its weights: 0 for channels without orientation, then kind after kind."""
    starts = [1 + sum(kind.dim for kind in kinds[:number]) for number in range(len(kinds))]
    columns: list[int] = []
    for atom in out_type.rho.atoms:
        if atom in kinds:
            first = starts[kinds.index(atom)]
            columns += range(first, first + atom.dim)
        else:
            columns += [0] * atom.dim
    return columns
