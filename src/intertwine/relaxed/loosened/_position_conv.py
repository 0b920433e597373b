"""A strict convolution relaxed by low rank over positions: K strict kernels, mixed differently at every position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Self

import torch
from torch import Tensor, nn

from ..._checked import checked
from ...errors import InputError
from ...groups import Cyclic
from ...nn import Conv2d, Conv3d, register_layer
from ...spaces import Grid2d, Grid3d
from .._relaxed_layer import RelaxedLayer, add_noise_
from ._banked_conv import BankedConv, move_positions
from ._strict_conv import StrictConv, require_strict_conv, weights_of, window_of, without_bias


@register_layer
class LowRankConv(BankedConv):
    """(Φf)(x) = Σ_k c_k(x) (κ_k ⋆ f)(x) + b: K strict kernels, combined differently at every position.

    The combining weights are c = softmax over k of Σ_axis a_k(x_axis), rows plus columns (plus depth). With the trivial
    group this is the layer of Elsayed et al.; for other groups each κ_k is a strict kernel between the field types. The
    layer starts as the strict one: all c are 1/K, and the kernels are κ + δ_k with small random δ_k that add up to 0,
    because equal kernels would receive equal gradients forever.

    With ``keep``, c is averaged over the orbit of each position under the stabilizer, c(hx) = c(x): translations are
    relaxed, and the stabilizer stays exact.

    Shapes: those of ``conv``, for inputs of ``input_size``. Equivariance: under translations, away from the border,
    where c does not depend on the position; under the stabilizer there too, and everywhere with ``keep``.

    Args:
        conv: where to start, :class:`intertwine.nn.Conv2d` or ``Conv3d``, or a ``torch.nn`` convolution.
        input_size: spatial sizes of the input; others are refused.
        rank: K.
        spread: standard deviation of δ_k relative to the weights.
        keep: the name of the stabilizer, to keep it; None to relax it along with the translations.

    References: Elsayed, Ramachandran, Shlens, Kornblith, *Revisiting spatial invariance with low-rank local
    connectivity*, 2020.

    >>> D4 = Grid2d("D4")
    >>> conv = Conv2d(D4.field("3*trivial"), D4.field("2*regular"), 3, padding=1)
    >>> layer = LowRankConv(conv, input_size=8, rank=4, keep="D4")
    >>> x = torch.randn(2, 3, 8, 8)
    >>> torch.allclose(layer(x), conv(x), atol=1e-5), layer.claim
    (True, Relaxed(translation=0.0))
    """

    @checked
    def __init__(
        self,
        conv: nn.Module,
        *,
        input_size: int | Sequence[int],
        rank: int = 4,
        spread: float = 0.1,
        keep: str | None = None,
    ) -> None:
        strict = require_strict_conv(type(self).__name__, conv)
        if rank < 2:
            raise InputError(type(self).__name__, expected="a rank of 2 or more", got=str(rank))
        sizes = input_sizes(type(self).__name__, strict, input_size)
        super().__init__(strict, spread_banks(type(self).__name__, strict, rank, spread), sizes)
        self.keep = require_kept(self, keep)
        out = self.output_sizes(sizes)
        like = weights_of(strict)[0].detach()
        self.logits = nn.ParameterList([nn.Parameter(like.new_zeros(rank, n)) for n in out])

    def reset_parameters(self) -> None:
        """Equal combining weights."""
        for axis in self.logits:
            nn.init.zeros_(axis)

    def coefficients(self) -> Tensor:
        """c, ``(K, 1, *output sizes)``."""
        return self._table().softmax(0)

    def _table(self) -> Tensor:
        """The logits of every position, averaged over orbits if the stabilizer is kept."""
        d = len(self.logits)
        total: Tensor | None = None
        for axis, values in enumerate(self.logits):
            shape = [len(self.banks), 1, *(values.shape[1] if a == axis else 1 for a in range(d))]
            total = values.reshape(shape) if total is None else total + values.reshape(shape)
        if total is None:
            raise InputError(type(self).__name__, expected="spatial axes", got="none")
        if not self.keep:
            return total
        moved = [move_positions(total, move) for move in self.axis_moves]
        return sum(moved[1:], moved[0]) / len(moved)

    @property
    def relaxes_stabilizer(self) -> bool:
        """Not if it is kept."""
        return not self.keep and len(self._elements()) > 1

    def penalty(self) -> Tensor:
        """The mean over positions of Σ_k (c_k − mean c_k)²."""
        c = self.coefficients()
        return (c - c.flatten(2).mean(2).reshape(*c.shape[:2], *[1] * (c.ndim - 2))).square().sum(0).mean()

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """√ of the penalty: how far the combining weights are from their means."""
        return {"combining weights": float(self.penalty().sqrt())}

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """The combining weights become their means over the positions."""
        mean = self.coefficients().flatten(1).mean(1)
        for axis in self.logits:
            axis.copy_((mean.clamp_min(torch.finfo(mean.dtype).tiny).log() / len(self.logits))[:, None].expand_as(axis))
        return self

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Noise on the logits."""
        for axis in self.logits:
            add_noise_(axis, scale, generator)
        return self

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """Scalars, regular fields and vectors, with and without the stabilizer; stride, groups, 1 and 3 dimensions."""
        D4 = Grid2d("D4")
        scalars, regular = D4.field("2*trivial"), D4.field("2*regular")
        yield cls(Conv2d(scalars, regular, 3, padding=1), input_size=7, rank=2)
        yield cls(Conv2d(regular, D4.field("regular + irrep1"), 3, bias=False), input_size=8, rank=3, keep="D4")
        yield cls(Conv2d(regular, regular, 3, stride=2, padding=1, groups=2), input_size=7, rank=2, keep="D4")
        yield cls(nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), input_size=(9, 8), rank=2)
        yield cls(nn.Conv1d(2, 3, 5, padding="same", dilation=2, padding_mode="circular"), input_size=12, rank=3)
        yield cls(nn.Conv3d(2, 2, 3), input_size=6, rank=2)
        cube = Grid3d(Cyclic(2), action=2 * Cyclic(2).irrep(1) + Cyclic(2).trivial)
        yield cls(Conv3d(cube.field("trivial"), cube.field("regular"), 3), input_size=6, rank=2, keep="C2")


