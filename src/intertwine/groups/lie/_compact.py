"""Compact Lie groups: integrals over the group, and the dimensions and decompositions that follow from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ..._checked import checked
from ..._numerics import LAW_TOLERANCE, RANK_TOLERANCE, require_memory
from ...errors import NumericalError
from .._group import Element
from .._intertwiners import as_count
from .._representation import Decomposition, Representation, require_same_group
from ._irreps import trivial
from ._lie_group import LieGroup
from ._representation import LieRepresentation, degree_of

Quadrature = tuple[Tensor, Tensor]
"""Elements ``(n, matrix_dim, matrix_dim)`` and weights ``(n,)`` that sum to 1."""

_PROBE = (0.7, -1.1, 0.4)  # Lie algebra coordinates of a generic element
_ASK = "Is it a homomorphism, and is its degree at least the degree of each of its irreps?"


class CompactLieGroup(LieGroup):
    """A compact group of orthogonal matrices. Its invariant (Haar) measure has total 1."""

    @abstractmethod
    def haar_factors(self, degree: int) -> tuple[Quadrature, ...]:
        """Quadratures whose products g = q1 q2 … form the one of :meth:`haar_quadrature`."""

    @abstractmethod
    def class_quadrature(self, degree: int) -> Quadrature:
        """Like :meth:`haar_quadrature`, for functions that are constant on conjugacy classes, with far fewer points."""

    @abstractmethod
    def irreps_up_to(self, degree: int) -> tuple[LieRepresentation, ...]:
        """All irreps of degree at most ``degree``, sorted by degree."""

    @abstractmethod
    def _candidates(
        self, evaluate: Callable[[Tensor], Tensor], degree: int, irreps: Sequence[LieRepresentation]
    ) -> Iterator[Tensor]:
        """For each irrep psi, intertwiners ``(n, rho.dim, psi.dim)`` that span Hom_G(psi, rho).

        They are d·∫ rho(g) v psi(g)[:, r]ᵀ dg, with d = psi.dim, for unit vectors v and some column r. Their squared
        norm over d is the squared length of the part of v that lies in copies of psi, at the coordinate r.
        """

    @property
    def trivial(self) -> LieRepresentation:
        return trivial(self)

    @checked
    def inverse(self, g: Element) -> Tensor:
        return self.as_matrices(g, caller=f"{self.name}.inverse").mT

    @checked
    def haar_quadrature(self, degree: int) -> Quadrature:
        """Elements and weights for which Σ w f(g) = ∫ f(g) dg for all f of total degree ≤ ``degree``.

        The entries of an irrep of degree l have degree l, and degrees add in products.

        >>> from intertwine.groups import SO2
        >>> g, w = SO2().haar_quadrature(2)
        >>> torch.einsum("g,gij->ij", w, SO2().irrep(2)(g)).abs().max() < 1e-15
        tensor(True)
        """
        factors = self.haar_factors(degree)
        elements, weights = factors[0]
        for more, extra in factors[1:]:
            elements = (elements[:, None] @ more).flatten(0, 1)
            weights = (weights[:, None] * extra).flatten()
        return elements, weights

    @checked
    def intertwining_number(self, rho1: Representation, rho2: Representation) -> int:
        require_same_group(f"{self.name}.intertwining_number", (self.trivial, rho1, rho2))
        g, weights = self.class_quadrature(degree_of(rho1) + degree_of(rho2))
        value = (weights * rho1.character(g) * rho2.character(g)).sum()  # real characters: χ(g⁻¹) = χ(g)
        return as_count(value, caller=f"dim Hom({rho1.name}, {rho2.name})")

    @checked
    def decompose(self, rho: Representation) -> Decomposition:
        require_same_group(f"{self.name}.decompose", (self.trivial, rho))
        irreps = self.irreps_up_to(degree_of(rho))
        copies: dict[str, list[tuple[int, Tensor]]] = {}
        columns: list[tuple[int, int, Tensor]] = []
        start = 0
        for atom in rho.atoms:
            if atom.digest not in copies:
                copies[atom.digest] = self._copies(atom, irreps)
            columns += [(k, start, copy) for k, copy in copies[atom.digest]]
            start += atom.dim
        columns.sort(key=lambda column: column[0])
        basis, right = torch.zeros(rho.dim, rho.dim, dtype=torch.float64), 0
        for _, top, copy in columns:
            basis[top : top + copy.shape[0], right : right + copy.shape[1]] = copy
            right += copy.shape[1]
        return Decomposition(tuple(irreps[k] for k, _, _ in columns), basis)

    def _copies(self, atom: Representation, irreps: Sequence[LieRepresentation]) -> list[tuple[int, Tensor]]:
        """For each copy of an irrep: the index of the irrep, and an injective intertwiner ``(dim, d)`` from it."""
        if atom in irreps:
            return [(irreps.index(atom), torch.eye(atom.dim, dtype=torch.float64))]
        degree = degree_of(atom)
        require_memory(
            2 * (2 * degree + 1) * atom.dim**2,
            caller=f"{self.name}.decompose",
            what=f"{2 * (2 * degree + 1)} matrices of size {atom.dim} x {atom.dim}",
            fix="Decompose the factors first and take products of irreps.",
        )
        g, weights = self.class_quadrature(2 * degree)
        weighted = weights * atom.character(g)
        counted: list[tuple[int, LieRepresentation, int]] = []
        for k, psi in enumerate(irreps):
            if psi.degree <= degree:
                character = psi.character(g)
                mean = (weighted * character).sum() / (weights * character**2).sum()
                count = as_count(mean, caller=f"copies of {psi.name} in {atom.name}")
                counted += [(k, psi, count)] if count else []
        root, evaluate = self._orthogonalized(atom, degree)
        candidates = self._candidates(evaluate, degree, [psi for _, psi, _ in counted])
        copies: list[tuple[int, Tensor]] = []
        for (k, psi, count), spanning in zip(counted, candidates, strict=True):
            isometries = _orthogonal_copies(spanning, count, caller=f"{self.name}.decompose", name=psi.name)
            self._require_intertwining(evaluate, psi, isometries, atom)
            copies += [(k, t if root is None else torch.linalg.solve(root, t)) for t in isometries]
        return copies

    def _orthogonalized(self, atom: Representation, degree: int) -> tuple[Tensor | None, Callable[[Tensor], Tensor]]:
        """Coordinates in which the representation is orthogonal, and its matrices in them."""
        if atom.is_orthogonal:
            return None, atom
        gram = torch.eye(atom.dim, dtype=torch.float64)  # the average of an inner product over the group is invariant
        for g, weights in self.haar_factors(2 * degree):
            m = atom(g)
            gram = torch.einsum("g,gij->ij", weights, m.mT @ gram @ m)
        values, vectors = torch.linalg.eigh(gram)
        root = vectors @ values.sqrt().diag() @ vectors.T
        inverse = torch.linalg.inv(root)
        return root, lambda g: root @ atom(g) @ inverse

    def _require_intertwining(
        self, evaluate: Callable[[Tensor], Tensor], psi: Representation, copies: list[Tensor], atom: Representation
    ) -> None:
        """Raise an error unless the copies intertwine at a generic element per component, outside every quadrature."""
        probe = torch.tensor(_PROBE[: self.algebra_dim], dtype=torch.float64)
        g = self.component_representatives @ self.exp(probe)
        rho_g, psi_g = evaluate(g), psi(g)
        error = max(float((rho_g @ t - t @ psi_g).abs().max()) for t in copies)
        if error > LAW_TOLERANCE:
            raise NumericalError(
                f"{self.name}.decompose",
                expected=f"copies of {psi.name} in {atom.name} to {LAW_TOLERANCE:.0e}",
                got=f"residual {error:.2g}",
                fix=_ASK,
            )


def _orthogonal_copies(spanning: Tensor, count: int, *, caller: str, name: str) -> list[Tensor]:
    """Isometries with orthogonal ranges among the linear combinations of intertwiners from an irrep.

    The spanning intertwiners are taken in order and orthogonalized. Short ones would be inaccurate and are skipped,
    since others reach the same copies. After orthogonalization, T is still an intertwiner, so TᵀT commutes with an
    irrep and is symmetric: a multiple of the identity.
    """
    copies: list[Tensor] = []
    for _ in range(count):
        sizes = (spanning * spanning).sum((1, 2)) / spanning.shape[2]
        if float(sizes.max()) < RANK_TOLERANCE:
            raise NumericalError(caller, expected=f"{count} copies of {name}", got=f"{len(copies)}", fix=_ASK)
        t = spanning[int((sizes >= sizes.mean() / 2).to(torch.int8).argmax())]
        for copy in copies:
            t = t - copy @ (copy.T @ t)
        t = t / ((t * t).sum() / t.shape[1]).sqrt()
        copies.append(t)
        spanning = spanning - t @ (t.T @ spanning)
    return copies
