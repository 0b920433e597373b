"""Nonlinearities that commute with the group: on the channels of permutation types, on the norms of other fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._devices import on_cpu
from ...errors import TypeMismatchError
from ...groups import SO2, Cyclic, Dihedral, Octahedral, Symmetric
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, ScaleSpace, Sphere
from .._layer import Layer, pointwise_claim, register_layer
from .._traced import TracedLayer
from ..basis._summands import Per, join, permutes, runs, split


@register_layer
class Pointwise(Layer):
    """(Φf)(x)_c = φ(f(x)_c), for representations that permute the channels (trivial, regular, quotient).

    Shapes: any input of ``in_type`` to the same shape. Equivariance: a permutation only renames the channels, so
    ρ(h)φ(v) = φ(ρ(h)v). For any other representation this fails, and the layer raises an error.

    Args:
        in_type: fields of permutation type.
        function: an elementwise torch module without random numbers, such as ``torch.nn.SiLU()``.

    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4)
    >>> Pointwise(Grid2d(C4).field(2 * C4.regular), torch_nn.SiLU())(torch.zeros(1, 8, 3, 3)).shape
    torch.Size([1, 8, 3, 3])
    """

    @checked
    def __init__(self, in_type: FieldType, function: torch_nn.Module) -> None:
        require_permutation(type(self).__name__, in_type)
        super().__init__(in_type, in_type, pointwise_claim(in_type.space))
        self.function = function

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, O, G = Cyclic(4), Octahedral(), Symmetric(3)
        H = G.subgroup([1])
        yield Pointwise(Grid2d(C4).field(C4.trivial + 2 * C4.regular), torch_nn.SiLU())
        yield Pointwise(Grid3d(O).field(O.quotient(O.subgroup([1])) + O.trivial), torch_nn.GELU())
        yield Pointwise(HomogeneousSpace(G, H).field(H.regular + H.trivial), torch_nn.Tanh())
        yield Pointwise(Sphere().field(2 * SO2().trivial), torch_nn.LeakyReLU())

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.function(x)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Every sample."""
        return 1, 0

    def to_plain(self) -> torch_nn.Module:
        """A copy of the function."""
        return deepcopy(self.function)


@register_layer
class ReLU(Pointwise):
    """max(f, 0) on every channel of a permutation type; see :class:`Pointwise`.

    >>> D4 = Dihedral(4)
    >>> ReLU(Grid2d(D4).field(D4.irrep(1)))
    Traceback (most recent call last):
        ...
    intertwine.errors.TypeMismatchError: ReLU: expected a representation that permutes the channels (trivial, regular,
    quotient); got irrep(1) of D4. Use NormNonlinearity (any orthogonal type), Gated (any type), TensorProduct (any
    type) or FourierNonlinearity (irreducibles that make up functions on the group).
    """

    @checked
    def __init__(self, in_type: FieldType, *, inplace: bool = False) -> None:
        super().__init__(in_type, torch_nn.ReLU(inplace=inplace))

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, C8 = Dihedral(4), Cyclic(8)
        yield ReLU(Grid2d(D4).field(D4.regular + D4.quotient(D4.subgroup([4]))))
        yield ReLU(Grid2d(C8).field(C8.regular))
        yield ReLU(ScaleSpace(base=1.25, count=6).field("2*trivial"))


