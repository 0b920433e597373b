"""All real irreducible representations of any finite group, computed from its Cayley table.

The group acts on functions on itself by the left regular representation. An operator f ↦ Σ_k b(k) f(·k) commutes with
it, and is symmetric if b(k) = b(k⁻¹). By Schur's lemma, its eigenspaces are invariant, and for generic b each of them
is a single real irrep. We first split with a class function b, which separates the isotypic components. Then we split
one component at a time with a general b. This way, only a few eigenvalues have to be separated at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ..._numerics import LAW_TOLERANCE, projector_range, require_memory
from ...errors import NumericalError
from . import _tables
from ._tables import Table

_MAX_TRIES = 12
_CACHE: dict[str, tuple[Tensor, ...]] = {}


def real_irreps(table: Table, digest: str) -> tuple[Tensor, ...]:
    """The matrices ``(n, d, d)`` of every real irrep: trivial first, then sorted by dimension and character."""
    if digest not in _CACHE:
        _CACHE[digest] = _compute(table)
    return _CACHE[digest]


def _compute(table: Table) -> tuple[Tensor, ...]:
    n = len(table)
    require_memory(
        4 * n * n,
        caller="irreps",
        what=f"the regular representation of a group of order {n}",
        fix="",
    )
    irreps = [_canonical(_one_irrep(table, part), table) for part in _isotypic_bases(table)]
    _require_complete(irreps, table)

    def rank(m: Tensor) -> tuple[bool, int, list[float]]:
        character = torch.einsum("gii->g", m)
        trivial = m.shape[1] == 1 and bool((character > 0.5).all())
        return (not trivial, m.shape[1], [-round(float(c), 6) for c in character])

    return tuple(sorted(irreps, key=rank))


def _draws(size: int) -> Iterator[Tensor]:
    """Reproducible random coefficients. The next set is for the case that eigenvalues happen to be too close."""
    for seed in range(_MAX_TRIES):
        yield torch.rand(size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _convolution(b: Tensor, table: Table) -> Tensor:
    """The operator with entries b(x⁻¹y), after making b symmetric."""
    inverse = _tables.inverse_table(table)
    b = b + b[torch.from_numpy(inverse)]
    return b[torch.from_numpy(table[inverse])]


def _isotypic_bases(table: Table) -> list[Tensor]:
    """Orthonormal bases ``(n, D)`` of the isotypic components of the regular representation."""
    classes = torch.from_numpy(_tables.conjugacy_classes(table))
    sizes = torch.bincount(classes).to(torch.float64)
    inverse = torch.from_numpy(_tables.inverse_table(table))
    pairs = torch.stack([classes, classes[inverse]]).sort(0).values
    expected = len(torch.unique(pairs, dim=1).T)
    best: tuple[float, list[Tensor]] | None = None
    for draw in _draws(len(sizes)):
        operator = _convolution((draw / sizes)[classes], table)
        clusters, gap = _eigenspaces(operator)
        if len(clusters) == expected and (best is None or gap > best[0]):
            best = (gap, clusters)
            if gap > 1e-4:
                break
    if best is None:
        raise NumericalError(
            "irreps",
            expected=f"{expected} isotypic components, as many as classes of elements up to inversion",
            got="eigenvalues too close to separate",
            fix="Please report the Cayley table.",
        )
    return best[1]


def _eigenspaces(operator: Tensor) -> tuple[list[Tensor], float]:
    """The eigenspaces of a symmetric operator, and the smallest gap between them relative to the spectrum's width."""
    values, vectors = torch.linalg.eigh(operator)
    width = max(float(values[-1] - values[0]), 1e-300)
    jumps = (values[1:] - values[:-1]) / width
    cuts = [0, *(torch.nonzero(jumps > 1e-9).flatten() + 1).tolist(), len(values)]
    gap = min((float(jumps[c - 1]) for c in cuts[1:-1]), default=1.0)
    return [vectors[:, a:b] for a, b in pairwise(cuts)], gap


def _one_irrep(table: Table, basis: Tensor) -> tuple[Tensor, int]:
    """The matrices of the irrep in an isotypic component, and the dimension of its endomorphism algebra."""
    d, c = _dimensions(basis, table)
    if d == basis.shape[1]:
        return _restricted(basis, table), c
    best: tuple[float, Tensor] | None = None
    for draw in _draws(len(table)):
        clusters, gap = _eigenspaces(basis.T @ _convolution(draw, table) @ basis)
        if all(cluster.shape[1] == d for cluster in clusters) and (best is None or gap > best[0]):
            best = (gap, clusters[-1])
            if gap > 1e-2:
                break
    if best is None:
        raise NumericalError(
            "irreps",
            expected=f"an isotypic component that splits into copies of dimension {d}",
            got="eigenvalues too close to separate",
            fix="Please report the Cayley table.",
        )
    return _restricted(basis @ best[1], table), c


