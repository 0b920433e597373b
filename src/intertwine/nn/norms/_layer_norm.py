"""Normalization of each sample on its own: over its channels, groups of fields, or single fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import group_norm

from ..._checked import checked
from ..._devices import on_cpu
from ...errors import InputError, TypeMismatchError
from ...groups import SO2, Cyclic, Dihedral, Octahedral, Representation, Symmetric
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, Sphere, Zooms
from .._layer import Approximate, Layer, pointwise_claim, register_layer, statistics_claim
from .._traced import TracedLayer
from ..basis._fields import Fields
from ..basis._invariants import Invariants, invariant_vectors
from ..nonlinear._nonlinearity import require_orthogonal


class _Affine(TracedLayer):
    """The base class: one factor per field and one shift per invariant, or neither."""

    def __init__(self, in_type: FieldType, *, eps: float, affine: bool) -> None:
        require_orthogonal(type(self).__name__, in_type)
        super().__init__(in_type, in_type, pointwise_claim(in_type.space))
        self.eps = eps
        self.fields, self.invariants = Fields(in_type), Invariants(in_type.rho)
        self.weight = torch_nn.Parameter(torch.ones(len(in_type.rho.atoms))) if affine else None
        self.bias = torch_nn.Parameter(torch.zeros(self.invariants.size)) if affine else None
        self.fields.register_table("center", _center(in_type.rho))

    def reset_parameters(self) -> None:
        """Set all factors to 1 and all shifts to 0."""
        if self.weight is not None and self.bias is not None:
            torch_nn.init.ones_(self.weight)
            torch_nn.init.zeros_(self.bias)

    def per_channel(self) -> tuple[Tensor | None, Tensor | None]:
        """Factor and shift of each channel."""
        if self.weight is None or self.bias is None:
            return None, None
        return self.fields(self.weight), self.invariants(self.bias)

    @property
    def center(self) -> Tensor:
        """The vector e along which the mean is taken."""
        return self.fields.get_buffer("center")


@on_cpu
def _center(rho: Representation) -> Tensor:
    """The sum of the invariant vectors of all summands: 1 in each channel of a permutation type, 0 in vectors."""
    centers = {atom.digest: invariant_vectors(atom).sum(0) for atom in {a.digest: a for a in rho.atoms}.values()}
    return torch.cat([centers[atom.digest] for atom in rho.atoms])


@on_cpu
def _group_tables(rho: Representation, groups: int) -> tuple[dict[str, Tensor], bool]:
    """Weights that turn sums over the channels of a group into means, and whether torch's group norm does the same."""
    fields, e = len(rho.atoms), _center(rho)
    dims = torch.tensor([atom.dim for atom in rho.atoms])
    group_of = torch.repeat_interleave(torch.arange(fields) // (fields // groups), dims)
    sizes = torch.bincount(group_of).to(torch.float64)
    square = torch.zeros(groups, dtype=torch.float64).index_add(0, group_of, e.square())
    inverse = torch.where(square > 0, 1 / square.clamp_min(1e-300), 0.0)
    tables = {"group_of": group_of, "along": e * inverse[group_of], "share": (1 / sizes)[group_of]}
    return tables, bool((e == 1).all()) and len(set(sizes.tolist())) == 1


@register_layer
class LayerNorm(_Affine):
    """γ (f - μe)/σ + β at each position of each sample, with one μ and one σ over all channels.

    e is the sum of the invariant vectors: 1 in the channels that the group permutes, 0 in vectors that have no trivial
    component. μ = e·f/|e|² is the mean of those channels, and σ² = |f - μe|²/d. One σ for all fields preserves their
    relative sizes, as ``torch.nn.LayerNorm`` does for channels; γ has one entry per summand, and β has one per trivial
    component. On trivial fields it is ``torch.nn.LayerNorm`` over the channels.

    Shapes: any input of ``in_type`` to the same shape. Equivariance: e·f and |f| are invariant for an orthogonal ρ.

    Args:
        in_type: fields of an orthogonal representation.
        eps: added to σ².
        affine: whether γ and β are learned.

    >>> D4 = Dihedral(4)
    >>> y = LayerNorm(Grid2d(D4).field(4 * D4.regular))(3 + 2 * torch.randn(2, 32, 5, 5))
    >>> bool(y.mean(1).abs().max() < 1e-5), bool((y.var(1, correction=0) - 1).abs().max() < 1e-2)
    (True, True)
    """

    @checked
    def __init__(self, in_type: FieldType, *, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(in_type, eps=eps, affine=affine)
        if isinstance(in_type.space, Zooms):
            because = "scalings resample a field, and where it is small the division enlarges the error"
            self._claim = Approximate(because, bound=float("inf"))
        e = _center(in_type.rho)
        self._centers, self._plain = bool(e.any()), bool((e == 1).all())
        self._square = float(e.square().sum())

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        so2 = SO2()
        yield from (cls(field) for field in _example_types())
        yield cls(Grid2d(so2).field(so2.irrep(1) + 2 * so2.trivial))
        yield cls(Grid2d(so2).field(2 * so2.irrep(1)), affine=False)
        yield cls(Sphere().field(2 * so2.trivial + so2.irrep(1)))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        y = x.unsqueeze(-1).flatten(2)  # one spatial axis, even if the input has none
        if self._plain:
            y = y - y.mean(1, keepdim=True)
        elif self._centers:
            e = self.center[:, None]
            y = y - (y * e).sum(1, keepdim=True) * (e / self._square)
        y = y * torch.rsqrt(y.square().mean(1, keepdim=True) + self.eps)
        weight, bias = self.per_channel()
        if weight is not None and bias is not None:
            y = torch.addcmul(bias[:, None], y, weight[:, None])
        return y.reshape(x.shape)


@register_layer
class GroupNorm(_Affine):
    """γ (f - μe)/σ + β with one μ and one σ per sample and per group of neighboring fields.

    Like :class:`LayerNorm`, with means over space and over the channels of the group. On trivial fields it is
    ``torch.nn.GroupNorm``.

    Shapes: ``(batch, d, *space)`` to the same. Equivariance: e·f and |f| are invariant for an orthogonal ρ, and motions
    permute the positions.

    Args:
        in_type: fields of an orthogonal representation; not on the sphere, where samples represent unequal areas.
        num_groups: the number of groups; it divides the number of fields.
        eps: added to σ².
        affine: whether γ and β are learned.

    >>> C4 = Cyclic(4)
    >>> GroupNorm(Grid2d(C4).field(6 * C4.regular), 3)(torch.randn(2, 24, 5, 5)).shape
    torch.Size([2, 24, 5, 5])
    """

    needs_space = True

    @checked
    def __init__(self, in_type: FieldType, num_groups: int, *, eps: float = 1e-5, affine: bool = True) -> None:
        caller, count = type(self).__name__, len(in_type.rho.atoms)
        if isinstance(in_type.space, Sphere):
            raise TypeMismatchError(
                caller,
                expected="fields on a grid or on a finite space, where all positions have equal weight",
                got=str(in_type),
                fix="Use LayerNorm, which normalizes each position on its own.",
            )
        if num_groups < 1 or count % num_groups:
            raise InputError(
                caller,
                expected=f"num_groups to be a divisor of the {count} fields of {in_type.rho.name}",
                got=str(num_groups),
                fix=f"For example {next(n for n in range(min(count, 8), 0, -1) if count % n == 0)}.",
            )
        super().__init__(in_type, eps=eps, affine=affine)
        self._claim = statistics_claim(in_type.space)
        self.num_groups = num_groups
        tables, self._plain = _group_tables(in_type.rho, num_groups)
        for name, value in tables.items():
            self.fields.register_table(name, value)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        yield from (cls(field, 1 if len(field.rho.atoms) % 2 else 2) for field in _example_types())

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        weight, bias = self.per_channel()
        if self._plain:
            return group_norm(x, self.num_groups, weight, bias, self.eps)
        y = x.unsqueeze(-1).flatten(2)  # one spatial axis, even if the input has none
        mean = self._sum(y.mean(2) * self.fields.get_buffer("along"))  # (batch, d)
        y = y - (mean * self.center)[:, :, None]
        square = self._sum(y.square().mean(2) * self.fields.get_buffer("share"))
        scale = torch.rsqrt(square + self.eps)[:, :, None]
        if weight is None or bias is None:
            return (y * scale).reshape(x.shape)
        return torch.addcmul(bias[:, None], y, scale * weight[:, None]).reshape(x.shape)

    def _sum(self, v: Tensor) -> Tensor:
        """The sum over each group, ``(batch, d)`` to ``(batch, d)``."""
        group_of = self.fields.get_buffer("group_of")
        return v.new_zeros(v.shape[0], self.num_groups).index_add(1, group_of, v).index_select(1, group_of)

    def extra_repr(self) -> str:
        """The type and the groups."""
        return f"{self.in_type.rho}, num_groups={self.num_groups}"


@register_layer
class InstanceNorm(GroupNorm):
    """γ (f - μe)/σ + β with one μ and one σ per sample and field: :class:`GroupNorm` with single fields.

    On trivial fields it is ``torch.nn.InstanceNorm2d``.

    >>> C4 = Cyclic(4)
    >>> InstanceNorm(Grid2d(C4).field(3 * C4.regular + C4.irrep(1)))(torch.randn(2, 14, 5, 5)).shape
    torch.Size([2, 14, 5, 5])
    """

    @checked
    def __init__(self, in_type: FieldType, *, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(in_type, len(in_type.rho.atoms), eps=eps, affine=affine)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        yield from (cls(field) for field in _example_types())

    def extra_repr(self) -> str:
        """The type."""
        return f"{self.in_type.rho}"


def _example_types() -> Sequence[FieldType]:
    C4, D4, O, G = Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3)
    H = G.subgroup([1])
    return (
        Grid2d(C4).field(4 * C4.regular),
        Grid2d(D4).field(D4.irrep(1) + D4.regular + 2 * D4.irrep(0, -1) + D4.trivial + D4.irrep(1)),
        Grid3d(O).field(O.irreps[3] + 2 * O.trivial + O.irreps[3]),
        HomogeneousSpace(G, H).field(2 * H.regular + H.irreps[1] + H.trivial),
    )
