"""A strict convolution with a free kernel beside it, which starts at 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Self

import torch
from torch import Tensor, nn

from ..._checked import checked
from ..._numerics import require_memory
from ...errors import InputError
from ...nn import Conv2d, Layer, TracedLayer, Window, register_layer
from ...nn import to_plain as plain_twin
from ...spaces import Grid2d
from .._kernel_shares import TRANSLATION, LocalKernels, kernel_shares, share
from .._relaxed_layer import RelaxedLayer, add_noise_
from ._position_conv import input_sizes
from ._strict_conv import (
    StrictConv,
    bias_of,
    claim_of,
    filters_of,
    full_filters,
    require_strict_conv,
    strict_sizes,
    types_of,
    weights_of,
    window_of,
)


@register_layer
class ResidualConv(RelaxedLayer):
    """(Φf)(x) = ((κ + φ) ⋆ f)(x) + b: the strict kernel κ, and a free kernel φ that starts at 0.

    Without ``input_size`` φ is a filter without constraints: translations stay exact, the stabilizer is relaxed. With
    it φ is another one at every position, φ(x, y): translations are relaxed, and the stabilizer with them. The strict
    part needs no such freedom as long as φ is held near 0 by a prior, see :meth:`penalty`.

    Shapes: those of ``conv``. Equivariance: as that of ``conv`` where φ = 0.

    Args:
        conv: where to start, :class:`intertwine.nn.Conv2d` or ``Conv3d``, or a ``torch.nn`` convolution.
        input_size: spatial sizes of the input, for a kernel at every position; None for one filter.

    References: Finzi, Benton, Wilson, *Residual pathway priors for soft equivariance constraints*, 2021.

    >>> plane = Grid2d("D4")
    >>> conv = Conv2d(plane.field("3*trivial"), plane.field("2*regular"), 3)
    >>> layer = ResidualConv(conv)
    >>> x = torch.randn(2, 3, 8, 8)
    >>> torch.equal(layer(x), conv(x)), layer.claim
    (True, Relaxed(D4=0.0))
    """

    needs_space = True

    @checked
    def __init__(self, conv: nn.Module, *, input_size: int | Sequence[int] | None = None) -> None:
        caller = type(self).__name__
        strict = require_strict_conv(caller, conv)
        super().__init__(*types_of(strict), claim_of(strict))
        self.window, self.groups = window_of(strict), strict.groups
        self.strict: nn.Module = deepcopy(strict)
        shape = tuple(filters_of(strict).shape)
        if input_size is None:
            if getattr(self.in_type.space.stabilizer, "order", 2) == 1:
                raise InputError(
                    caller,
                    expected="input_size=, for a kernel at every position: one filter is free already",
                    got=str(self.in_type.space),
                )
        else:
            self.fixed_sizes = input_sizes(caller, strict, input_size)
            shape = (*self.output_sizes(self.fixed_sizes), *shape)
            require_memory(
                torch.Size(shape).numel(),
                caller=caller,
                what=f"a free kernel at every position, {' x '.join(map(str, shape))}",
                fix="Relax it by low rank or softly.",
                itemsize=4,
            )
        example = weights_of(strict)[0]
        self.free = nn.Parameter(torch.zeros(shape, dtype=example.dtype, device=example.device))

    def reset_parameters(self) -> None:
        """No free part."""
        nn.init.zeros_(self.free)

    @property
    def _conv(self) -> StrictConv:
        return require_strict_conv(type(self).__name__, self.strict)

    def forward(self, x: Tensor) -> Tensor:
        """Φ(x)."""
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        if self.fixed_sizes is None:  # one convolution for both parts
            return self.compute(x)
        y: Tensor = self.strict(x)
        return y + apply_local(self.window, x, self.free, self.groups)

    def compute(self, x: Tensor) -> Tensor:
        """The map itself, of torch functions alone."""
        filters, bias = filters_of(self._conv), bias_of(self._conv)
        if self.fixed_sizes is None:
            return self.window.convolve(x, filters + self.free, bias, groups=self.groups)
        y = self.window.convolve(x, filters, bias, groups=self.groups)
        return y + apply_local(self.window, x, self.free, self.groups)

    def to_plain(self) -> nn.Module:
        """A graph of torch functions."""
        frozen = deepcopy(self)
        frozen.strict = plain_twin(self.strict)
        return TracedLayer.to_plain(frozen)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output."""
        self.require_fixed_sizes(sizes)
        return strict_sizes(type(self).__name__, self.strict, self.window, sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one stride, away from what stands around."""
        return self.window.interior(sizes)

    # -- how far it is from strict -----------------------------------------------------------------------------

    def squared_shares(self) -> Mapping[str, Tensor]:
        """Of the free part outside the strict kernels; κ itself lies inside."""
        groups, bias = self.groups, bias_of(self._conv)
        strict = full_filters(filters_of(self._conv), groups)
        d = self.window.dimension
        if self.fixed_sizes is None:
            free = full_filters(self.free, groups)[(None,) * d]  # one position
        else:
            free = torch.stack([full_filters(f, groups) for f in self.free.flatten(0, d - 1)])
            free = free.unflatten(0, self.free.shape[:d])
        positions = free.shape[:d].numel()
        whole = (free + strict).square().sum() + (positions * bias.square().sum() if bias is not None else 0)
        own = kernel_shares(LocalKernels(free), self.in_type, self.out_type)  # relative to φ
        size = free.square().sum()
        shares = {name: share(value * size, whole) for name, value in own.items()}
        if self.fixed_sizes is None:
            del shares[TRANSLATION]
        return shares

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """κ + φ at every position."""
        out, groups, bias = self.output_sizes(sizes), self.groups, bias_of(self._conv)
        strict = filters_of(self._conv)
        each = (strict + self.free).expand(*out, *strict.shape)
        weight = torch.stack([full_filters(f, groups) for f in each.flatten(0, len(out) - 1)]).unflatten(0, out)
        return LocalKernels(weight, None if bias is None else bias.expand(*out, -1))

    def penalty(self) -> Tensor:
        """‖φ‖²: with the weight 1/2σ² a Gaussian prior of variance σ² on the free kernel."""
        return self.free.square().sum()

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """‖φ‖."""
        return {"free kernel": float(self.penalty().sqrt())}

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """κ takes over the strict part of φ, the rest becomes 0."""
        positions = tuple(range(self.window.dimension)) if self.fixed_sizes is not None else ()
        mean = self.free.mean(positions) if positions else self.free
        conv = self._conv
        added = conv.expansion.coordinates(mean) if isinstance(conv, Layer) else [mean]
        for weight, value in zip(weights_of(conv), added, strict=True):
            weight.add_(value)
        self.free.zero_()
        return self

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Noise on the free kernel, in the scale of the strict one."""
        size = float(filters_of(self._conv).detach().square().mean().sqrt())
        add_noise_(self.free, scale * (size or 1.0), generator)
        return self

    def extra_repr(self) -> str:
        """Types and dial."""
        return f"{self.in_type.rho} → {self.out_type.rho.name}, free kernel {self.dial()['free kernel']:.3g}"

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """A free filter between regular fields, scalars and vectors; a free kernel at every position."""
        D4 = Grid2d("D4")
        scalars, regular = D4.field("2*trivial"), D4.field("regular")
        yield cls(Conv2d(scalars, regular, 3, padding=1))
        yield cls(Conv2d(regular, D4.field("irrep1"), 3, bias=False, padding=1, padding_mode="circular"))
        yield cls(Conv2d(regular, regular, 3, padding=1), input_size=5)
        yield cls(nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), input_size=(9, 8))
        yield cls(nn.Conv1d(2, 3, 3, dilation=2), input_size=9)
        yield cls(nn.Conv3d(1, 2, 2), input_size=5)


def apply_local(window: Window, x: Tensor, kernels: Tensor, groups: int) -> Tensor:
    """A kernel at every position: ``(*positions, out, in / groups, *kernel_size)``."""
    d = window.dimension
    positions, taps = kernels.shape[:d], kernels.shape[d + 2 :].numel()
    seen = window.cut(window.padded(x)).flatten(2 + d).flatten(2, 1 + d)  # batch, channel, place, tap
    weights = kernels.reshape(positions.numel(), groups, kernels.shape[d] // groups, -1, taps)
    outputs = torch.einsum("ngcpt,pgoct->ngop", seen.unflatten(1, (groups, -1)), weights)
    return outputs.flatten(1, 2).unflatten(-1, positions)
