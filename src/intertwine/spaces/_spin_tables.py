"""The arithmetic of the spin-weighted spherical transform: tables, and sums over azimuths and rings."""

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
    """What the transform of fields of one type on one grid needs, in one precision and on one device.

    Waves are coefficients laid out for it, ``(..., dim, l, k, 2)``: entries ``[l, k]`` are those of the harmonics k and
    -k of degree l, as far as they exist.

    Attributes:
        spins: the different spins of the channels, ascending.
        channels: for each spin, where its channels are.
        order: from the channels sorted by spin back to their own order; None if they are sorted.
        circle: ``(2(L+1), n_alpha)``, cos(k alpha) and then sin(k alpha).
        even: for each spin entries [k, m] of D^l(Y(beta)), scaled, ``(k, l, n_beta)``.
        odd: for each spin entries [-k, -m].
        weights: of the rings, ``(n_beta,)``.
        basis: Q, from channels of given spins to those of the type; None where it is the identity.
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
        """The same in the precision and on the device of a tensor."""
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
            if m:  # the transposed maps of those in synthesis
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
@torch.inference_mode(False)  # what is cached must serve later where gradients are wanted
def spin_tables(grid: SphereGrid, rho: Representation, band_limit: int) -> SpinTables:
    """The tables in float64, on the CPU."""
    with torch.device("cpu"):
        found = spin_decomposition(rho)
        spins = tuple(sorted(set(found.spins)))
        places = [torch.nonzero(found.channel_spins == m).flatten() for m in spins]
        order = torch.cat(places).argsort()
        angles = torch.arange(band_limit + 1, dtype=torch.float64)[:, None] * grid.alpha
        rings = [_ring_tables(grid, band_limit, m) for m in spins]
        return SpinTables(
            spins,
            tuple(_as_slice(place) for place in places),
            None if torch.equal(order, torch.arange(rho.dim)) else order,
            torch.cat([angles.cos(), angles.sin()]),
            tuple(even for even, _ in rings),
            tuple(odd for _, odd in rings),
            grid.weights[:, 0].contiguous(),
            found.basis,
            found.inverse,
        )


class Places:
    """Where the coefficients ``((L+1)**2,)`` are in the waves ``(l, k, 2)``, and the other way round."""

    def __init__(self, band_limit: int) -> None:
        n = band_limit + 1
        l, k = torch.arange(n)[:, None], torch.arange(n)
        places = torch.stack([l * l + l + k, l * l + l - k], -1)
        # Pairs with k > l do not exist; the tables of the rings are 0 there, so that any index will do.
        self.padded = places.where((k <= l)[..., None], 0)
        degree = torch.repeat_interleave(torch.arange(n), 2 * torch.arange(n) + 1)
        order = torch.arange(n * n) - degree * degree - degree
        self.packed = (degree * n + order.abs()) * 2 + (order < 0)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # what is cached must serve later where gradients are wanted
def _ring_tables(grid: SphereGrid, band_limit: int, m: int) -> tuple[Tensor, Tensor]:
    """Scaled entries of D^l(Y(beta)), ``(k, l, n_beta)``: [k, m], between cosines, and [-k, -m], between sines.

    Y(beta) commutes with the reflection y ↦ -y, so that it does not mix cosines and sines.
    """
    n, y = band_limit + 1, SO3().from_euler(0.0, grid.beta, 0.0)
    even, odd = (torch.zeros(n, n, len(grid.beta), dtype=torch.float64) for _ in range(2))
    for at in range(0, len(y), 8):  # all degrees at once are fastest, but large for all rings at once
        rings = slice(at, at + 8)
        for l, d in enumerate(wigner_ds(band_limit, y[rings])):
            if l >= m:
                even[: l + 1, l, rings] = d[:, l:, l + m].T
            if l >= m > 0:
                odd[1 : l + 1, l, rings] = d[:, :l, l - m].flip(-1).T
    degrees = torch.arange(n, dtype=torch.float64)[:, None]
    scale = ((2 * degrees + 1) / (4 * pi) / (2 if m else 1)).sqrt()
    return even * scale, odd * scale


def _as_slice(places: Tensor) -> Channels:
    """Neighbors as a slice, which needs no copy."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


def _over_rings(table: Tensor, f: Tensor) -> Tensor:
    """``(..., beta, k)`` to ``(..., l, k)``."""
    return torch.einsum("klb,...bk->...lk", table, f)


def _over_degrees(table: Tensor, c: Tensor) -> Tensor:
    """``(..., l, k)`` to ``(..., beta, k)``."""
    return torch.einsum("klb,...lk->...bk", table, c)


def _quarter_turn(t: Tensor) -> Tensor:
    """J on the pairs of channels of ``(..., channels, p, q)``: (a, b) to (-b, a)."""
    a, b = t.unflatten(-3, (-1, 2)).unbind(-3)
    return torch.stack([-b, a], dim=-3).flatten(-4, -3)


def _mixed(matrix: Tensor | None, f: Tensor) -> Tensor:
    """A matrix on the channels of ``(..., dim, n_beta, n_alpha)``."""
    return f if matrix is None else torch.einsum("ij,...jba->...iba", matrix, f)
