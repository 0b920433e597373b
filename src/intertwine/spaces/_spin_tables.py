"""The computation behind the spin-weighted spherical transform: tables, and sums over azimuths and rings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import pi

import torch
from torch import Tensor

from .._checked import checked
from ..groups import SO3, Representation, wigner_ds
from ._sphere_grid import SphereGrid
from ._spin import spin_decomposition

Channels = slice | Tensor


@checked
@dataclass(frozen=True, eq=False)
class SpinTables:
    """Tables for transforming fields of one type on one grid, in one precision and on one device.

    The tables work on *waves*, coefficients laid out as ``(..., dim, l, k, 2)``: entry ``[l, k]`` holds the
    coefficients of the harmonics k and -k of degree l, if they exist.

    Attributes:
        spins: the distinct spins of the channels, in ascending order.
        channels: for each spin, the indices of its channels.
        order: the permutation from channels sorted by spin back to the original order; None if they are sorted.
        circle: ``(2(L+1), n_alpha)``, cos(k alpha) and then sin(k alpha).
        even: for each spin, the scaled entries [k, m] of D^l(Y(beta)), ``(k, l, n_beta)``.
        odd: for each spin, the scaled entries [-k, -m].
        weights: the weights of the rings, ``(n_beta,)``.
        basis: Q, from channels of definite spin to those of the type; None if it is the identity.
        inverse: Q⁻¹.
    """

    spins: tuple[int, ...]
    channels: tuple[Channels, ...]
    order: Tensor | None
    circle: Tensor
    even: tuple[Tensor, ...]
    odd: tuple[Tensor, ...]
    weights: Tensor
    basis: Tensor | None
    inverse: Tensor | None

    def to(self, like: Tensor) -> SpinTables:
        """The tables in the precision and on the device of a tensor."""
        if self.circle.dtype == like.dtype and self.circle.device == like.device:
            return self
        return replace(
            self,
            channels=tuple(c if isinstance(c, slice) else c.to(like.device) for c in self.channels),
            order=None if self.order is None else self.order.to(like.device),
            circle=self.circle.to(like),
            even=tuple(table.to(like) for table in self.even),
            odd=tuple(table.to(like) for table in self.odd),
            weights=self.weights.to(like),
            basis=None if self.basis is None else self.basis.to(like),
            inverse=None if self.inverse is None else self.inverse.to(like),
        )

    def analysis(self, f: Tensor) -> Tensor:
        """Waves ``(..., dim, l, k, 2)`` of samples ``(..., dim, n_beta, n_alpha)``."""
        parts = []
        around = torch.matmul(_mixed(self.inverse, f), self.circle.T) * self.weights[:, None]  # (..., dim, beta, 2k)
        for m, channels, even, odd in zip(self.spins, self.channels, self.even, self.odd, strict=True):
            cos, sin = around[..., channels, :, :].chunk(2, -1)
            forward, backward = _over_rings(even, cos), _over_rings(even, sin)
            if m:  # the transpose of the maps in synthesis
                forward = forward + _over_rings(odd, _quarter_turn(sin))
                backward = backward - _over_rings(odd, _quarter_turn(cos))
            parts.append(torch.stack([forward, backward], dim=-1))
        waves = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-4)
        return waves if self.order is None else waves[..., self.order, :, :, :]

    def synthesis(self, waves: Tensor) -> Tensor:
        """Samples ``(..., dim, n_beta, n_alpha)`` of waves ``(..., dim, l, k, 2)``."""
        parts = []
        for m, channels, even, odd in zip(self.spins, self.channels, self.even, self.odd, strict=True):
            plus, minus = waves[..., channels, :, :, :].unbind(-1)
            cos, sin = _over_degrees(even, plus), _over_degrees(even, minus)
            if m:
                cos = cos + _quarter_turn(_over_degrees(odd, minus))
                sin = sin - _quarter_turn(_over_degrees(odd, plus))
            parts.append(torch.cat([cos, sin], -1))  # (..., channels, beta, 2k)
        around = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-3)
        if self.order is not None:
            around = around[..., self.order, :, :]
        return _mixed(self.basis, torch.matmul(around, self.circle))


@checked
@lru_cache(maxsize=64)
@torch.inference_mode(False)  # the cached result may take part in gradients later
def spin_tables(grid: SphereGrid, rho: Representation, band_limit: int) -> SpinTables:
    """The tables for a grid and a representation, in float64 on the CPU."""
    with torch.device("cpu"):
        decomposition = spin_decomposition(rho)
        spins = tuple(sorted(set(decomposition.spins)))
        channels = [torch.nonzero(decomposition.channel_spins == m).flatten() for m in spins]
        order = torch.cat(channels).argsort()
        angles = torch.arange(band_limit + 1, dtype=torch.float64)[:, None] * grid.alpha
        rings = [_ring_tables(grid, band_limit, m) for m in spins]
        return SpinTables(
            spins,
            tuple(_as_slice(indices) for indices in channels),
            None if torch.equal(order, torch.arange(rho.dim)) else order,
            torch.cat([angles.cos(), angles.sin()]),
            tuple(even for even, _ in rings),
            tuple(odd for _, odd in rings),
            grid.weights[:, 0].contiguous(),
            decomposition.basis,
            decomposition.inverse,
        )


class WaveLayout:
    """Index tables between coefficients ``((L+1)**2,)`` and waves ``(l, k, 2)``, in both directions."""

    def __init__(self, band_limit: int) -> None:
        n = band_limit + 1
        l, k = torch.arange(n)[:, None], torch.arange(n)
        index = torch.stack([l * l + l + k, l * l + l - k], -1)
        # Pairs with k > l do not exist. The tables of the rings are 0 there, so any index will do.
        self.padded = index.where((k <= l)[..., None], 0)
        degree = torch.repeat_interleave(torch.arange(n), 2 * torch.arange(n) + 1)
        order = torch.arange(n * n) - degree * degree - degree
        self.packed = (degree * n + order.abs()) * 2 + (order < 0)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # the cached result may take part in gradients later
def _ring_tables(grid: SphereGrid, band_limit: int, m: int) -> tuple[Tensor, Tensor]:
    """Scaled entries of D^l(Y(beta)), ``(k, l, n_beta)``: [k, m], between cosines, and [-k, -m], between sines.

    Y(beta) commutes with the reflection y ↦ -y, so it does not mix cosines and sines.
    """
    n, y = band_limit + 1, SO3().from_euler(0.0, grid.beta, 0.0)
    even, odd = (torch.zeros(n, n, len(grid.beta), dtype=torch.float64) for _ in range(2))
    for start in range(0, len(y), 8):  # wigner_ds computes all degrees at once: 8 rings at a time to limit memory
        rings = slice(start, start + 8)
        for l, d in enumerate(wigner_ds(band_limit, y[rings])):
            if l >= m:
                even[: l + 1, l, rings] = d[:, l:, l + m].T
            if l >= m > 0:
                odd[1 : l + 1, l, rings] = d[:, :l, l - m].flip(-1).T
    degrees = torch.arange(n, dtype=torch.float64)[:, None]
    scale = ((2 * degrees + 1) / (4 * pi) / (2 if m else 1)).sqrt()
    return even * scale, odd * scale


def _as_slice(indices: Tensor) -> Channels:
    """Consecutive indices as a slice, which avoids a copy when indexing."""
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices


def _over_rings(table: Tensor, f: Tensor) -> Tensor:
    """``(..., beta, k)`` to ``(..., l, k)``."""
    return torch.einsum("klb,...bk->...lk", table, f)


def _over_degrees(table: Tensor, c: Tensor) -> Tensor:
    """``(..., l, k)`` to ``(..., beta, k)``."""
    return torch.einsum("klb,...lk->...bk", table, c)


def _quarter_turn(t: Tensor) -> Tensor:
    """J on pairs of channels in ``(..., channels, p, q)``: (a, b) ↦ (-b, a)."""
    a, b = t.unflatten(-3, (-1, 2)).unbind(-3)
    return torch.stack([-b, a], dim=-3).flatten(-4, -3)


def _mixed(matrix: Tensor | None, f: Tensor) -> Tensor:
    """A matrix times the channels of ``(..., dim, n_beta, n_alpha)``; None is the identity."""
    return f if matrix is None else torch.einsum("ij,...jba->...iba", matrix, f)
