r"""The constraint behind every kernel space with a finite output stabilizer, and its solution orbit by orbit.

A group H2 acts on points x, and each move has a twist t(x, h) in H1 with t(x, hk) = t(kx, h) t(x, k). A kernel
assigns to each point a map V1 → V2 with

    κ(hx) = ρ2(h) κ(x) ρ1(t(x, h))⁻¹        for all h in H2.

On the cosets G/H1 the twist is the cocycle; on the taps of a filter it is h itself. The orbits are the double cosets
H2\G/H1. On each orbit, κ at one representative may be any map that commutes with the representative's stabilizer. The
equation then determines κ at the other points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from ..errors import NumericalError
from ..groups import Representation, intertwiners, permutation_intertwiners
from ._cache import cached
from ._checks import require_dim


@dataclass(frozen=True)
class Orbit:
    """One orbit of points, i.e. one double coset.

    Attributes:
        points: the points, the representative first.
        carriers: for each point, an element h of H2 that moves the representative to it.
        carrier_twists: t(representative, h) for these.
        stabilizer: the elements of H2 that fix the representative.
        stabilizer_twists: t(representative, h) for these; on G/H1 with γ = s(x), the conjugates γ⁻¹hγ.
    """

    points: Tensor
    carriers: Tensor
    carrier_twists: Tensor
    stabilizer: Tensor
    stabilizer_twists: Tensor

    @property
    def representative(self) -> int:
        return int(self.points[0])


def find_orbits(action: Tensor, twist: Tensor) -> tuple[Orbit, ...]:
    """The orbits of ``action[h, x]`` with twists ``twist[h, x]``, sorted by their smallest points."""
    smallest = action.min(0).values  # the smallest point in the orbit of each x
    orbits = []
    for x in torch.unique(smallest).tolist():
        points = torch.nonzero(smallest == x).flatten()
        images = action[:, x]
        # The first h that moves x to each point. For x itself this is the identity, element 0.
        order = torch.argsort(images, stable=True)
        first = order[torch.searchsorted(images[order], points)]
        stabilizer = torch.nonzero(images == x).flatten()
        orbits.append(Orbit(points, first, twist[first, x], stabilizer, twist[stabilizer, x]))
    return tuple(orbits)


def predicted_dim(orbit: Orbit, rho1: Representation, rho2: Representation) -> int:
    """Mackey's formula: the intertwining number on the stabilizer S, (1/|S|) Σ χ2(h) χ1(t(h)⁻¹), from characters."""
    inverse = rho1.group.inverse(orbit.stabilizer_twists)
    value = float((rho2.character(orbit.stabilizer) * rho1.character(inverse)).mean())
    if abs(value - round(value)) > 1e-6:
        raise NumericalError(
            "Mackey's formula",
            expected="a whole number of intertwiners",
            got=f"{value!r} for {rho1.name} → {rho2.name}",
            fix="One of the two is not a homomorphism.",
        )
    return round(value)


def solve_orbit(orbit: Orbit, rho1: Representation, rho2: Representation) -> Tensor:
    """Basis ``(k, d2, d1)`` of the maps at the representative; orthonormal as kernels on the whole orbit.

    Raises an error if the size of the basis contradicts Mackey's formula.
    """
    p1, p2 = rho1.permutation_table, rho2.permutation_table
    orthogonal = rho1.is_orthogonal and rho2.is_orthogonal
    if p1 is not None and p2 is not None:  # orbits of index pairs: exact, and no linear algebra
        basis = permutation_intertwiners(p1[orbit.stabilizer_twists], p2[orbit.stabilizer])
    else:
        basis = intertwiners(rho1(orbit.stabilizer_twists), rho2(orbit.stabilizer), orthogonal=orthogonal)
    require_dim(len(basis), predicted_dim(orbit, rho1, rho2), caller=f"kernels {rho1.name} → {rho2.name}")
    if orthogonal:
        return basis / len(orbit.points) ** 0.5
    # Moving along the orbit is not an isometry here, so orthonormalize on the whole orbit.
    carried = carry(orbit, basis, rho1, rho2).flatten(1)
    _, r = torch.linalg.qr(carried.T)
    return torch.linalg.solve_triangular(r.T, basis.flatten(1), upper=False).reshape(basis.shape)


