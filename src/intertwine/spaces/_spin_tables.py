"""The computation behind the spin-weighted spherical transform: tables, and sums over azimuths and rings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from .._checked import checked
from .._cost_rules import fft_pays
from ..groups import Representation
from ._ring_tables import ring_tables
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
        circle: cos(k alpha) and sin(k alpha), ``(n_alpha, L+1, 2)``.
        even: for each spin, the scaled entries [k, m] of D^l(Y(beta)) on the northern rings, ``(2, k, l/2, rings)``,
            even degrees and then odd ones.
        odd: for each spin, the scaled entries [-k, -m]; empty for spin 0, where they are not needed.
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
        rings = self._over_azimuths(_mixed(self.inverse, f))  # (..., dim, beta, k, 2)
        for m, channels, even, odd in zip(self.spins, self.channels, self.even, self.odd, strict=True):
            part = rings[..., channels, :, :, :]
            north, south = self._hemispheres(part, m)
            waves = _over_rings(even, north + south, north - south)
            if m:  # the transpose of the maps in synthesis
                north, south = (_quarter_turn(_swapped(half)) for half in (north, south))
                waves = waves + _over_rings(odd, north - south, north + south)
            parts.append(waves[..., : self.circle.shape[1], :, :])
        waves = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-4)
        return waves if self.order is None else waves[..., self.order, :, :, :]

    def synthesis(self, waves: Tensor) -> Tensor:
        """Samples ``(..., dim, n_beta, n_alpha)`` of waves ``(..., dim, l, k, 2)``."""
        parts = []
        for m, channels, even, odd in zip(self.spins, self.channels, self.even, self.odd, strict=True):
            part = waves[..., channels, :, :, :]
            if self.circle.shape[1] % 2:  # an odd degree to go with the last even one
                part = torch.cat([part, torch.zeros_like(part[..., :1, :, :])], -3)
            first, second = _over_degrees(even, part)
            north, south = first + second, first - second
            if m:
                first, second = (_quarter_turn(half) for half in _over_degrees(odd, _swapped(part)))
                north, south = north + first + second, south - first + second
            parts.append(self._joined(north, south, m))  # (..., channels, beta, k, 2)
        rings = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-4)
        if self.order is not None:
            rings = rings[..., self.order, :, :, :]
        return _mixed(self.basis, self._along_azimuths(rings))

    def _hemispheres(self, rings: Tensor, m: int) -> tuple[Tensor, Tensor]:
        """The northern rings, and the southern ones mirrored and times (-1)^(k+m), ``(..., half, k, 2)``.

        Both grids are symmetric about the equator, and an entry for degree l changes by (-1)^(l+k+m) from north to
        south, or by the opposite sign between sines. So a sum over all rings is one over the northern half, of the sum
        of both halves for some degrees and of the difference for the others: half the work and half the tables.
        """
        half = len(self.weights) // 2
        north, south = rings[..., : len(self.weights) - half, :, :], rings[..., -half:, :, :].flip(-3) * self._signs(m)
        if 2 * half < len(self.weights):  # the equator is its own mirror image and counts once
            south = torch.cat([south, torch.zeros_like(north[..., :1, :, :])], -3)
        return north, south

    def _joined(self, north: Tensor, south: Tensor, m: int) -> Tensor:
        """All rings from both hemispheres, the transpose of :meth:`_hemispheres`."""
        half = len(self.weights) // 2
        return torch.cat([north, (south * self._signs(m))[..., :half, :, :].flip(-3)], -3)

    def _signs(self, m: int) -> Tensor:
        """(-1)^(k+m), ``(k, 1)``."""
        k = torch.arange(self.circle.shape[1], device=self.circle.device)
        return (1 - 2 * ((k + m) % 2)).to(self.circle.dtype)[:, None]

    def _over_azimuths(self, f: Tensor) -> Tensor:
        """Σ w f cos(k alpha) and Σ w f sin(k alpha) on each ring: ``(..., beta, alpha)`` to ``(..., beta, k, 2)``."""
        n, k, _ = self.circle.shape
        if _by_fft(f, n):
            rings = torch.view_as_real(torch.fft.rfft(f)[..., :k])
            return rings * (self.weights[:, None, None] * self.weights.new_tensor([1.0, -1.0]))
        return torch.matmul(f, self.circle.flatten(1)).unflatten(-1, (k, 2)) * self.weights[:, None, None]

    def _along_azimuths(self, rings: Tensor) -> Tensor:
        """The sum of cosines and sines with these coefficients: the transpose, without the weights."""
        n = len(self.circle)
        if _by_fft(rings, n):
            # irfft doubles all coefficients except the first, and e^(ik alpha) needs the conjugate.
            spectrum = torch.view_as_complex(rings.contiguous()).conj()
            halves = torch.full((rings.shape[-2],), 0.5, dtype=rings.dtype, device=rings.device)
            halves[0] = 1.0
            return torch.fft.irfft(spectrum * halves, n=n, norm="forward")
        return torch.matmul(rings.flatten(-2), self.circle.flatten(1).T)


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
        angles = grid.alpha[:, None] * torch.arange(band_limit + 1, dtype=torch.float64)
        rings = [[_northern(table) for table in ring_tables(grid, band_limit, m)] for m in spins]
        return SpinTables(
            spins,
            tuple(_as_slice(indices) for indices in channels),
            None if torch.equal(order, torch.arange(rho.dim)) else order,
            torch.stack([angles.cos(), angles.sin()], -1),
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


def _northern(table: Tensor) -> Tensor:
    """``(k, l, n_beta)`` to ``(2, k, l/2, half)``: the northern rings, even and then odd degrees."""
    if not table.numel():
        return table
    half = table[..., : (table.shape[2] + 1) // 2]
    if half.shape[1] % 2:
        half = torch.cat([half, half.new_zeros(half.shape[0], 1, half.shape[2])], 1)
    return torch.stack([half[:, 0::2], half[:, 1::2]])


def _as_slice(indices: Tensor) -> Channels:
    """Consecutive indices as a slice, which avoids a copy when indexing."""
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices


def _by_fft(x: Tensor, points: int) -> bool:
    """Whether to sum over a ring by a fast Fourier transform: not in exported graphs, as few runtimes have one."""
    return isinstance(x, Tensor) and not torch.compiler.is_compiling() and fft_pays(points)


def _over_rings(table: Tensor, even: Tensor, odd: Tensor) -> Tensor:
    """Two times ``(..., half, k, 2)``, for even and odd degrees, to ``(..., l, k, 2)``."""
    waves = torch.einsum("qkjb,...qbks->...jqks", table, torch.stack([even, odd], -4))
    return waves.flatten(-4, -3)


def _over_degrees(table: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """``(..., l, k, 2)`` to sums over even and over odd degrees, ``(..., half, k, 2)`` each."""
    rings = torch.einsum("qkjb,...jqks->...qbks", table, c.unflatten(-3, (-1, 2)))
    even, odd = rings.unbind(-4)
    return even, odd


def _swapped(t: Tensor) -> Tensor:
    """(cos, sin) ↦ (sin, -cos) on the last axis."""
    cos, sin = t.unbind(-1)
    return torch.stack([sin, -cos], -1)


def _quarter_turn(t: Tensor) -> Tensor:
    """J on pairs of channels in ``(..., channels, p, q, 2)``: (a, b) ↦ (-b, a)."""
    a, b = t.unflatten(-4, (-1, 2)).unbind(-4)
    return torch.stack([-b, a], dim=-4).flatten(-5, -4)


def _mixed(matrix: Tensor | None, f: Tensor) -> Tensor:
    """A matrix times the channels of ``(..., dim, n_beta, n_alpha)``; None is the identity."""
    return f if matrix is None else torch.einsum("ij,...jba->...iba", matrix, f)