@register_layer
class ELU(Pointwise):
    """f for f > 0, else α(exp f - 1), on every channel of a permutation type; see :class:`Pointwise`."""

    @checked
    def __init__(self, in_type: FieldType, *, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(in_type, torch_nn.ELU(alpha, inplace=inplace))

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4 = Cyclic(4)
        yield ELU(Grid2d(C4).field(C4.regular))


@register_layer
class NormNonlinearity(TracedLayer):
    """v ↦ max(|v| + b, 0) v/|v| for every summand v of an orthogonal representation, with one b per summand.

    With ``per="coset"``, the norm is taken over each block of an induced representation, one block per coset: the group
    exchanges the blocks and preserves their norms.

    Shapes: any input of ``in_type`` to the same shape. Equivariance: |ρ(h)v| = |v|.

    Args:
        in_type: fields of an orthogonal representation.
        bias: the initial value of all b; a negative b sets short vectors to 0.
        eps: the smallest norm to divide by.
        per: ``"field"`` for one norm per summand, ``"coset"`` for one per block (``rho.blocks``) of a summand.

    >>> C4 = Cyclic(4)
    >>> layer = NormNonlinearity(Grid2d(C4).field(C4.irrep(1) + C4.regular), bias=-1.0)
    >>> bool((layer(0.1 * torch.ones(1, 6, 1, 1)) == 0).all())
    True
    """

    @checked
    def __init__(self, in_type: FieldType, *, bias: float = 0.0, eps: float = 1e-6, per: Per = "field") -> None:
        require_orthogonal("NormNonlinearity", in_type)
        super().__init__(in_type, in_type, pointwise_claim(in_type.space))
        self.eps, self._runs = eps, runs(in_type.rho, per)
        self._start = bias
        self.bias = torch_nn.Parameter(torch.full((len(in_type.rho.atoms),), float(bias)))

    def reset_parameters(self) -> None:
        """Reset all b to their initial value."""
        torch_nn.init.constant_(self.bias, self._start)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, O, G, so2 = Dihedral(4), Octahedral(), Symmetric(3), SO2()
        H = G.subgroup([1])
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.trivial + 2 * D4.irrep(1)), bias=-0.3)
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial), bias=0.2)
        yield cls(HomogeneousSpace(G, H).field(H.irreps[1] + H.regular), bias=-0.3)
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial), bias=0.2)
        yield cls(Sphere().field(so2.irrep(1)), bias=0.2)
        induced = D4.induce(D4.subgroup([1]).irreps[1])
        yield cls(Grid2d(D4).field(D4.irrep(1) + 2 * induced + D4.regular), bias=-0.3, per="coset")

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        start, out = 0, []
        y = x.unsqueeze(-1).flatten(2)  # one spatial axis, even if the input has none
        for run, part in zip(self._runs, split(y, self._runs), strict=True):
            norm = part.square().sum(2, keepdim=True).clamp_min(self.eps**2).sqrt()
            stop = start + run.count // run.blocks
            bias = self.bias[start:stop].view(-1, 1).expand(-1, run.blocks).reshape(-1, 1, 1)
            out.append((part * (torch.relu(norm + bias) / norm)).flatten(1, 2))
            start = stop
        return join(out).reshape(x.shape)


_INSTEAD = {
    "Dropout": "per='field', which fits every type",
    "GroupPool": "NormPool, which fits every orthogonal type",
    "AdaptiveMaxPool": "AdaptiveAvgPool, which fits every type",
    "MaxBlurPool": "BlurPool2d or BlurPool3d, which fit every type",
    "MaxPool2d": "AvgPool2d or BlurPool2d, which fit every type",
    "MaxPool3d": "AvgPool3d or BlurPool3d, which fit every type",
}
_NONLINEARITIES = (
    "NormNonlinearity (any orthogonal type), Gated (any type), TensorProduct (any type) or FourierNonlinearity "
    "(irreducibles that make up functions on the group)"
)


@on_cpu
def require_permutation(caller: str, field: FieldType) -> None:
    """Raise an error that names alternatives unless ρ permutes the channels."""
    if not permutes(field.rho):
        wrong = next(atom for atom in field.rho.atoms if not permutes(atom))
        alternatives = _INSTEAD.get(caller, _NONLINEARITIES)
        raise TypeMismatchError(
            caller,
            expected="a representation that permutes the channels (trivial, regular, quotient)",
            got=f"{wrong.name} of {wrong.group.name}",
            fix=f"Use {alternatives}.",
        )


@on_cpu
def require_orthogonal(caller: str, field: FieldType) -> None:
    """Raise an error unless ρ preserves norms."""
    if not field.rho.is_orthogonal:
        raise TypeMismatchError(
            caller,
            expected="an orthogonal representation",
            got=f"{field.rho}",
            fix="Use the irreducibles of the group, or a permutation representation.",
        )