def carry(orbit: Orbit, basis: Tensor, rho1: Representation, rho2: Representation) -> Tensor:
    """Extend maps from the representative, ``(..., d2, d1)``, to all points of the orbit, ``(..., points, d2, d1)``."""
    return moved_maps(basis[..., None, :, :], rho1, orbit.carrier_twists, rho2, orbit.carriers)


def moved_maps(maps: Tensor, rho1: Representation, twists: Tensor, rho2: Representation, moves: Tensor) -> Tensor:
    """ρ2(h) K ρ1(t)⁻¹ for ``maps`` K of shape ``(..., points or 1, d2, d1)`` and elements h, t ``(points,)``.

    Permutation representations only permute the entries, which is fast and exact.
    """
    p1, p2 = rho1.permutation_table, rho2.permutation_table
    if p1 is None or p2 is None:
        back = rho1(rho1.group.inverse(twists))
        return torch.einsum(
            "xab,...xbc,xcd->...xad", rho2(moves), maps.expand(*maps.shape[:-3], len(moves), -1, -1), back
        )
    rows, columns = torch.argsort(p2[moves], 1), torch.argsort(p1[twists], 1)
    x = torch.arange(len(moves)) if maps.shape[-3] > 1 else torch.zeros(len(moves), dtype=torch.int64)
    return maps[..., x[:, None, None], rows[:, :, None], columns[:, None, :]]


def constraint_residual(
    kappa: Tensor, action: Tensor, twist: Tensor, rho1: Representation, rho2: Representation, generators: Sequence[int]
) -> float:
    """max |κ(hx) - ρ2(h) κ(x) ρ1(t(x, h))⁻¹| over generators h and all points, for κ of shape (..., points, d2, d1)."""
    worst = 0.0
    for h in generators:
        moved = moved_maps(kappa, rho1, twist[h], rho2, torch.full_like(twist[h], h))
        difference = kappa[..., action[h], :, :] - moved
        worst = max(worst, float(difference.abs().max()) if difference.numel() else 0.0)
    return worst


@dataclass(frozen=True)
class OrbitProblem:
    """A finite group H2 that acts on points, with twists in H1.

    Attributes:
        action: ``[h, x]``, the point hx.
        twist: ``[h, x]``, the element t(x, h) of H1.
        generators: generators of H2.
    """

    action: Tensor
    twist: Tensor
    generators: tuple[int, ...]

    @cached_property
    def orbits(self) -> tuple[Orbit, ...]:
        return find_orbits(self.action, self.twist)

    def predicted_dim(self, rho1: Representation, rho2: Representation) -> int:
        """(1/|H2|) Σ_h χ2(h) Σ_{hx = x} χ1(t(x, h)⁻¹): Mackey's formula as one sum over all double cosets."""
        fixed = self.action == torch.arange(self.action.shape[1])
        chi1 = rho1.character(rho1.group.inverse(rho1.group.elements))
        chi2 = rho2.character(rho2.group.elements)
        return round(float((chi2[:, None] * chi1[self.twist] * fixed).sum(1).mean()))

    def solve(self, rho1: Representation, rho2: Representation) -> OrbitSolution:
        """Solve every pair of distinct summands on every orbit, or take it from the cache."""
        blocks = {
            (j, i): _solve_pair(self.orbits, a1, a2)
            for (j, a2), (i, a1) in product(enumerate(distinct(rho2)), enumerate(distinct(rho1)))
        }
        return OrbitSolution(self, rho1, rho2, blocks)


