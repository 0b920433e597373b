"""Filters for groups that do not map the lattice to itself: angular solutions times radial profiles, sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import ceil

import torch
from torch import Tensor

from .._checked import checked
from .._devices import OnCPU
from .._numerics import require_memory
from ..errors import InputError, TypeMismatchError
from ..groups import Decomposition, FiniteGroup, LieGroup, Representation, circular_harmonics, spherical_harmonics
from ..spaces import FieldType, Grid
from ._angular import angular_residual, angular_solutions, harmonics
from ._checks import common_grid, require_dim, require_residual, require_some
from ._lattice import filter_sizes
from ._radial import MIN_TAPS, profile, profile_polynomial

BandLimit = int | Callable[[float], int] | None


@checked
@dataclass(frozen=True)
class Ring:
    """A Gaussian shell of the filter.

    Attributes:
        radius: the radius where it peaks, in pixels.
        sigma: its width, in pixels.
        band_limit: the maximum degree of the harmonics on it.
    """

    radius: float
    sigma: float
    band_limit: int


@checked
@dataclass(frozen=True)
class Shell:
    """One ring with its number of kernels. The double cosets of these kernels are the radii, sampled at the rings.

    Attributes:
        ring: the radius, width and band limit.
        dim: the number of basis kernels on the ring.
    """

    ring: Ring
    dim: int


class SteerableKernelBasis(OnCPU):
    """Kernels κ(x) = Σ_J φ(|x|) A_J Y_J(x/|x|) between fields on R^d with a compact group K as stabilizer.

    The double cosets are the radii. As functions of x, the kernels satisfy κ(kx) = ρ2(k) κ(x) ρ1(k)⁻¹ exactly. As
    filters, they are sampled at the taps: a layer commutes exactly with the motions that map the lattice to itself, and
    up to sampling errors with the others.

    The radial profiles φ are Gaussians at the radii 0, 1, …, ⌊k/2⌋. Their width is 0.6 pixels, but 0.4 for the
    outermost one, which the square array cuts off. At the center, the profile is the single tap if k is odd. In filters
    with 5 or more taps per axis, a polynomial shapes the profiles to mix degrees as little as possible. The shell of
    radius r uses degrees up to a band limit: ⌈3r/2⌉, but 2 on the outermost shell and 0 at the center. Higher degrees
    alias on the taps.

    Args:
        in_type: fields on a grid.
        out_type: fields on the same grid.
        kernel_size: k, or one size per axis.
        rings: radii of the shells; default 0, 1, …, ⌊k/2⌋.
        sigma: width of all shells, in pixels.
        band_limit: maximum degree, for all shells or as a function of the radius.
        allow_empty: return an empty basis, instead of raising an error, if zero is the only kernel.

    >>> from intertwine.spaces import Grid2d
    >>> plane = Grid2d("SO(2)")
    >>> SteerableKernelBasis(plane.field("irrep0"), plane.field("irrep1"), 5).dim
    4
    """

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        rings: Sequence[float] | None = None,
        sigma: float | None = None,
        band_limit: BandLimit = None,
        allow_empty: bool = False,
    ) -> None:
        self.in_type, self.out_type = in_type, out_type
        self.space = _grid(in_type, out_type)
        self.group = self.space.stabilizer
        self.kernel_size = filter_sizes(kernel_size, self.space.dimension)
        self.rings = self._rings(rings, sigma, band_limit)
        self._in, self._out = in_type.rho.decompose(), out_type.rho.decompose()
        self._solve()
        self._check(allow_empty)

    # -- solving -----------------------------------------------------------------------------------------------

    def _rings(self, radii: Sequence[float] | None, sigma: float | None, band_limit: BandLimit) -> tuple[Ring, ...]:
        chosen = list(range(min(self.kernel_size) // 2 + 1)) if radii is None else sorted(float(r) for r in radii)
        out = []
        for r in chosen:
            outermost = r == chosen[-1]
            width = sigma if sigma is not None else self._width(r, outermost=outermost)
            default = 2 if outermost else ceil(1.5 * r)
            limit = default if band_limit is None else band_limit(r) if callable(band_limit) else band_limit
            if r < 0 or limit < 0 or not width > 0:
                raise InputError(
                    "kernels.solve",
                    expected="radii and band limits of 0 or more, and positive widths sigma",
                    got=f"radius {r:g} with band limit {limit} and width {width:g}",
                    fix="Without rings, sigma and band_limit you get the defaults.",
                )
            out.append(Ring(float(r), float(width), limit if r > 0 else 0))
        return tuple(out)

    def _width(self, radius: float, *, outermost: bool) -> float:
        if radius == 0 and all(n % 2 for n in self.kernel_size):
            return 0.1  # only the tap at the center, which commutes exactly with all rotations
        return 0.4 if outermost else 0.6

    def _solve(self) -> None:
        """Find the angular solutions for every pair of distinct irreps and every degree."""
        degrees = range(max((ring.band_limit for ring in self.rings), default=0) + 1)
        self._harmonics = [harmonics(self.group, self.space.action, j) for j in degrees]
        self._angular: dict[tuple[str, str], list[Tensor]] = {}
        self.residual = 0.0
        for psi2, psi1 in product(_distinct(self._out), _distinct(self._in)):
            by_degree = []
            for harmonic in self._harmonics:
                solutions = angular_solutions(psi1, psi2, harmonic)
                predicted = self.group.intertwining_number(psi1 @ harmonic, psi2)
                require_dim(len(solutions), predicted, caller=f"kernels {psi1.name} → {psi2.name}, {harmonic.name}")
                self.residual = max(self.residual, angular_residual(solutions, psi1, psi2, harmonic))
                by_degree.append(solutions)
            self._angular[psi2.digest, psi1.digest] = by_degree

    def _check(self, allow_empty: bool) -> None:
        caller = f"kernels {self.in_type} → {self.out_type}"
        require_dim(self.dim, self.mackey_dim, caller=caller)
        require_residual(self.residual, caller=caller)
        if not allow_empty:
            require_some(
                self.dim,
                self.in_type,
                self.out_type,
                why="no harmonic up to the band limit couples the two representations",
                fix="Use a larger filter or band limit, or types that share an irrep.",
            )
        for pair in self._angular:
            sampled = self._pair_values(*pair, self._tap_profiles).flatten(1)
            if len(sampled) and int(torch.linalg.matrix_rank(sampled, rtol=1e-6)) < len(sampled):
                raise InputError(
                    caller,
                    expected="a band limit that the taps resolve",
                    got=f"{len(sampled)} kernels between one pair of irreps that are linearly dependent on a filter of "
                    f"{' x '.join(map(str, self.kernel_size))} taps",
                    fix="Lower band_limit, use fewer rings, or a larger filter.",
                )

    # -- facts -------------------------------------------------------------------------------------------------

    @cached_property
    def dim(self) -> int:
        """The number of basis kernels."""
        return sum(self.ring_dims)

    @cached_property
    def ring_dims(self) -> tuple[int, ...]:
        """The number of basis kernels on each ring. The basis is ordered by ring."""
        pairs = list(product(self._out.irreps, self._in.irreps))
        return tuple(
            sum(len(self._angular[b.digest, a.digest][j]) for b, a in pairs for j in range(ring.band_limit + 1))
            for ring in self.rings
        )

    @property
    def double_cosets(self) -> tuple[Shell, ...]:
        """The rings, each with its number of basis kernels."""
        return tuple(Shell(ring, dim) for ring, dim in zip(self.rings, self.ring_dims, strict=True))

    @cached_property
    def mackey_dim(self) -> int:
        """The dimension from characters: Σ over shells and degrees of dim Hom_K(ρ1 ⊗ Harm_J, ρ2)."""
        rho1, rho2 = self.in_type.rho, self.out_type.rho
        by_degree = [self.group.intertwining_number(rho1 @ h, rho2) for h in self._harmonics]
        return sum(by_degree[j] for _, j in self._shells)

    @cached_property
    def coordinates(self) -> Tensor:
        """The positions of the taps, ``(taps, d)``."""
        return _tap_coordinates(self.space, self.kernel_size)

    def __repr__(self) -> str:
        limits = ", ".join(f"{ring.radius:g}: {ring.band_limit}" for ring in self.rings)
        return f"SteerableKernelBasis(dim={self.dim}, band limits={{{limits}}}, residual={self.residual:.0e})"

    @cached_property
    def _shells(self) -> list[tuple[Ring, int]]:
        """Every ring with every degree on it."""
        return [(ring, j) for ring in self.rings for j in range(ring.band_limit + 1)]

    def shells(self) -> list[tuple[Representation, Tensor]]:
        """For each ring and degree, the representation on the harmonics and φ(|x|) Y_J(x/|x|) at the taps.

        The values are ``(taps, harmonics)``. Multiplied with :func:`angular_solutions`, they give the basis.
        """
        return [(self._harmonics[j], p) for (_, j), p in zip(self._shells, self._tap_profiles, strict=True)]

    # -- values ------------------------------------------------------------------------------------------------

    def evaluate(self, x: Tensor) -> Tensor:
        """The basis as functions on R^d: values ``(dim, p, d2, d1)`` at points ``(p, d)``."""
        d2, d1 = self.out_type.dim, self.in_type.dim
        require_memory(
            self.dim * len(x) * d1 * d2,
            caller="SteerableKernelBasis.evaluate",
            what=f"{self.dim} kernels of size {d2} x {d1} at {len(x)} points",
            fix="Use fewer copies in the field types: copies of an irrep share one small basis.",
        )
        profiles = self._profiles(x.to(torch.float64))
        out = torch.zeros(self.dim, len(x), d2, d1, dtype=torch.float64)
        start = 0
        for ring in self.rings:
            values = {pair: self._pair_values(*pair, profiles, ring) for pair in self._angular}
            row = 0
            for psi2 in self._out.irreps:
                column = 0
                for psi1 in self._in.irreps:
                    small = values[psi2.digest, psi1.digest]
                    out[start : start + len(small), :, row : row + psi2.dim, column : column + psi1.dim] = small
                    start += len(small)
                    column += psi1.dim
                row += psi2.dim
        return self._out.basis @ out @ torch.linalg.inv(self._in.basis)

    def _pair_values(self, out: str, into: str, profiles: list[Tensor], only: Ring | None = None) -> Tensor:
        """Kernels between two irreps, ``(k, p, d2, d1)``, from the values of all shells at p points."""
        angular = self._angular[out, into]
        parts = [
            torch.einsum("kabm,pm->kpab", angular[j], profile)
            for (ring, j), profile in zip(self._shells, profiles, strict=True)
            if only is None or ring == only
        ]
        return torch.cat(parts)

    @cached_property
    def _tap_profiles(self) -> list[Tensor]:
        return self._profiles(self.coordinates)

    def _profiles(self, x: Tensor) -> list[Tensor]:
        """φ(|x|) Y_J(x/|x|) for all shells, each ``(p, harmonics)``, scaled to give filters a norm of about 1."""
        return [
            self._raw_profile(ring, j, x)
            * (self._raw_profile(ring, j, self.coordinates).square().sum(0).mean().clamp_min(1e-24).rsqrt())
            for ring, j in self._shells
        ]

    def _raw_profile(self, ring: Ring, j: int, x: Tensor) -> Tensor:
        radius = torch.linalg.vector_norm(x, dim=-1)
        return profile(radius, ring.radius, ring.sigma, self._polynomials[ring, j])[:, None] * _harmonic(j, x)

    @cached_property
    def _polynomials(self) -> dict[tuple[Ring, int], Tensor | None]:
        """The polynomial that corrects each shell's Gaussian; None for no correction."""
        return {(ring, j): _shell_polynomial(self.space, self.kernel_size, ring, j) for ring, j in self._shells}

    # -- realizations ------------------------------------------------------------------------------------------

    def on_double_cosets(self, radii: Tensor) -> Tensor:
        """The basis as functions of the radius r, at (r, 0) or (0, 0, r): ``(dim, radii, d2, d1)``.

        If the group maps every direction to every other, these values determine the kernels.
        """
        x = torch.zeros(len(radii), self.space.dimension, dtype=torch.float64)
        x[:, 0 if self.space.dimension == 2 else 2] = radii
        return self.evaluate(x)

    def on_cosets(self) -> Tensor:
        """The basis at the taps, ``(dim, taps, d2, d1)``."""
        return self.evaluate(self.coordinates)

    def on_group(self, x: Tensor, rotations: Tensor) -> Tensor:
        """The basis at motions (x, r), κ(x, r) = κ(x) ρ1(r): ``(dim, motions, d2, d1)``."""
        return self.evaluate(x) @ self.in_type.rho(rotations)

    def combine(self, weights: Tensor) -> Tensor:
        """The kernel with these coefficients at the taps, ``(taps, d2, d1)``."""
        if weights.shape != (self.dim,):
            raise InputError(
                "SteerableKernelBasis.combine",
                expected=f"{self.dim} weights, one per basis kernel",
                got=f"shape {tuple(weights.shape)}",
                fix="Pass a vector of length basis.dim.",
            )
        return torch.einsum("k,kxab->xab", weights.to(torch.float64), self.on_cosets())

    def filters(self, kappa: Tensor | None = None) -> Tensor:
        """Kernels, by default all basis kernels, as convolution filters ``(..., d2, d1, *kernel_size)``."""
        kappa = self.on_cosets() if kappa is None else kappa
        return torch.einsum("...xab->...abx", kappa).unflatten(-1, self.kernel_size)