def _dimensions(basis: Tensor, table: Table) -> tuple[int, int]:
    """The dimension d of the irrep in an isotypic component, and the dimension c of its endomorphism algebra.

    The component holds m = d/c copies, so its dimension is D = m²c, and the mean of its character at squares is m, 0
    or -2m for c = 1, 2, 4 (Frobenius and Schur).
    """
    n, size = basis.shape
    character = n * (basis @ basis[0])
    squares = torch.from_numpy(table[np.arange(n), np.arange(n)])
    indicator = float(character[squares].mean())
    c = 1 if indicator > 0.5 else 4 if indicator < -0.5 else 2
    m = round((size / c) ** 0.5)
    if m * m * c != size:
        raise NumericalError(
            "irreps",
            expected=f"an isotypic component of dimension {c}·m²",
            got=f"dimension {size} with Frobenius-Schur mean {indicator:.3g}",
            fix="Please report the Cayley table.",
        )
    return m * c, c


def _restricted(copy: Tensor, table: Table) -> Tensor:
    """The matrices of the left regular representation on an invariant subspace with orthonormal basis ``(n, d)``."""
    t = torch.from_numpy(table)
    return torch.stack([copy[t[g]].T @ copy for g in range(len(t))])


def _canonical(irrep: tuple[Tensor, int], table: Table) -> Tensor:
    """The irrep in a basis that does not depend on how the irrep was found.

    Let e be a vector on a line singled out by the group: fixed (or negated) by an element g, where the endomorphisms
    permute such lines transitively. Orthogonalizing e, rho(1)e, rho(2)e, … gives the same matrices for every choice of
    e and of the copy, and so the same matrices on every machine up to rounding. Rotations become rotation matrices, and
    the reflection of a dihedral group becomes diag(1, -1).
    """
    m, c = irrep
    d = m.shape[1]
    if d == 1:
        return m.round()
    basis = [_singled_out(m, c, table)]
    for moved in m @ basis[0]:
        for _ in range(2):
            stack = torch.stack(basis)
            moved = moved - stack.T @ (stack @ moved)
            length = torch.linalg.vector_norm(moved)
            if length < 1e-3:
                break
            moved = moved / length
        else:
            basis.append(moved)
        if len(basis) == d:
            break
    e = torch.stack(basis)
    out = e @ m @ e.T
    rounded = (2 * out).round() / 2
    return torch.where((out - rounded).abs() < 1e-12, rounded, out) + 0.0


def _singled_out(m: Tensor, c: int, table: Table) -> Tensor:
    d = m.shape[1]
    if d == c:  # the endomorphisms map every nonzero vector to every other, so any vector will do
        return torch.eye(d, dtype=m.dtype)[0]
    for projector in _lines(m, table):
        if round(float(projector.trace())) == c:
            return projector_range((projector + projector.T) / 2)[0]
    return torch.eye(d, dtype=m.dtype)[0]  # no such line: the basis depends on the (reproducible) random coefficients


def _lines(m: Tensor, table: Table) -> Iterator[Tensor]:
    """Projectors on the vectors fixed by an element, then negated by an element, then fixed by two elements."""
    n = len(table)
    for sign in (1.0, -1.0):
        for g in range(1, n):
            powers = [0]
            while table[powers[-1], g]:
                powers.append(int(table[powers[-1], g]))
            if sign > 0 or len(powers) % 2 == 0:
                signs = torch.tensor([sign**k for k in range(len(powers))], dtype=m.dtype)
                yield torch.einsum("k,kab->ab", signs, m[powers]) / len(powers)
    classes = _tables.conjugacy_classes(table)
    firsts = [int(np.argmax(classes == k)) for k in range(1, int(classes.max()) + 1)]
    for g in firsts:
        for k in range(1, n):
            yield m[torch.from_numpy(_tables.closure(table, [g, k]))].mean(0)


def _require_complete(irreps: list[Tensor], table: Table) -> None:
    """Raise an error unless the irreps are homomorphisms and make up the whole regular representation."""
    n = len(table)
    generators = _tables.small_generating_set(table)
    total = 0
    for m in irreps:
        d = m.shape[1]
        endomorphisms = round(float((torch.einsum("gii->g", m) ** 2).mean()))
        total += d * d // endomorphisms
        for s in generators:
            error = float((m[torch.from_numpy(table[s])] - m[s] @ m).abs().max())
            if error > LAW_TOLERANCE:
                raise NumericalError(
                    "irreps",
                    expected=f"a homomorphism to {LAW_TOLERANCE:.0e}",
                    got=f"residual {error:.2g}",
                    fix="Please report the Cayley table.",
                )
    if total != n:
        raise NumericalError("irreps", expected=f"Σ d²/c = {n}", got=str(total), fix="Please report the Cayley table.")