@dataclass(frozen=True)
class OrbitSolution:
    """Bases of an orbit problem for two sums of representations, one block per pair of distinct summands.

    ``blocks[j, i][o]`` is the basis ``(k, d2, d1)`` from distinct summand i of ρ1 to distinct summand j of ρ2 at the
    representative of orbit o. Repeated summands share a block.
    """

    problem: OrbitProblem
    rho1: Representation
    rho2: Representation
    blocks: dict[tuple[int, int], list[Tensor]]

    @cached_property
    def places(self) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
        """For each pair of summands (out, in): the indices of their kinds, and the (row, column) of their block."""
        return tuple(((j, i), (row, column)) for (j, row), (i, column) in product(_slots(self.rho2), _slots(self.rho1)))

    def orbit_dim(self, o: int) -> int:
        """The number of basis kernels on one orbit."""
        return sum(len(self.blocks[kinds][o]) for kinds, _ in self.places)

    def at_representative(self, o: int) -> Tensor:
        """The basis on one orbit at its representative, ``(k, d2, d1)``, for the full representations."""
        parts = []
        for kinds, (row, column) in self.places:
            small = self.blocks[kinds][o]
            padded = small.new_zeros(len(small), self.rho2.dim, self.rho1.dim)
            padded[:, row : row + small.shape[1], column : column + small.shape[2]] = small
            parts.append(padded)
        return torch.cat(parts)

    def residual(self) -> float:
        """The largest violation of the constraint by any block.

        To save time, a basis of more than 32 kernels is checked through 32 random combinations with coefficients of
        size about 1. A violation by any kernel shows in all of them.
        """
        atoms1, atoms2 = distinct(self.rho1), distinct(self.rho2)
        action, twist, generators = self.problem.action, self.problem.twist, self.problem.generators
        worst = 0.0
        for (j, i), bases in self.blocks.items():
            for o, (orbit, basis) in enumerate(zip(self.problem.orbits, bases, strict=True)):
                if not len(basis):
                    continue
                index = torch.empty(action.shape[1], dtype=torch.int64)  # of each point within the orbit
                index[orbit.points] = torch.arange(len(orbit.points))
                if len(basis) > 32:
                    mix = torch.randn(32, len(basis), dtype=basis.dtype, generator=torch.Generator().manual_seed(o))
                    basis = torch.einsum("mk,kab->mab", mix, basis)
                kappa = carry(orbit, basis, atoms1[i], atoms2[j])
                orbit_action, orbit_twist = index[action[:, orbit.points]], twist[:, orbit.points]
                residual = constraint_residual(kappa, orbit_action, orbit_twist, atoms1[i], atoms2[j], generators)
                worst = max(worst, residual)
        return worst


def distinct(rho: Representation) -> list[Representation]:
    """The different summands of a representation, in order of appearance."""
    return list({atom.digest: atom for atom in rho.atoms}.values())


def _slots(rho: Representation) -> list[tuple[int, int]]:
    """For each summand, the index of its kind and its first coordinate."""
    kinds = {atom.digest: k for k, atom in enumerate(distinct(rho))}
    slots, start = [], 0
    for atom in rho.atoms:
        slots.append((kinds[atom.digest], start))
        start += atom.dim
    return slots


def _solve_pair(orbits: tuple[Orbit, ...], rho1: Representation, rho2: Representation) -> list[Tensor]:
    def compute() -> dict[str, Tensor]:
        return {str(o): solve_orbit(orbit, rho1, rho2) for o, orbit in enumerate(orbits)}

    def fits(bases: dict[str, Tensor]) -> bool:
        shapes = [(predicted_dim(orbit, rho1, rho2), rho2.dim, rho1.dim) for orbit in orbits]
        return [tuple(bases[k].shape) for k in sorted(bases, key=int)] == shapes

    content = [part for o in orbits for part in (o.points, o.carrier_twists, o.stabilizer, o.stabilizer_twists)]
    bases = cached(compute, "orbits", rho1.digest, rho2.digest, *content, fits=fits)
    return [bases[str(o)] for o in range(len(orbits))]