def _distinct(decomposition: Decomposition) -> list[Representation]:
    return list({psi.digest: psi for psi in decomposition.irreps}.values())


def _grid(in_type: FieldType, out_type: FieldType) -> Grid:
    space = common_grid(in_type, out_type)
    if not isinstance(space.stabilizer, FiniteGroup | LieGroup):
        raise TypeMismatchError("kernels.solve", expected="a finite or compact Lie group as stabilizer", got=space.name)
    return space


def _tap_coordinates(space: Grid, kernel_size: tuple[int, ...]) -> Tensor:
    return space.coordinates(kernel_size).reshape(-1, space.dimension) @ space.lattice_basis.T


@lru_cache(maxsize=256)
@torch.inference_mode(False)  # the cached result may take part in gradients later
def _shell_polynomial(space: Grid, kernel_size: tuple[int, ...], ring: Ring, j: int) -> Tensor | None:
    """The polynomial that shapes a shell's Gaussian; None at the center and in small filters."""
    if ring.radius == 0 or min(kernel_size) < MIN_TAPS:
        return None
    taps = _tap_coordinates(space, kernel_size)
    return profile_polynomial(taps, ring.radius, ring.sigma, j, _harmonic)


def _harmonic(j: int, x: Tensor) -> Tensor:
    """The harmonics of degree j at points ``(p, d)``."""
    if x.shape[1] == 2:
        return circular_harmonics(j, x)[:, (2 * j - 1 if j else 0) : 2 * j + 1]
    return spherical_harmonics(j, x)[:, j * j : (j + 1) ** 2]
