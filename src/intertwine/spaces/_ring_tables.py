"""The functions of the polar angle in spin-weighted harmonics, by recursion over the degree."""

from __future__ import annotations

from functools import lru_cache
from math import pi, sqrt

import torch
from torch import Tensor

from ._sphere_grid import SphereGrid


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # the cached result may take part in gradients later
def ring_tables(grid: SphereGrid, band_limit: int, m: int) -> tuple[Tensor, Tensor]:
    """Scaled entries of D^l(Y(beta)), ``(k, l, n_beta)``: [k, m], between cosines, and [-k, -m], between sines.

    Y(beta) commutes with the reflection y ↦ -y, so it does not mix cosines and sines. The real matrices D^l are sums
    and differences of the columns m and -m of Wigner's d^l. The second table is empty for m = 0.
    """
    up, down = _columns(grid.beta, band_limit, m)
    degrees = torch.arange(band_limit + 1, dtype=torch.float64)[:, None]
    scale = ((2 * degrees + 1) / (4 * pi)).sqrt()
    if m == 0:
        up[1:] *= sqrt(2)
        return up * scale, up.new_zeros(0)
    down = down * (-1) ** m
    even, odd = up + down, up - down
    even[0] /= sqrt(2)
    return even * (scale / sqrt(2)), odd * (scale / sqrt(2))


def _columns(beta: Tensor, band_limit: int, m: int) -> Tensor:
    """The columns m and -m of Wigner's d^l for k ≥ 0, times (-1)^(k+m): ``(2, k, l, n_beta)``.

    For fixed k and m, d^l obeys a three-term recursion in l, stable in the direction of growing l, which starts at
    l = max(k, m) with a power of cos(beta/2) and sin(beta/2). Each step takes all k and all rings at once. It takes
    O(L³) time; building the complete matrices takes O(L⁴).
    """
    n = band_limit + 1
    k = torch.arange(n, dtype=torch.float64)
    signed = torch.tensor([m, -m], dtype=torch.float64)
    out = torch.zeros(2, n, n, len(beta), dtype=torch.float64)
    cosine = beta.cos()
    for l in range(m, n):
        if l == m:
            out[0, : m + 1, l] = _first(m, k[: m + 1], beta) * ((-1) ** (k[: m + 1] + m))[:, None]
            out[1, : m + 1, l] = _first(m, -k[: m + 1], beta)
            continue
        # From l - 1 and l - 2 to l, for k < l; the row k = l begins here.
        j, rows = l - 1, k[:l]
        if j == 0:
            out[:, 0, l] = cosine
        else:
            ahead = j * ((l * l - m * m) * (l * l - rows * rows)).sqrt()
            behind = l * ((j * j - m * m) * (j * j - rows * rows)).clamp_min(0).sqrt()
            slope = j * l * cosine - (signed[:, None] * rows)[..., None]
            step = (2 * j + 1) * slope * out[:, :l, j]
            if j > m:
                step -= behind[:, None] * out[:, :l, j - 1]
            out[:, :l, l] = step / ahead[:, None]
        out[:, l, l] = _first(l, signed, beta)
    return out


def _first(l: int, a: Tensor, beta: Tensor) -> Tensor:
    """|d^l_{l,a}(beta)| = √binomial(2l, l+a) cos(beta/2)^(l+a) sin(beta/2)^(l-a), ``(len(a), n_beta)``."""
    half = beta / 2
    binomial = torch.lgamma(a.new_tensor(2 * l + 1)) - torch.lgamma(l + a + 1) - torch.lgamma(l - a + 1)
    powers = (l + a)[:, None] * half.cos().log() + (l - a)[:, None] * half.sin().log()
    return (binomial[:, None] / 2 + powers).exp()
