"""Several strict convolutions, added up with weights that break the symmetry: what the ways to relax a layer share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cached_property

import torch
from torch import Tensor, nn

from ...groups import Element, FiniteGroup
from ...nn import TracedLayer
from ...nn import to_plain as plain_twin
from ...spaces import AxisMove, Grid
from .._kernel_shares import TRANSLATION, LocalKernels, share
from .._relaxed_layer import RelaxedLayer
from ._strict_conv import (
    StrictConv,
    bias_of,
    claim_of,
    convolve_all,
    filters_of,
    full_filters,
    require_strict_conv,
    strict_sizes,
    types_of,
    weights_of,
    window_of,
)


class BankedConv(RelaxedLayer):
    """(Φf)(x)_o = Σ_k c_k(x, o) (κ_k ⋆ f)(x)_o + b_o with strict kernels κ_k, the banks.

    Where c depends neither on the position x nor on the orientation of the channel o, the layer is strict. As all κ_k
    commute with the group, π2(h) moves the coefficients alone: the projections that define the relaxation average c,
    and norms follow from the products ⟨κ_k, κ_l⟩ of the banks, channel by channel.

    Args:
        conv: where to start; the layer has its types, its window and its bias.
        banks: strict convolutions; the first has the bias, the others none.
        sizes: of the input, if c depends on the position.
    """

    needs_space = True

    def __init__(self, conv: StrictConv, banks: Sequence[StrictConv], sizes: Sequence[int] | None) -> None:
        conv = require_strict_conv(type(self).__name__, conv)
        super().__init__(*types_of(conv), claim_of(conv))
        self.window, self.groups = window_of(conv), conv.groups
        self._inside = self.window.unpadded
        self.fixed_sizes = tuple(sizes) if sizes is not None else None
        self.banks = nn.ModuleList(banks)

    @abstractmethod
    def coefficients(self) -> Tensor:
        """c, ``(banks, out or 1, *output sizes or 1)``."""

    def filters(self) -> Tensor:
        """The filters of the banks, ``(banks, out, in / groups, *kernel_size)``."""
        return torch.stack([filters_of(bank) for bank in self.strict_banks()])

    def strict_banks(self) -> list[StrictConv]:
        """The banks as what they are."""
        return list(self.banks)  # type: ignore[arg-type]

    # -- the map -----------------------------------------------------------------------------------------------

    def forward(self, x: Tensor) -> Tensor:
        """Φ(x)."""
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        if self.fixed_sizes is None or torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self.compute(x)
        # Nothing has to be remembered: no buffer for the outputs of all banks.
        x, c = self.window.padded(x), self.coefficients()
        total: Tensor | None = None
        for factor, bank in zip(c, self.strict_banks(), strict=True):
            part = self._inside.convolve(x, filters_of(bank), groups=self.groups)
            factor = factor.to(part.dtype)
            total = part * factor if total is None else total.addcmul_(part, factor)
        return self._with_bias(total if total is not None else x)

    def compute(self, x: Tensor) -> Tensor:
        """The map itself, by one convolution for all banks."""
        if self.fixed_sizes is None:  # the same at every position: the banks add up before they meet the input
            c = self.coefficients().unsqueeze(2)  # banks, out, 1, ...: an axis for the channels of the input
            return self._with_bias(self.window.convolve(x, (self.filters() * c).sum(0), groups=self.groups))
        outputs = convolve_all(self.window, x, self.filters(), self.groups)
        return self._with_bias((outputs * self.coefficients().to(outputs.dtype)).sum(1))

    def _with_bias(self, y: Tensor) -> Tensor:
        bias = self._bias()
        return y if bias is None else y + bias.to(y.dtype).reshape(-1, *[1] * self.window.dimension)

    def _bias(self) -> Tensor | None:
        return bias_of(self.strict_banks()[0])

    def to_plain(self) -> nn.Module:
        """A graph of torch functions, with the filters of the banks written out."""
        frozen = deepcopy(self)
        frozen.banks = nn.ModuleList([plain_twin(bank) for bank in self.strict_banks()])
        return TracedLayer.to_plain(frozen)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output."""
        self.require_fixed_sizes(sizes)
        return strict_sizes(type(self).__name__, self.banks[0], self.window, sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one stride, away from what stands around."""
        return self.window.interior(sizes)

    # -- how far it is from strict -----------------------------------------------------------------------------

    def squared_shares(self) -> Mapping[str, Tensor]:
        """From the coefficients and the products of the banks; no kernel is made for each position."""
        c = self.coefficients()
        flat = self.filters().flatten(2)  # bank, out, the rest
        gram = torch.einsum("koi,loi->okl", flat, flat)
        bias = self._bias()
        positions = c[0, 0].numel()
        whole = _norm(c, gram) + (positions * bias.square().sum() if bias is not None else 0)
        return {name: share(_norm(c - projected, gram), whole) for name, projected in self._projections(c).items()}

    def _projections(self, c: Tensor) -> dict[str, Tensor]:
        """The coefficients of P κ for each subgroup that can be relaxed."""
        axes = tuple(range(2, c.ndim))
        projected = {}
        if self.relaxes_translation:
            projected[TRANSLATION] = c.mean(axes, keepdim=True).expand_as(c)
        if self.relaxes_stabilizer:
            projected[self.in_type.space.stabilizer.name] = self._stabilizer_mean(c)
        return projected

    @property
    def relaxes_translation(self) -> bool:
        """Does c depend on the position?"""
        return self.fixed_sizes is not None

    @property
    def relaxes_stabilizer(self) -> bool:
        """Can c differ between positions or channels that the stabilizer exchanges?"""
        return len(self._elements()) > 1

    def _elements(self) -> list[Element]:
        """The elements of the stabilizer that c can follow: all of them if it does not depend on the position."""
        space = self.in_type.space
        if self.fixed_sizes is None and isinstance(space.stabilizer, FiniteGroup):
            return list(range(space.stabilizer.order))
        return list(space.lattice_elements) if isinstance(space, Grid) and self.fixed_sizes is not None else []

    @cached_property
    def axis_moves(self) -> list[AxisMove]:
        """How the elements of the stabilizer move an array, as far as they exchange and reverse axes."""
        space = self.in_type.space
        if not isinstance(space, Grid):
            return []
        moves = [space.axis_move(h) for h in space.lattice_elements]
        return [move for move in moves if move is not None]

    def _stabilizer_mean(self, c: Tensor) -> Tensor:
        """The mean of π2(h) c over the stabilizer: positions move, and channels of permuted fields with them."""
        elements, space, total = self._elements(), self.in_type.space, torch.zeros_like(c)
        for h in elements:
            moved = c
            if self.fixed_sizes is not None:  # positions as scalars
                scalars = c.reshape(-1, 1, *c.shape[2:])
                moved = space.field("trivial").transform(scalars, space.from_stabilizer(h)).reshape(c.shape)
            total = total + (moved if c.shape[1] == 1 else moved[:, self._channels_before(h)])
        return total / len(elements)

    def _channels_before(self, h: Element) -> list[int]:
        """For each channel o of the output, the channel h⁻¹o that ρ2(h) sends there."""
        return self.out_type.rho(h).abs().argmax(1).tolist()

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """The kernel of every position."""
        out = self.output_sizes(sizes)
        c = self.coefficients()
        c = c.expand(c.shape[0], self.out_type.dim, *out)
        banks = torch.stack([full_filters(f, self.groups) for f in self.filters()])
        weight = torch.einsum("kop,koi...->poi...", c.flatten(2), banks).unflatten(0, out)
        bias = self._bias()
        return LocalKernels(weight, None if bias is None else bias.expand(*out, -1))

    @torch.no_grad()
    def _add_to_first_(self, shares: Sequence[float]) -> None:
        """κ_0 += Σ_k shares_k κ_k over the other banks, which become 0."""
        first = weights_of(self.strict_banks()[0])
        for factor, bank in zip(shares, self.strict_banks()[1:], strict=True):
            for target, weight in zip(first, weights_of(bank), strict=True):
                target.add_(weight, alpha=factor)
                weight.zero_()

    def extra_repr(self) -> str:
        """Types, geometry and dial."""
        dial = ", ".join(f"{name} {value:.3g}" for name, value in self.dial().items())
        return (
            f"{self.in_type.rho} → {self.out_type.rho.name}, kernel_size={self.window.kernel_size}, "
            f"stride={self.window.stride}, banks={len(self.banks)}, {dial}"
        )


def move_positions(c: Tensor, move: AxisMove) -> Tensor:
    """Coefficients ``(banks, out or 1, *positions)`` with their positions moved, for tensors and tracers alike."""
    c = c.permute(0, 1, *(2 + axis for axis in move.order))
    flipped = [2 + axis for axis, flip in enumerate(move.flips) if flip]
    return c.flip(flipped) if flipped else c


def _norm(c: Tensor, gram: Tensor) -> Tensor:
    """Σ_x Σ_o c(x, o)ᵀ G_o c(x, o)."""
    c = c.flatten(2)
    c = c.expand(c.shape[0], len(gram), c.shape[2])
    return torch.einsum("kop,okl,lop->", c, gram, c).clamp_min(0)
