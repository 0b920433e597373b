"""Batch normalization of fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import batch_norm

from ..._checked import checked
from ...groups import SO2, Cyclic, Dihedral, Octahedral, Symmetric
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, ScaleSpace
from .._layer import Claim, Layer, axis_names, pointwise_claim, register_layer, statistics_claim
from ..basis._fields import Fields
from ..basis._invariants import Invariants
from ..basis._summands import summands
from ..nonlinear._nonlinearity import require_orthogonal


@register_layer
class BatchNorm(Layer):
    """γ (f - μ)/σ + β with one σ and γ per summand, and μ and β in the trivial components only.

    μ is the invariant part of the mean over batch and space, σ² the mean of |f - μ|² over batch, space and the channels
    of the summand. A regular field shares mean and variance over its |H| channels, as in group convolution networks.

    Shapes: ``(batch, d, *space)`` to the same. Equivariance: μ is invariant and σ a scalar on each summand of an
    orthogonal representation. In training, transforming a whole batch does not change its statistics, except for
    scalings, which change areas; evaluation does not have this limit.

    Args:
        in_type: fields of an orthogonal representation.
        eps: added to σ².
        momentum: the weight of the newest batch in the running statistics.
        affine: whether γ and β are learned.

    >>> D4 = Dihedral(4)
    >>> layer = BatchNorm(Grid2d(D4).field(4 * D4.regular))
    >>> y = layer(3 + 2 * torch.randn(8, 32, 5, 5))
    >>> bool(y.mean().abs() < 1e-5), bool((y.var() - 1).abs() < 1e-2)
    (True, True)
    """

    needs_space = True
    running_mean: Tensor
    running_var: Tensor

    @checked
    def __init__(self, in_type: FieldType, *, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True) -> None:
        require_orthogonal("BatchNorm", in_type)
        super().__init__(in_type, in_type, pointwise_claim(in_type.space))
        self.eps, self.momentum = eps, momentum
        fields = len(in_type.rho.atoms)
        self.invariants = Invariants(in_type.rho)
        self.fields = Fields(in_type)
        self.register_buffer("running_mean", torch.zeros(self.invariants.size))
        self.register_buffer("running_var", torch.ones(fields))
        self.weight = torch_nn.Parameter(torch.ones(fields)) if affine else None
        self.bias = torch_nn.Parameter(torch.zeros(self.invariants.size)) if affine else None
        kinds = summands(in_type.rho).kinds
        # For one transitive permutation representation all channels of a field share statistics, so torch's batch norm
        # can treat each field as one channel, in one fused call.
        self._flat = (
            len(kinds) == 1 and self.invariants.size == fields and bool(kinds[0].dim == 1 or _is_transitive(kinds[0]))
        )

    @property
    def claim(self) -> Claim:
        """In training, that of the statistics of a batch."""
        return statistics_claim(self.in_type.space) if self.training else self._claim

    def reset_parameters(self) -> None:
        """Set mean 0, variance 1, γ = 1 and β = 0."""
        with torch.no_grad():
            for ones in (self.running_var, self.weight):
                if ones is not None:
                    ones.fill_(1)
            for zeros in (self.running_mean, self.bias):
                if zeros is not None:
                    zeros.zero_()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O, G, so2 = Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3), SO2()
        H = G.subgroup([1])
        yield cls(Grid2d(C4).field(3 * C4.regular))
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.regular + 2 * D4.irrep(0, -1) + D4.trivial))
        yield cls(Grid3d(O).field(O.irreps[3] + 2 * O.trivial))
        yield cls(HomogeneousSpace(G, H).field(2 * H.regular + H.irreps[1]))
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial))
        yield cls(Grid2d(D4).field(D4.induce(D4.subgroup([1]).irreps[1]) + D4.trivial))
        yield cls(ScaleSpace(base=1.25, count=6).field("2*trivial"))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if not self.training:
            return batch_norm(x, *self._statistics(), *self._affine(), False, 0.0, self.eps)
        if self._flat:
            flat = x.reshape(x.shape[0], len(self.running_var), -1)
            out = batch_norm(
                flat, self.running_mean, self.running_var, self.weight, self.bias, True, self.momentum, self.eps
            )
            return out.view(x.shape)
        var, mean = torch.var_mean(x.to(self.running_var.dtype), (0, *range(2, x.ndim)), correction=0)
        mu = self.invariants.coordinates(mean)
        center = self.invariants(mu)
        square = self.fields.average(var + (mean - center).square())
        self._remember(mu, square, x)
        scale = torch.rsqrt(square + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        scale = self.fields(scale)
        shift = -center * scale
        if self.bias is not None:
            shift = shift + self.invariants(self.bias)
        shape = -1, *(1,) * (x.ndim - 2)
        return (x * scale.view(shape) + shift.view(shape)).to(x.dtype)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Every sample in evaluation; in training the statistics include the border."""
        return None if self.training else (1, 0)

    def to_plain(self) -> torch_nn.Module:
        """A ``torch.nn.BatchNorm`` of the right dimension in evaluation mode, with running statistics per channel."""
        mean, var = self._statistics()
        kinds = torch_nn.BatchNorm1d, torch_nn.BatchNorm2d, torch_nn.BatchNorm3d
        kind = kinds[max(len(axis_names(self.in_type.space)), 1) - 1]
        plain = kind(self.in_type.dim, eps=self.eps, affine=self.weight is not None).to(mean)
        with torch.no_grad():
            plain.running_mean.copy_(mean)  # type: ignore[union-attr]
            plain.running_var.copy_(var)  # type: ignore[union-attr]
            weight, bias = self._affine()
            if weight is not None and bias is not None:
                plain.weight.copy_(weight)
                plain.bias.copy_(bias)
        return plain.eval()

    def _statistics(self) -> tuple[Tensor, Tensor]:
        return self.invariants(self.running_mean), self.fields(self.running_var)

    def _affine(self) -> tuple[Tensor | None, Tensor | None]:
        if self.weight is None or self.bias is None:
            return None, None
        return self.fields(self.weight), self.invariants(self.bias)

    def _remember(self, mu: Tensor, square: Tensor, x: Tensor) -> None:
        with torch.no_grad():
            count = self.fields.dims * (x.numel() // x.shape[1])
            self.running_mean.lerp_(mu.detach(), self.momentum)
            self.running_var.lerp_(square.detach() * (count / (count - 1).clamp_min(1)), self.momentum)


def _is_transitive(rho: object) -> bool:
    table = getattr(rho, "permutation_table", None)
    return table is not None and bool((table.amin(0) == 0).all())
