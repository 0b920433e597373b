"""Kernels on the sphere: one free matrix per degree, or equivalently a matrix-valued function of the polar angle."""

from __future__ import annotations

from collections import Counter
from functools import cached_property, lru_cache
from math import pi

import torch
from torch import Tensor

from .._checked import NonNegative, checked
from .._devices import OnCPU
from .._numerics import require_memory
from ..errors import InputError, TypeMismatchError
from ..groups import SO2, SO3, Representation, direct_sum, wigner_ds
from ..spaces import FieldType, Sphere, SphereGrid, SpinTransform, spin_decomposition
from ._checks import require_dim, require_residual, require_some

_CHUNK = 2**21  # maximum number of entries in a temporary tensor of `correlate`


class SphereKernelBasis(OnCPU):
    r"""An orthonormal basis of the equivariant kernels between fields on the sphere, up to degree ``band_limit`` = L.

    Fields of type ρ contain the irrep D^l of SO(3) once per intertwiner φ_a: D^l → ρ of SO(2), i.e. once per channel a
    whose spin is at most l (Frobenius reciprocity). An equivariant map mixes the copies of each degree by a free real
    matrix. The basis has one kernel per matrix entry (l, a2, a1):

        κ(g) = √((2l+1)/4π) φ_a2 D^l(g) φ_a1ᵀ,       κ(h2 g h1) = ρ2(h2) κ(g) ρ1(h1).

    Between irreps of spins m1, m2 these are 1 kernel for (0, 0), 2 for (0, m) and (m, 0), and 4 for m1, m2 ≥ 1, for
    every l ≥ max(m1, m2). A kernel can be written

    - in the spectrum, as one matrix per degree on the coefficients of :class:`SpinTransform` (:meth:`spectral`);
    - on the group (:meth:`on_group`);
    - on the sphere, κ_C(x) = κ(s(x)), with κ_C(hx) = ρ2(h) κ_C(x) ρ1(h(x, h))⁻¹ (:meth:`on_cosets`);
    - on the double cosets SO(2)\SO(3)/SO(2), as a function of the polar angle, κ_D(beta) = κ(Y(beta)), constrained only
      at the poles: ρ2(h) κ_D(0) = κ_D(0) ρ1(h) and ρ2(h) κ_D(π) = κ_D(π) ρ1(h)⁻¹ (:meth:`on_double_cosets`).

    If ρ1 and ρ2 are orthogonal, the basis is orthonormal on the sphere: ∫ ⟨κ_C(x), κ'_C(x)⟩ dx = 1 or 0 for the
    surface measure of total 4π. Otherwise it is orthonormal in coordinates in which they are orthogonal.

    Args:
        in_type: fields on the sphere.
        out_type: fields on the sphere.
        band_limit: the maximum degree L.
        allow_empty: return an empty basis, instead of raising an error, if zero is the only kernel.

    Attributes:
        dim: the number of kernels.
        index: ``(dim, 3)``, the matrix entry (l, a2, a1) of each kernel.
        residual: the largest violation of the constraint, at random group elements, or of orthonormality.

    >>> sphere, H = Sphere(), SO2()
    >>> SphereKernelBasis(sphere.field(H.trivial), sphere.field(H.irrep(1)), band_limit=4).dim
    8
    """

    @checked
    def __init__(
        self, in_type: FieldType, out_type: FieldType, band_limit: NonNegative, *, allow_empty: bool = False
    ) -> None:
        _require_spheres(in_type, out_type)
        self.in_type, self.out_type = in_type, out_type
        self.band_limit = band_limit
        self._in, self._out = spin_decomposition(in_type.rho), spin_decomposition(out_type.rho)
        self._check_dims()
        self.index = torch.cat([self._entries(l) for l in range(self.band_limit + 1)])
        self.dim = len(self.index)
        self.residual = _residual(in_type.rho, out_type.rho, self.band_limit)
        self._check(allow_empty)

    # -- solving -----------------------------------------------------------------------------------------------

    def _entries(self, l: int) -> Tensor:
        """All (l, a2, a1) for channels of the two types that exist at degree l."""
        pairs = torch.cartesian_prod(self._out.channels(l), self._in.channels(l)).reshape(-1, 2)
        return torch.cat([torch.full_like(pairs[:, :1], l), pairs], dim=1)

    def _check_dims(self) -> None:
        """Compare the number of kernels with Mackey's prediction, for each degree."""
        rho1, rho2 = self.in_type.rho, self.out_type.rho
        for l in range(self.band_limit + 1):
            dim = len(self._in.channels(l)) * len(self._out.channels(l))
            caller = f"kernels {self.in_type} → {self.out_type}, degree {l}"
            require_dim(dim, multiplicity(rho1, l) * multiplicity(rho2, l), caller=caller)

    def _check(self, allow_empty: bool) -> None:
        require_residual(self.residual, caller=f"kernels {self.in_type} → {self.out_type}")
        if not allow_empty:
            min_degree = max(min(spins.spins) for spins in (self._in, self._out))
            require_some(
                self.dim,
                self.in_type,
                self.out_type,
                why=f"fields of spin m have no degrees below m, and the band limit is {self.band_limit}",
                fix=f"Use band_limit={min_degree} or more.",
            )

    @cached_property
    def mackey_dim(self) -> int:
        """The dimension from characters: Σ_l dim Hom_SO(2)(D^l, ρ1) · dim Hom_SO(2)(D^l, ρ2)."""
        rho1, rho2 = self.in_type.rho, self.out_type.rho
        return sum(multiplicity(rho1, l) * multiplicity(rho2, l) for l in range(self.band_limit + 1))

    def __repr__(self) -> str:
        return f"SphereKernelBasis(dim={self.dim}, band limit={self.band_limit}, residual={self.residual:.0e})"

    # -- realizations ------------------------------------------------------------------------------------------

    def spectral(self, weights: Tensor | None = None) -> Tensor:
        """The matrices ``(L+1, d2, d1)`` by which the kernel with these weights acts on coefficients.

        out_a2^l = Σ_a1 K^l[a2, a1] f_a1^l for the coefficients of :class:`SpinTransform`. A basis kernel has a single
        nonzero entry, √(4π/(2l+1)) at its ``index``. Without weights: all basis kernels, ``(dim, L+1, d2, d1)``.
        """
        shape = (self.band_limit + 1, self.out_type.dim, self.in_type.dim)
        l, a2, a1 = self.index.T
        scale = (4 * pi / (2 * l.to(torch.float64) + 1)).sqrt()
        if weights is None:
            self._require_room((self.band_limit + 1) * self.dim, "spectral")
            matrices = torch.zeros(self.dim, *shape, dtype=torch.float64)
            matrices[torch.arange(self.dim), l, a2, a1] = scale
            return matrices
        weights = self._require_weights(weights, "spectral")
        entries = tuple(part.to(weights.device) for part in (l, a2, a1))
        return weights.new_zeros(shape).index_put(entries, weights * scale.to(weights))

    def on_group(self, g: Tensor) -> Tensor:
        """The basis at rotations ``(..., 3, 3)``: ``(dim, ..., d2, d1)``."""
        g = SO3().require(g, caller="SphereKernelBasis.on_group")
        batch = g.shape[:-2]
        self._require_room(self.dim * batch.numel(), "on_group")
        parts = []
        for l, d in enumerate(wigner_ds(self.band_limit, g.reshape(-1, 3, 3))):
            phi2, phi1 = self._out.intertwiners(l), self._in.duals(l)
            kappa = torch.einsum("apin,bnj->abpij", torch.einsum("aim,pmn->apin", phi2, d), phi1)
            parts.append(((2 * l + 1) / (4 * pi)) ** 0.5 * kappa.flatten(0, 1))
        return torch.cat(parts).reshape(self.dim, *batch, self.out_type.dim, self.in_type.dim)

    def on_cosets(self, x: Tensor) -> Tensor:
        """The basis at points ``(..., 3)`` of the sphere, κ_C(x) = κ(s(x)): ``(dim, ..., d2, d1)``."""
        return self.on_group(self.in_type.space.section(x))

    def on_double_cosets(self, beta: Tensor) -> Tensor:
        """The basis as functions of the polar angle, κ_D(beta) = κ(Y(beta)): ``(dim, n_beta, d2, d1)``."""
        return self.on_group(SO3().from_euler(0.0, beta, 0.0))

    def combine(self, weights: Tensor, g: Tensor) -> Tensor:
        """The kernel with these weights at rotations ``(..., 3, 3)``: ``(..., d2, d1)``.

        Sums over the basis first, which takes much less time and memory than :meth:`on_group`.
        """
        weights = self._require_weights(weights, "combine").to(torch.float64)
        g = SO3().require(g, caller="SphereKernelBasis.combine")
        flat, out = g.reshape(-1, 3, 3), g.new_zeros(g.shape[:-2].numel(), self.out_type.dim * self.in_type.dim)
        counts = [len(self._out.channels(l)) * len(self._in.channels(l)) for l in range(self.band_limit + 1)]
        wigner = wigner_ds(self.band_limit, flat)
        for l, (part, d) in enumerate(zip(weights.split(counts), wigner, strict=True)):
            phi2, phi1 = self._out.intertwiners(l), self._in.duals(l)
            table = torch.einsum("aim,ab,bnj->mnij", phi2, part.reshape(len(phi2), len(phi1)), phi1)
            out = out + ((2 * l + 1) / (4 * pi)) ** 0.5 * d.flatten(1) @ table.flatten(2).flatten(0, 1)
        return out.reshape(*g.shape[:-2], self.out_type.dim, self.in_type.dim)

    def profile(self, weights: Tensor, beta: Tensor) -> Tensor:
        """The kernel with these weights as a function of the polar angle: κ_D at angles ``(...)`` is ``(..., d2, d1)``.

        The entries of D^l(Y(beta)) are trigonometric polynomials of degree l. So 2L+1 angles determine κ_D, and
        evaluating it at many more is cheap.
        """
        return self._from_waves(self._waves(weights), beta)

    def _waves(self, weights: Tensor) -> Tensor:
        """The coefficients of κ_D for cos(k beta) and sin(k beta), k = 0..L: ``(2L+2, d2, d1)``."""
        n, k = 2 * self.band_limit + 1, torch.arange(self.band_limit + 1, dtype=torch.float64)[:, None]
        nodes = torch.arange(n, dtype=torch.float64) * (2 * pi / n)
        values = self.combine(weights, SO3().from_euler(0.0, nodes, 0.0))
        scale = (2 - (k == 0).to(k)) / n
        waves = torch.cat([scale * torch.cos(k * nodes), scale * torch.sin(k * nodes)])
        return torch.einsum("kn,nij->kij", waves, values)

    def _from_waves(self, waves: Tensor, beta: Tensor) -> Tensor:
        angles = beta.to(torch.float64)[..., None] * torch.arange(self.band_limit + 1, dtype=torch.float64)
        return torch.einsum("...k,kij->...ij", torch.cat([angles.cos(), angles.sin()], -1), waves)

    # -- the equivariant map -----------------------------------------------------------------------------------

    def apply(self, weights: Tensor, f: Tensor, grid: SphereGrid) -> Tensor:
        """The map on samples, ``(..., d1, n_beta, n_alpha)`` to ``(..., d2, n_beta, n_alpha)``, via the spectrum."""
        self._require_grid(grid, "apply")
        into = SpinTransform(grid, self.in_type.rho, band_limit=self.band_limit)
        out = SpinTransform(grid, self.out_type.rho, band_limit=self.band_limit)
        return out.synthesis(self.apply_spectral(weights, into.analysis(f)))

    def apply_spectral(self, weights: Tensor, c: Tensor) -> Tensor:
        """The map on coefficients, ``(..., d1, (L+1)**2)`` to ``(..., d2, (L+1)**2)``."""
        matrices = self.spectral(weights.to(c))
        parts = c.split([2 * l + 1 for l in range(self.band_limit + 1)], dim=-1)
        return torch.cat([matrices[l] @ part for l, part in enumerate(parts)], dim=-1)

    def correlate(self, weights: Tensor, f: Tensor, grid: SphereGrid) -> Tensor:
        """The map on samples by its definition, the twisted cross-correlation, as a sum over the grid:

        out(x) = Σ_y w(y) κ_C(s(x)⁻¹ y) ρ1(h1(s(x)⁻¹ s(y))) f(y),       h1(g) = s(gH)⁻¹ g.

        Here κ_C(z) = ρ2(Z(alpha)) κ_D(beta) for a point z with azimuth alpha and polar angle beta. This needs no
        transform but takes O(points²) time: a slow reference for :meth:`apply`. The two agree on fields whose degree is
        at most the band limit of the grid.
        """
        self._require_grid(grid, "correlate")
        space, rho1, rho2 = self.in_type.space, self.in_type.rho, self.out_type.rho
        if f.shape[-3:] != (rho1.dim, *grid.shape):
            raise InputError(
                "SphereKernelBasis.correlate",
                expected=f"samples (..., {rho1.dim} channels, {grid.shape[0]}, {grid.shape[1]}) on {grid}",
                got=f"shape {tuple(f.shape)}",
                fix="Channels come before the two axes of the grid.",
            )
        y = grid.points.reshape(-1, 3)
        sections, weighted = space.section(y), (f * grid.weights.to(f)).flatten(-2)
        waves = self._waves(weights)
        step = max(1, _CHUNK // (len(y) * max(2 * self.band_limit + 2, rho1.dim**2, rho2.dim**2)))
        parts = []
        for back in space.inverse(sections).split(step):
            g = space.compose(back[:, None], sections)
            s = space.section(space.project(g))  # s(x)⁻¹ s(y) projects to the point s(x)⁻¹ y
            twist = rho1(space.as_stabilizer(space.compose(space.inverse(s), g)))
            alpha, beta = torch.atan2(-s[..., 0, 1], s[..., 1, 1]), torch.atan2(-s[..., 2, 0], s[..., 2, 2])
            kappa = (rho2(SO2().from_angle(alpha)) @ self._from_waves(waves, beta) @ twist).to(f)
            parts.append(torch.einsum("xyij,...jy->...ix", kappa, weighted))
        return torch.cat(parts, dim=-1).unflatten(-1, grid.shape)

    # -- checks ------------------------------------------------------------------------------------------------

    def _require_weights(self, weights: Tensor, method: str) -> Tensor:
        if weights.shape != (self.dim,):
            raise InputError(
                f"SphereKernelBasis.{method}",
                expected=f"{self.dim} weights, one per basis kernel",
                got=f"shape {tuple(weights.shape)}",
                fix="Pass a vector of length basis.dim.",
            )
        return weights

    def _require_grid(self, grid: SphereGrid, method: str) -> None:
        if grid.band_limit < self.band_limit:
            raise InputError(
                f"SphereKernelBasis.{method}",
                expected=f"a grid that is exact up to the band limit {self.band_limit} of the kernels",
                got=str(grid),
                fix="Use a finer grid or kernels of lower degree.",
            )

    def _require_room(self, matrices: int, method: str) -> None:
        d2, d1 = self.out_type.dim, self.in_type.dim
        require_memory(
            matrices * d1 * d2,
            caller=f"SphereKernelBasis.{method}",
            what=f"{matrices} matrices of size {d2} x {d1}",
            fix="Combine the kernels first, with spectral(weights) or combine(weights, g).",
        )


@lru_cache(maxsize=4096)
def multiplicity(rho: Representation, l: int) -> int:
    """The multiplicity of D^l in the fields of type rho: dim Hom_SO(2)(D^l, rho), from characters.

    >>> [multiplicity(SO2().trivial + SO2().irrep(2), l) for l in range(4)]
    [1, 1, 3, 3]
    """
    copies = Counter(rho.atoms)
    if len(copies) < len(rho.atoms):
        return sum(n * multiplicity(atom, l) for atom, n in copies.items())
    return SO2().intertwining_number(SO3().irrep(l).restrict(SO2()), rho)


@lru_cache(maxsize=256)
def _residual(rho1: Representation, rho2: Representation, band_limit: int) -> float:
    """The maximum of |κ(h2 g h1) - ρ2(h2) κ(g) ρ1(h1)| at random elements and |⟨κ, κ'⟩ - δ|, per distinct summand."""
    distinct1, distinct2 = (direct_sum(Counter(rho.atoms)) for rho in (rho1, rho2))
    random = torch.Generator().manual_seed(0)
    h1, h2 = SO2().sample(2, random), SO2().sample(2, random)
    g = torch.cat([SO3().sample(1, random), SO3().from_euler(0.0, pi, 0.0)[None]])
    turned = SO3().embed(SO2(), h2) @ g @ SO3().embed(SO2(), h1)
    worst = 0.0
    at_g, at_turned = wigner_ds(band_limit, g), wigner_ds(band_limit, turned)
    out, into = spin_decomposition(distinct2), spin_decomposition(distinct1)
    left, right = distinct2(h2), distinct1(h1)
    for l, (d, moved) in enumerate(zip(at_g, at_turned, strict=True)):
        for spins in (into, out):
            products = torch.einsum("aij,bji->ab", spins.intertwiners(l), spins.duals(l))
            worst = max(worst, _largest(products - torch.eye(len(products), dtype=torch.float64)))
        phi2, phi1 = out.intertwiners(l)[:, None, None], into.duals(l)[None, :, None]
        error = phi2 @ moved @ phi1 - left @ (phi2 @ d @ phi1) @ right
        worst = max(worst, ((2 * l + 1) / (4 * pi)) ** 0.5 * _largest(error))
    return worst


def _largest(t: Tensor) -> float:
    return float(t.abs().max()) if t.numel() else 0.0


def _require_spheres(in_type: FieldType, out_type: FieldType) -> None:
    if not isinstance(in_type.space, Sphere) or not isinstance(out_type.space, Sphere):
        raise TypeMismatchError(
            "kernels.solve",
            expected="two field types on the sphere",
            got=f"{in_type} and {out_type}",
            fix="Build both from Sphere().",
        )
