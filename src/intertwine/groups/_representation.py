"""Representations as small values with an algebra: ``3 * G.trivial + 8 * G.regular``, ``rho1 @ rho2``.

Representations are evaluated lazily: only ``rho(g)`` computes matrices, so building a sum of many summands is cheap.
The combinators here work for any kind of group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from .._checked import checked, describe
from .._devices import OnCPU
from .._digest import content_digest
from .._numerics import require_memory
from ..errors import RepresentationError
from ._group import Element, Group

Kind = Literal["real", "complex", "quaternionic"]
_KINDS: dict[int, Kind] = {1: "real", 2: "complex", 4: "quaternionic"}


class Representation(OnCPU, ABC):
    """A real, finite-dimensional representation rho: G → GL(V).

    Attributes:
        group: the group G.
        dim: the dimension of V.
        name: its usual name.
    """

    group: Group
    dim: int
    name: str
    how_to_make = "Take it from a group, as in Cyclic(4).regular or 3 * Cyclic(4).trivial."

    @abstractmethod
    def __call__(self, g: Element) -> Tensor:
        """The matrices rho(g) in float64, ``(*batch, dim, dim)``."""

    @abstractmethod
    def character(self, g: Element) -> Tensor:
        """The trace of rho(g), without computing the matrices where possible."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A digest of the content: equal digests mean equal matrices."""

    @property
    @abstractmethod
    def permutation_table(self) -> Tensor | None:
        """``p[g, i]``, the index of the basis vector to which g maps basis vector i, if every g permutes the basis;
        else None."""

    @property
    @abstractmethod
    def is_orthogonal(self) -> bool:
        """Whether all matrices are orthogonal."""

    @property
    @abstractmethod
    def atoms(self) -> tuple[Representation, ...]:
        """The summands this was built from; only the representation itself if it was not built as a sum."""

    # -- facts -------------------------------------------------------------------------------------------------

    @property
    def is_permutation(self) -> bool:
        """Whether every matrix permutes the basis. Then pointwise functions of the coordinates are equivariant."""
        return self.permutation_table is not None

    @cached_property
    def blocks(self) -> Representation:
        """How the group permutes equal blocks of channels, each of size ``dim // blocks.dim``.

        An induced representation has one block per coset, which ``G.quotient(H)`` permutes. A permutation
        representation has one block per channel; others are one block.

        >>> from intertwine.groups import Dihedral
        >>> D4 = Dihedral(4)
        >>> H = D4.subgroup([1])
        >>> D4.induce(H.irreps[1]).blocks
        D4: quotient by subgroup of order 4 of D4
        """
        return self if self.is_permutation else self.group.trivial

    @cached_property
    def matrices(self) -> Tensor:
        """All matrices of a finite group's representation, ``(order, dim, dim)``."""
        elements = self.group.elements
        require_memory(
            len(elements) * self.dim**2,
            caller=f"matrices of {self.name}",
            what=f"{len(elements)} matrices of size {self.dim} x {self.dim}",
            fix="Work with the summands (rho.atoms) or with single elements (rho(g)).",
        )
        return self(elements)

    @cached_property
    def endomorphism_dim(self) -> int:
        """The dimension of Hom_G(rho, rho)."""
        return self.group.intertwining_number(self, self)

    @property
    def kind(self) -> Kind:
        """The type of an irrep: real, complex or quaternionic, for an endomorphism algebra of R, C or H."""
        decomposition = self.decompose()
        if len(decomposition.irreps) != 1:
            raise RepresentationError(
                f"{self.name}.kind",
                expected="an irreducible representation",
                got=f"a sum of {len(decomposition.irreps)} irreps: {decomposition}",
                fix="Use the kinds of its summands: [irrep.kind for irrep in rho.decompose().irreps].",
            )
        return _KINDS[self.endomorphism_dim]

    def decompose(self) -> Decomposition:
        """The irreps in it, and the change of basis Q for which Q⁻¹ rho(g) Q is block diagonal."""
        return self.group.decompose(self)

    # -- summands ----------------------------------------------------------------------------------------------

    @property
    def summands(self) -> tuple[Representation, ...]:
        """The atoms, with those inside :meth:`one_field` listed one by one."""
        return self.atoms

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The sum as written: runs of equal atoms, with their number and their channels.

        >>> from intertwine.groups import Cyclic
        >>> C4 = Cyclic(4)
        >>> for term in (3 * C4.trivial + 2 * C4.regular).terms:
        ...     print(term.copies, term.rho.name, term.channels)
        3 trivial slice(0, 3, None)
        2 regular slice(3, 11, None)
        """
        terms: list[Term] = []
        start = 0
        for _, run in groupby(self.atoms, key=lambda atom: atom.digest):
            copies = list(run)
            stop = start + len(copies) * copies[0].dim
            terms.append(Term(len(copies), copies[0], slice(start, stop)))
            start = stop
        return tuple(terms)

    @checked
    def count(self, psi: Representation) -> int:
        """How many of the atoms are equal to ``psi``. :meth:`decompose` also finds copies inside other summands.

        >>> from intertwine.groups import Cyclic
        >>> C4 = Cyclic(4)
        >>> (C4.trivial + C4.regular + C4.trivial).count(C4.trivial)
        2
        """
        return sum(term.copies for term in self.terms if term.rho == psi)

    def gathered(self) -> tuple[Representation, Tensor]:
        """The same sum with equal atoms next to each other, in order of first appearance, and where channels come from.

        >>> from intertwine.groups import Cyclic
        >>> C4 = Cyclic(4)
        >>> rho, order = (C4.trivial + C4.irrep(1) + C4.trivial).gathered()
        >>> rho.name, order.tolist()  # x[:, order] is of this type
        ('2 trivial + irrep(1)', [0, 3, 1, 2])
        """
        kinds: dict[Representation, list[int]] = {}
        for term in self.terms:
            kinds.setdefault(term.rho, []).extend(range(term.channels.start, term.channels.stop))
        rho = direct_sum((len(channels) // kind.dim) * kind for kind, channels in kinds.items())
        return rho, torch.tensor([c for channels in kinds.values() for c in channels])

    @checked
    def one_field(self, *, name: str | None = None) -> Representation:
        """This representation as a single summand: layers give it one norm, one scale, one gate.

        >>> from intertwine.groups import SO3
        >>> rho = (SO3().trivial + SO3().irrep(1) + SO3().irrep(2)).one_field()
        >>> (4 * rho).name, len((4 * rho).atoms)
        ('4 (trivial + irrep(1) + irrep(2))', 4)
        """
        return self if len(self.atoms) == 1 else OneField(self, name=name or f"({self.name})")

    # -- algebra -----------------------------------------------------------------------------------------------

    def __add__(self, other: Representation) -> Representation:
        return direct_sum((self, other))

    def __mul__(self, times: int) -> Representation:
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise RepresentationError(
                f"n * {self.name}",
                expected="a positive whole number of copies",
                got=repr(times),
                fix="For zero copies, leave the summand out. For a tensor product, use rho1 @ rho2.",
            )
        return direct_sum((self,) * times)

    __rmul__ = __mul__

    def __matmul__(self, other: Representation) -> Representation:
        require_same_group("rho1 @ rho2", (self, other))
        return TensorProduct(self, other)

    def dual(self) -> Representation:
        """The representation on linear forms, g ↦ rho(g⁻¹)ᵀ."""
        return direct_sum(Dual(atom) for atom in self.atoms)

    @checked
    def restrict(self, subgroup: Group) -> Representation:
        """The representation restricted to a subgroup."""
        return direct_sum(Restriction(atom, subgroup) for atom in self.atoms)

    # -- value -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Representation) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{self.group.name}: {self.name}"


@checked
@dataclass(frozen=True)
class Term:
    """Copies of one summand, next to each other.

    Attributes:
        copies: how many.
        rho: the summand.
        channels: which channels they are, a slice.
    """

    copies: int
    rho: Representation
    channels: slice


@checked
@dataclass(frozen=True)
class Decomposition:
    """``basis⁻¹ @ rho(g) @ basis`` is block diagonal with ``irreps`` on the diagonal, in this order.

    If rho is orthogonal, so is the basis.
    """

    irreps: tuple[Representation, ...]
    basis: Tensor

    def __str__(self) -> str:
        return sum_name(self.irreps)


@checked
def require_same_group(caller: str, representations: Sequence[Representation]) -> Group:
    """The common group of the representations; raises an error if they have different groups."""
    if not representations:
        raise RepresentationError(caller, expected="at least one representation", got="none")
    first = representations[0].group
    for rho in representations[1:]:
        if rho.group != first:
            raise RepresentationError(
                caller,
                expected=f"representations of one group, {first.name} as for {representations[0].name}",
                got=f"{rho.name} of {rho.group.name}",
                fix="Restrict both to a common subgroup first: rho.restrict(H).",
            )
    return first


@checked
def direct_sum(parts: Iterable[Representation]) -> Representation:
    """The direct sum. Nested sums are flattened, and a single part is returned unchanged.

    >>> from intertwine.groups import Cyclic
    >>> direct_sum([Cyclic(4).trivial, Cyclic(4).regular])
    C4: trivial + regular
    """
    parts = list(parts)
    atoms_of = {}  # looked up once per object: a wide type repeats one of them hundreds of times
    for key, part in {id(part): part for part in parts}.items():
        if not isinstance(part, Representation):
            raise RepresentationError("direct_sum", expected="representations", got=describe(part))
        atoms_of[key] = part.atoms
    atoms = tuple(atom for part in parts for atom in atoms_of[id(part)])
    if not atoms:
        raise RepresentationError("direct_sum", expected="at least one summand", got="none")
    require_same_group("rho1 + rho2", list({id(atom): atom for atom in atoms}.values()))
    return atoms[0] if len(atoms) == 1 else DirectSum(atoms)


def sum_name(parts: Sequence[Representation]) -> str:
    """A readable name that counts consecutive equal summands: ``3 trivial + 8 regular``."""
    counted: list[tuple[int, str]] = []
    for part in parts:
        if counted and counted[-1][1] == part.name:
            counted[-1] = (counted[-1][0] + 1, part.name)
        else:
            counted.append((1, part.name))
    return " + ".join(name if n == 1 else f"{n} {name}" for n, name in counted)


class DirectSum(Representation):
    """rho1 ⊕ rho2 ⊕ …, block diagonal."""

    def __init__(self, atoms: tuple[Representation, ...]) -> None:
        self._atoms = atoms
        self.group = atoms[0].group
        self.dim = sum(atom.dim for atom in atoms)
        self.name = sum_name(atoms)

    @checked
    def __call__(self, g: Element) -> Tensor:
        unique = {atom.digest: atom for atom in self._atoms}
        values = {digest: atom(g) for digest, atom in unique.items()}
        batch = values[self._atoms[0].digest].shape[:-2]
        require_memory(
            batch.numel() * self.dim**2,
            caller=f"({self.name})(g)",
            what=f"{batch.numel()} matrices of size {self.dim} x {self.dim}",
            fix="Evaluate the summands (rho.atoms) instead.",
        )
        out = values[self._atoms[0].digest].new_zeros(*batch, self.dim, self.dim)
        start = 0
        for atom in self._atoms:
            out[..., start : start + atom.dim, start : start + atom.dim] = values[atom.digest]
            start += atom.dim
        return out

    @checked
    def character(self, g: Element) -> Tensor:
        counts = Counter(atom.digest for atom in self._atoms)
        kinds = {atom.digest: atom for atom in self._atoms}
        return torch.stack([n * kinds[digest].character(g) for digest, n in counts.items()]).sum(0)

    @cached_property
    def digest(self) -> str:
        return content_digest("sum", *(atom.digest for atom in self._atoms))

    @cached_property
    def permutation_table(self) -> Tensor | None:
        tables, start = [], 0
        for atom in self._atoms:
            table = atom.permutation_table
            if table is None:
                return None
            tables.append(table + start)
            start += atom.dim
        return torch.cat(tables, dim=1)

    @property
    def is_orthogonal(self) -> bool:
        return all(atom.is_orthogonal for atom in self._atoms)

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return self._atoms

    @property
    def summands(self) -> tuple[Representation, ...]:
        return tuple(part for atom in self._atoms for part in atom.summands)


class OneField(Representation):
    """A direct sum that counts as one summand."""

    def __init__(self, rho: Representation, *, name: str) -> None:
        self.rho = rho
        self.group, self.dim, self.name = rho.group, rho.dim, name

    @checked
    def __call__(self, g: Element) -> Tensor:
        return self.rho(g)

    @checked
    def character(self, g: Element) -> Tensor:
        return self.rho.character(g)

    @cached_property
    def digest(self) -> str:
        return content_digest("one field", self.rho.digest)

    @property
    def permutation_table(self) -> Tensor | None:
        return self.rho.permutation_table

    @property
    def is_orthogonal(self) -> bool:
        return self.rho.is_orthogonal

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)

    @property
    def summands(self) -> tuple[Representation, ...]:
        return self.rho.summands


class TensorProduct(Representation):
    """rho1 ⊗ rho2 on V1 ⊗ V2; the index of V2 varies fastest."""

    def __init__(self, left: Representation, right: Representation) -> None:
        self.left, self.right = left, right
        self.group = left.group
        self.dim = left.dim * right.dim
        self.name = f"({left.name}) ⊗ ({right.name})"

    @checked
    def __call__(self, g: Element) -> Tensor:
        a, b = self.left(g), self.right(g)
        return torch.einsum("...ij,...kl->...ikjl", a, b).reshape(*a.shape[:-2], self.dim, self.dim)

    @checked
    def character(self, g: Element) -> Tensor:
        return self.left.character(g) * self.right.character(g)

    @cached_property
    def digest(self) -> str:
        return content_digest("tensor", self.left.digest, self.right.digest)

    @cached_property
    def permutation_table(self) -> Tensor | None:
        a, b = self.left.permutation_table, self.right.permutation_table
        if a is None or b is None:
            return None
        return (a[:, :, None] * self.right.dim + b[:, None, :]).flatten(1)

    @property
    def is_orthogonal(self) -> bool:
        return self.left.is_orthogonal and self.right.is_orthogonal

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)


class Dual(Representation):
    """g ↦ rho(g⁻¹)ᵀ."""

    def __init__(self, rho: Representation) -> None:
        self.rho = rho
        self.group, self.dim, self.name = rho.group, rho.dim, f"dual of {rho.name}"

    def __call__(self, g: Element) -> Tensor:
        return self.rho(self.group.inverse(g)).mT

    def character(self, g: Element) -> Tensor:
        return self.rho.character(self.group.inverse(g))

    @cached_property
    def digest(self) -> str:
        return content_digest("dual", self.rho.digest)

    @property
    def permutation_table(self) -> Tensor | None:
        return self.rho.permutation_table  # a permutation matrix is its own inverse transpose

    @property
    def is_orthogonal(self) -> bool:
        return self.rho.is_orthogonal

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)


class Restriction(Representation):
    """rho restricted to a subgroup: h ↦ rho(h)."""

    def __init__(self, rho: Representation, subgroup: Group) -> None:
        self.rho = rho
        rho.group.embed(subgroup, subgroup.identity)  # raises unless it is a subgroup
        self.group, self.dim, self.name = subgroup, rho.dim, f"{rho.name} restricted"

    @checked
    def __call__(self, g: Element) -> Tensor:
        return self.rho(self.rho.group.embed(self.group, g))

    @checked
    def character(self, g: Element) -> Tensor:
        return self.rho.character(self.rho.group.embed(self.group, g))

    @cached_property
    def digest(self) -> str:
        # A finite group may be embedded by its motions, and its table does not distinguish a mirror from a half turn.
        embedded = self.rho.group.embed(self.group, self.group.elements) if self.group.is_finite else None
        return content_digest("restriction", self.rho.digest, self.group.digest, embedded)

    @cached_property
    def permutation_table(self) -> Tensor | None:
        table = self.rho.permutation_table
        if table is None:
            return None
        return table[self.rho.group.embed(self.group, self.group.elements)]

    @property
    def is_orthogonal(self) -> bool:
        return self.rho.is_orthogonal

    @property
    def atoms(self) -> tuple[Representation, ...]:
        return (self,)
