"""The spin-weighted spherical transform between sampled fields on the sphere and their real coefficients."""

from __future__ import annotations

from functools import cached_property
from math import pi, sqrt

import torch
from torch import Tensor

from .._checked import NonNegative, checked
from .._numerics import require_memory
from ..errors import InputError
from ..groups import SO3, Representation, wigner_d
from ._sphere_frame import sphere_section
from ._sphere_grid import SphereGrid
from ._spin import spin_decomposition
from ._spin_tables import SpinTables, WaveLayout, spin_tables


class SpinTransform:
    """Fields on the sphere with values in rho, as sums of spin-weighted harmonics of degree at most ``band_limit`` = L.

    By Frobenius reciprocity, the copies of the irrep D^l of SO(3) among the fields correspond to the intertwiners
    φ_a: D^l → rho of SO(2), one per channel a whose spin is at most l (:class:`SpinDecomposition`):

        f(x) = Σ_l √((2l+1)/4π) Σ_a φ_a D^l(s(x))⁻¹ c_a^l,        c_a^l in R^(2l+1).

    These basis functions are real, and orthonormal for the surface measure if rho is orthogonal. For scalars, they are
    the real spherical harmonics. Rotating the field, π(g)f, multiplies every c_a^l by D^l(g). The two channels of a
    spin m ≥ 1 are the real and imaginary parts of one complex coefficient; for m = 1 they belong to gradients and to
    curls.

    Coefficients are ``(..., dim, (L+1)**2)``, with degree l at ``l**2 : (l+1)**2``. Those with l below the spin of the
    channel do not exist and are 0. Samples are ``(..., dim, n_beta, n_alpha)`` in the frames of the section. The
    transform sums over alpha on each ring and then over beta, which takes O(L³) per channel. It runs in the dtype and
    on the device of its argument.

    Args:
        grid: where fields are sampled.
        rho: a representation of SO(2).
        band_limit: L; default: the band limit of the grid, which is also the maximum.

    >>> from intertwine.groups import SO2
    >>> t = SpinTransform(SphereGrid("gauss-legendre", 3), SO2().irrep(1))
    >>> f = t.synthesis(torch.ones(2, 16, dtype=torch.float64) * t.exists)
    >>> f.shape, t.analysis(f)[:, :4].round(decimals=8) + 0.0
    (torch.Size([2, 4, 7]), tensor([[0., 1., 1., 1.],
            [0., 1., 1., 1.]], dtype=torch.float64))
    """

    @checked
    def __init__(self, grid: SphereGrid, rho: Representation, *, band_limit: NonNegative | None = None) -> None:
        self.grid, self.rho = grid, rho
        self.band_limit = grid.band_limit if band_limit is None else band_limit
        if self.band_limit > grid.band_limit:
            raise InputError(
                "SpinTransform",
                expected=f"a band limit of at most {grid.band_limit}, up to which {grid} is exact",
                got=str(self.band_limit),
                fix="Use a finer grid: Sphere().grid(kind, band_limit=L).",
            )
        self.spins = spin_decomposition(rho)
        self._converted: dict[tuple[torch.dtype, torch.device], SpinTables] = {}

    @property
    def size(self) -> int:
        """The number of columns of the coefficients, (L+1)²."""
        return (self.band_limit + 1) ** 2

    @cached_property
    @torch.inference_mode(False)  # the cached result may take part in gradients later
    def exists(self) -> Tensor:
        """Which coefficients exist, ``(dim, (L+1)**2)``: those whose degree is at least the spin of the channel."""
        return self.spins.channel_spins[:, None] <= self.degrees

    @cached_property
    @torch.inference_mode(False)
    def degrees(self) -> Tensor:
        """The degree l of each column of the coefficients, ``((L+1)**2,)``."""
        l = torch.arange(self.band_limit + 1)
        return torch.repeat_interleave(l, 2 * l + 1)

    # -- the transform -----------------------------------------------------------------------------------------

    def synthesis(self, c: Tensor) -> Tensor:
        """The field with these coefficients at the points of the grid, ``(..., dim, n_beta, n_alpha)``."""
        c = self._coefficients(c, "synthesis")
        return self._tables(c).synthesis(c[..., self._layout.padded])

    def analysis(self, f: Tensor) -> Tensor:
        """The coefficients ``(..., dim, (L+1)**2)`` of a field, by quadrature: exact up to the band limit.

        If a field has degrees l > L, they are projected out as long as l + L is at most twice the band limit of the
        grid. Higher degrees are aliased.
        """
        f = self._samples(f, "analysis")
        return self._tables(f).analysis(f).flatten(-3)[..., self._layout.packed]

    def rotate(self, c: Tensor, g: Tensor) -> Tensor:
        """The coefficients of π(g)f: every c_a^l times D^l(g), for a rotation ``(3, 3)``."""
        c = self._coefficients(c, "rotate")
        g = SO3().require(g, caller="SpinTransform.rotate")
        if g.ndim != 2:
            raise InputError(
                "SpinTransform.rotate",
                expected="a single rotation (3, 3)",
                got=f"shape {tuple(g.shape)}",
                fix="Loop over g.",
            )
        parts = c.split([2 * l + 1 for l in range(self.band_limit + 1)], dim=-1)
        return torch.cat([part @ wigner_d(l, g).to(c).mT for l, part in enumerate(parts)], dim=-1)

    def evaluate(self, c: Tensor, x: Tensor) -> Tensor:
        """The field with coefficients ``(dim, (L+1)**2)`` at any points ``(..., 3)``: values ``(..., dim)``."""
        c = self._coefficients(c, "evaluate").to(torch.float64)
        return torch.einsum("...dan,an->...d", self.harmonics(x), c)

    # -- slow references ---------------------------------------------------------------------------------------

    def harmonics(self, x: Tensor) -> Tensor:
        """The basis functions at points ``(..., 3)``, from their definition: ``(..., dim, dim, (L+1)**2)``.

        The first ``dim`` is the component of the value, the second one the channel.
        """
        s, d = sphere_section(x), self.rho.dim
        require_memory(
            s[..., 0, 0].numel() * d * d * self.size,
            caller="SpinTransform.harmonics",
            what=f"{d * self.size} functions with {d} components at {s[..., 0, 0].numel()} points",
            fix="Use synthesis, or fewer points at a time.",
        )
        out = s.new_zeros(*s.shape[:-2], d, d, self.size)
        for l in range(self.band_limit + 1):
            phi = sqrt((2 * l + 1) / (4 * pi)) * self.spins.intertwiners(l)
            values = torch.einsum("aim,...nm->...ian", phi, wigner_d(l, s))
            out[..., self.spins.channels(l), l * l : (l + 1) ** 2] = values
        return out

    def matrix(self) -> Tensor:
        """Synthesis as a matrix, ``(dim, n_beta, n_alpha, dim, (L+1)**2)``: a reference for the fast transform."""
        return torch.einsum("xyian->ixyan", self.harmonics(self.grid.points))

    # -- layout ------------------------------------------------------------------------------------------------

    @cached_property
    @torch.inference_mode(False)
    def _layout(self) -> WaveLayout:
        return WaveLayout(self.band_limit)

    def _tables(self, like: Tensor) -> SpinTables:
        kind = like.dtype, like.device
        if kind not in self._converted:
            self._converted[kind] = spin_tables(self.grid, self.rho, self.band_limit).to(like)
        return self._converted[kind]

    def _coefficients(self, c: Tensor, method: str) -> Tensor:
        if c.shape[-2:] != (self.rho.dim, self.size) or (method == "evaluate" and c.ndim != 2):
            batch = "" if method == "evaluate" else "..., "
            raise InputError(
                f"SpinTransform.{method}",
                expected=f"coefficients ({batch}{self.rho.dim} channels, {self.size}), "
                f"degree l at l**2 : (l+1)**2, up to degree {self.band_limit}",
                got=f"shape {tuple(c.shape)}",
                fix="Use coefficients from analysis with the same representation and band limit.",
            )
        return c

    def _samples(self, f: Tensor, method: str) -> Tensor:
        expected = (self.rho.dim, *self.grid.shape)
        if f.shape[-3:] != expected:
            raise InputError(
                f"SpinTransform.{method}",
                expected=f"samples (..., {expected[0]} channels, {expected[1]}, {expected[2]}) on {self.grid}",
                got=f"shape {tuple(f.shape)}",
                fix="Channels come before the two axes of the grid; grid= must be the grid of the samples.",
            )
        return f

    def __repr__(self) -> str:
        return f"SpinTransform({self.rho.name} on {self.grid}, degrees 0..{self.band_limit})"
