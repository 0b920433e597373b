"""Tensors with symmetric and antisymmetric indices, decomposed into irreps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor

from ..._checked import checked
from ..._devices import OnCPU
from ..._numerics import require_memory
from ...errors import InputError, ParseError, RepresentationError
from .._group import Element
from .._representation import Representation, direct_sum, require_same_group
from ..finite._finite_group import FiniteGroup
from ..finite._matrix_representation import MatrixRepresentation
from ..lie._lie_group import LieGroup
from ..lie._representation import LieRepresentation, degree_of

Symmetries = dict[tuple[int, ...], int]
"""Permutations of the indices, with the sign by which each multiplies the tensor."""


class TensorSpace(OnCPU):
    """The tensors with the index symmetries of a formula, such as ``"ij=-ji"``, as a sum of irreps.

    Every index transforms by a representation: usually ``G.standard`` for Cartesian tensors, but any will do. The first
    term of the formula names the indices; every other term is a permutation of them with a sign.

    Args:
        formula: ``"ij"``, ``"ij=ji"``, ``"ij=-ji"``, ``"ijk=-jik=-ikj"``, ``"ijkl=jikl=klij"``, ….
        rho: the representation of all indices, or one for each letter. Indices that the formula exchanges must have the
            same.

    Attributes:
        rho: the sum of irreps.
        basis: ``(rho.dim, d_i, d_j, …)``, one tensor per coordinate; orthonormal if the representations are orthogonal.

    >>> from intertwine.groups import O3
    >>> stress = TensorSpace("ij=ji", O3().standard)
    >>> stress.rho
    O(3): trivial + irrep(2, +1)
    >>> t = torch.eye(3, dtype=torch.float64)
    >>> stress.to_irreps(t).round(decimals=3).abs()  # the trace
    tensor([1.7320, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000], dtype=torch.float64)
    >>> bool((stress.from_irreps(stress.to_irreps(t)) - t).abs().max() < 1e-12)
    True
    """

    @checked
    def __init__(self, formula: str, rho: Representation | Mapping[str, Representation]) -> None:
        letters, generators = _parse(formula)
        factors = _factors(formula, letters, generators, rho)
        self.formula, self.factors = formula, factors
        dims = tuple(factor.dim for factor in factors)
        require_memory(
            4 * prod(dims) ** 2,
            caller=f"TensorSpace({formula!r})",
            what=f"tensors with {prod(dims)} entries",
            fix="Decompose tensors of lower order first.",
        )
        inclusion = _inclusion(_closure(generators, len(letters), formula), dims)
        if not len(inclusion):
            raise InputError("TensorSpace", expected="a formula that allows nonzero tensors", got=repr(formula))
        pieces = _on_symmetric(factors, inclusion, formula).decompose()
        self.rho = direct_sum(pieces.irreps)
        inverse = pieces.basis.T if self._orthogonal else torch.linalg.inv(pieces.basis)
        self.basis = (pieces.basis.T @ inclusion.flatten(1)).view(-1, *dims)
        self._dual = (inverse @ inclusion.flatten(1)).view(-1, *dims)

    @property
    def _orthogonal(self) -> bool:
        return all(factor.is_orthogonal for factor in self.factors)

    @checked
    def to_irreps(self, t: Tensor) -> Tensor:
        """The coordinates ``(..., rho.dim)`` of tensors ``(..., d_i, d_j, …)``.

        Parts of a tensor without the symmetries are lost, so this is also the projection onto those with them.
        """
        n = len(self.factors)
        if t.shape[-n:] != self.basis.shape[1:]:
            shape = ", ".join(map(str, ("...", *self.basis.shape[1:])))
            raise InputError("TensorSpace.to_irreps", expected=f"tensors ({shape})", got=f"shape {tuple(t.shape)}")
        return t.flatten(-n) @ self._dual.flatten(1).T.to(t)

    @checked
    def from_irreps(self, x: Tensor) -> Tensor:
        """The tensors ``(..., d_i, d_j, …)`` with coordinates ``(..., rho.dim)``."""
        if x.shape[-1:] != (self.rho.dim,):
            raise InputError(
                "TensorSpace.from_irreps",
                expected=f"coordinates (..., {self.rho.dim}) of {self.rho}",
                got=f"shape {tuple(x.shape)}",
            )
        return (x @ self.basis.flatten(1).to(x)).unflatten(-1, self.basis.shape[1:])

    def __repr__(self) -> str:
        return f"TensorSpace({self.formula!r}: {self.rho.name})"


def _parse(formula: str) -> tuple[str, Symmetries]:
    """The letters of the indices, and the signed permutations that the formula names."""
    first, *others = (term.strip() for term in formula.split("="))
    generators: Symmetries = {}
    for term in (first, *others):
        match = re.fullmatch(r"([+-]?)\s*([a-z]+)", term)
        if match is None or sorted(match[2]) != sorted(set(first)) or (term == first and match[1]):
            raise ParseError(
                "TensorSpace",
                expected="different letters, and permutations of them with signs, as in 'ij=-ji' or 'ijk=jik'",
                got=repr(formula),
            )
        _add(generators, tuple(first.index(letter) for letter in match[2]), -1 if match[1] == "-" else 1, formula)
    return first, generators


def _add(symmetries: Symmetries, permutation: tuple[int, ...], sign: int, formula: str) -> None:
    """Add a signed permutation. A permutation with both signs leaves only zero."""
    if symmetries.setdefault(permutation, sign) != sign:
        raise InputError("TensorSpace", expected="a formula that allows nonzero tensors", got=repr(formula))


def _closure(generators: Symmetries, n: int, formula: str) -> Symmetries:
    """All products of the signed permutations."""
    group: Symmetries = {tuple(range(n)): 1}
    frontier = list(group)
    while frontier:
        p = frontier.pop()
        for q, sign in generators.items():
            product = tuple(p[i] for i in q)
            if product not in group:
                frontier.append(product)
            _add(group, product, group[p] * sign, formula)
    return group


def _inclusion(symmetries: Symmetries, dims: Sequence[int]) -> Tensor:
    """An orthonormal basis ``(m, *dims)`` of the tensors with the symmetries: one per orbit of entries.

    An entry that a permutation with sign -1 maps to itself is zero.
    """
    numbers = torch.arange(prod(dims)).view(*dims)
    images = torch.stack([numbers.permute(p).flatten() for p in symmetries])
    signs = torch.tensor(list(symmetries.values()), dtype=torch.float64)
    first = torch.unique(images.amin(0))
    out = torch.zeros(len(first), prod(dims), dtype=torch.float64)
    for sign, image in zip(signs, images, strict=True):
        out[torch.arange(len(first)), image[first]] += sign
    norms = torch.linalg.vector_norm(out, dim=1, keepdim=True)
    nonzero = norms.squeeze(1) > 0.5
    return (out[nonzero] / norms[nonzero]).view(-1, *dims)


def _factors(
    formula: str, letters: str, generators: Symmetries, rho: Representation | Mapping[str, Representation]
) -> tuple[Representation, ...]:
    """The representation of each index."""
    given = dict.fromkeys(letters, rho) if isinstance(rho, Representation) else dict(rho)
    if set(given) != set(letters):
        raise InputError(
            "TensorSpace", expected=f"one representation for each of {', '.join(letters)}", got=", ".join(given)
        )
    factors = tuple(given[letter] for letter in letters)
    require_same_group("TensorSpace", factors)
    for permutation in generators:
        if any(factors[i] != factors[j] for i, j in enumerate(permutation)):
            raise RepresentationError(
                "TensorSpace",
                expected=f"one representation for the indices that {formula!r} exchanges",
                got=", ".join(f"{letter}: {factor.name}" for letter, factor in zip(letters, factors, strict=True)),
            )
    return factors


def _on_symmetric(factors: tuple[Representation, ...], inclusion: Tensor, formula: str) -> Representation:
    """The tensor product of the factors, on the tensors with the symmetries."""
    group, orthogonal = factors[0].group, all(factor.is_orthogonal for factor in factors)
    if isinstance(group, FiniteGroup):
        matrices = _moved(factors, inclusion, group.elements)
        return MatrixRepresentation(group, matrices, name=formula, validated=True)
    if not isinstance(group, LieGroup):
        raise RepresentationError("TensorSpace", expected="a finite or a Lie group", got=group.name)
    return LieRepresentation(
        group,
        partial(_moved, factors, inclusion),
        dim=len(inclusion),
        degree=sum(degree_of(factor) for factor in factors),
        name=f"{formula} of {', '.join(factor.digest for factor in factors)}",
        is_orthogonal=orthogonal,
    )


def _moved(factors: tuple[Representation, ...], inclusion: Tensor, g: Element) -> Tensor:
    """The matrices ``(..., m, m)`` of elements on the tensors with the symmetries, one index after the other."""
    moved = inclusion
    for axis, factor in enumerate(factors, start=-len(factors)):
        matrices = factor(g)
        for _ in range(len(factors)):
            matrices = matrices.unsqueeze(-3)
        moved = (moved.movedim(axis, -1).unsqueeze(-2) @ matrices.mT).squeeze(-2).movedim(-1, axis)
    return torch.einsum("ax,...bx->...ab", inclusion.flatten(1), moved.flatten(-len(factors)))
