"""The spins of a representation of SO(2), and the maps to it from the irreps of SO(3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, count
from math import sqrt

import torch
from torch import Tensor

from .._checked import checked
from ..errors import RepresentationError
from ..groups import SO2, Representation


@checked
@dataclass(frozen=True, eq=False)
class SpinDecomposition:
    """rho as a sum of irreps of SO(2), in the order of its summands: Q⁻¹ rho(h) Q = ⊕ rho_m(h).

    The frequencies m are the spins of the field: 0 for scalars, 1 for tangent vectors, 2 for symmetric traceless
    tensors. The irrep rho_m occurs in the irrep D^l of SO(3) once if l ≥ m, on the harmonics (m, -m), and otherwise not
    at all. So

        Hom_SO(2)(D^l, rho) has one dimension per channel of spin m ≤ l.

    For a scalar channel, this is the projection P_0 to the harmonic 0. For the two channels of spin m ≥ 1, these are
    the projection P_m and J P_m, where J is the quarter turn. So each channel stands for one map at every degree where
    it exists.

    Attributes:
        rho: the representation.
        spins: the spin m of each irrep.
        basis: Q, ``(dim, dim)``; None if it is the identity.
    """

    rho: Representation
    spins: tuple[int, ...]
    basis: Tensor | None

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first channel of each irrep."""
        return tuple(accumulate((min(m, 1) + 1 for m in self.spins[:-1]), initial=0))

    @cached_property
    @torch.inference_mode(False)  # the cached result may take part in gradients later
    def channel_spins(self) -> Tensor:
        """The spin of each channel, ``(dim,)``."""
        return torch.tensor([m for m in self.spins for _ in range(min(m, 1) + 1)])

    def channels(self, l: int) -> Tensor:
        """The channels that exist at degree l, i.e. have spin at most l."""
        return torch.nonzero(self.channel_spins <= l).flatten()

    @cached_property
    @torch.inference_mode(False)
    def inverse(self) -> Tensor | None:
        """Q⁻¹; None if it is the identity."""
        if self.basis is None:
            return None
        return self.basis.T if self.rho.is_orthogonal else torch.linalg.inv(self.basis)

    def intertwiners(self, l: int) -> Tensor:
        """The maps φ with φ D^l(h) = rho(h) φ, ``(channels at l, dim, 2l+1)``.

        They are orthonormal for tr φᵀψ if rho is orthogonal. In general, the maps Q⁻¹φ are orthonormal.

        >>> spin_decomposition(SO2().irrep(1)).intertwiners(1) * 2**0.5
        tensor([[[ 0.,  0.,  1.],
                 [ 1.,  0.,  0.]],
                [[-1.,  0.,  0.],
                 [ 0.,  0.,  1.]]], dtype=torch.float64)
        """
        plain = self._plain(l)
        return plain if self.basis is None else self.basis @ plain

    def duals(self, l: int) -> Tensor:
        """The maps in the other direction, D^l(h) ψ = ψ rho(h), ``(channels at l, 2l+1, dim)``: the transposed maps."""
        plain = self._plain(l).mT
        return plain if self.inverse is None else plain @ self.inverse

    def _plain(self, l: int) -> Tensor:
        """The intertwiners to ⊕ rho_m."""
        maps = torch.zeros(self.rho.dim, self.rho.dim, 2 * l + 1, dtype=torch.float64)
        for a, m in zip(self.starts, self.spins, strict=True):
            if m == 0:
                maps[a, a, l] = 1.0
            elif m <= l:  # the harmonics (m, -m) are (cos mφ, sin mφ), which rho_m rotates
                maps[a, a, l + m] = maps[a, a + 1, l - m] = sqrt(0.5)
                maps[a + 1, a + 1, l + m] = sqrt(0.5)
                maps[a + 1, a, l - m] = -sqrt(0.5)
        return maps[self.channels(l)]


@checked
@lru_cache(maxsize=256)
@torch.inference_mode(False)  # the cached result may take part in gradients later
def spin_decomposition(rho: Representation) -> SpinDecomposition:
    """The spins of a representation of SO(2).

    >>> from intertwine.groups import SO3
    >>> spin_decomposition(SO3().irrep(2).restrict(SO2())).spins
    (0, 1, 2)
    >>> spin_decomposition(SO2().irrep(1) + 2 * SO2().trivial).spins
    (1, 0, 0)
    """
    if rho.group != SO2():
        raise RepresentationError(
            "a field on the sphere",
            expected="a representation of its stabilizer SO(2)",
            got=f"{rho.name} of {rho.group.name}",
            fix="For example SO2().trivial for scalars, SO2().irrep(1) for tangent vectors; or rho.restrict(SO2()).",
        )
    parts = {atom.digest: atom.decompose() for atom in {atom.digest: atom for atom in rho.atoms}.values()}
    spins = [_spin(psi) for atom in rho.atoms for psi in parts[atom.digest].irreps]
    basis = torch.block_diag(*(parts[atom.digest].basis for atom in rho.atoms))
    trivial = torch.equal(basis, torch.eye(rho.dim, dtype=torch.float64))
    return SpinDecomposition(rho, tuple(spins), None if trivial else basis)


def _spin(psi: Representation) -> int:
    return next(m for m in count() if SO2().irrep(m) == psi)