def input_sizes(caller: str, conv: StrictConv, input_size: int | Sequence[int]) -> tuple[int, ...]:
    """One size for each spatial axis of a convolution."""
    return window_of(conv).sizes(input_size, caller=caller)


@torch.no_grad()
def spread_banks(caller: str, conv: StrictConv, rank: int, spread: float) -> list[StrictConv]:
    """Copies with weights w + δ_k, Σ δ_k = 0."""
    if not 0 < spread < float("inf"):
        raise InputError(caller, expected="a spread above 0", got=str(spread))
    banks = [deepcopy(conv), *(without_bias(conv) for _ in range(rank - 1))]
    for weights in zip(*(weights_of(bank) for bank in banks), strict=True):
        noise = torch.randn(rank, *weights[0].shape, dtype=weights[0].dtype, device=weights[0].device)
        size = weights[0].square().mean().sqrt()
        scale = spread * (size if weights[0].is_meta or float(size) > 0 else torch.ones_like(size))
        noise = scale * (noise - noise.mean(0))
        for weight, delta in zip(weights, noise, strict=True):
            weight.add_(delta)
    return banks


def require_kept(layer: BankedConv, keep: str | None) -> bool:
    """Whether the stabilizer is to be kept, if it can be."""
    if keep is None:
        return False
    group = layer.in_type.space.stabilizer
    whole = getattr(group, "order", 0) == len(layer.axis_moves) > 1
    if keep != group.name or not whole:
        raise InputError(
            type(layer).__name__,
            expected="keep=None, or the name of the layer's own group, which must map the pixel grid to itself",
            got=f"keep={keep!r} for a layer on {layer.in_type.space.name}",
        )
    out = layer.output_sizes(layer.fixed_sizes or ())
    if any(move.swaps for move in layer.axis_moves) and len(set(out)) > 1:
        raise InputError(type(layer).__name__, expected="a square output, to keep the stabilizer", got=str(out))
    return True
