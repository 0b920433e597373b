r"""Fields as rows, in the basis where the group acts by irreducibles.

A pointwise linear map multiplies a matrix by the values of a field at all positions. Such products are fastest on a
matrix with one row per channel and one column per sample, so fields of any type are laid out as *rows*
``(d, samples)``: sorted by kind of summand, and within a kind by coordinate, then copy. That costs one pass over the
data.

Each kind ρ has a basis A with A⁻¹ρ(h)A a sum of irreducibles ψ. Coordinates are numbered (ψ, a, copy of ψ, c). A
linear map that commutes with H does not mix different a, and c numbers the coordinates (1, 2 or 4) of the division
algebra of maps ψ → ψ. By Schur's lemma a map between two types is then one matrix over (copy, c) per ψ, used for all a.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from ..._devices import on_cpu
from ...groups import Representation
from ..basis._invariants import invariant_vectors
from ..basis._summands import is_trivial, summands
from ..basis._tables import TableModule
from ._turn import enter, functional, leave, turned_gelu


@dataclass(frozen=True)
class Component:
    """What ψ contributes to a representation.

    Attributes:
        psi: the irreducible.
        repeats: the number of coordinates a, on which every map acts the same.
        width: the number of pairs (copy of ψ, c).
    """

    psi: Representation
    repeats: int
    width: int


@dataclass(frozen=True)
class AdaptedBasis:
    """A basis of one kind of summand with coordinates (ψ, a, copy, c).

    Attributes:
        components: the irreducibles in order.
        basis: A, ``(d, d)`` in float64.
        inverse: A⁻¹.
        is_identity: whether A is the identity, and there is nothing to do.
    """

    components: tuple[Component, ...]
    basis: Tensor
    inverse: Tensor
    is_identity: bool


@lru_cache(maxsize=512)
@on_cpu
def adapted_basis(rho: Representation) -> AdaptedBasis:
    """Decompose ``rho`` and sort the coordinates.

    >>> from intertwine.groups import Cyclic
    >>> [(c.psi.dim, c.repeats, c.width) for c in adapted_basis(Cyclic(4).regular).components]
    [(1, 1, 1), (2, 1, 2), (1, 1, 1)]
    """
    pieces = rho.decompose()
    copies: dict[str, list[Tensor]] = {}
    kinds: dict[str, Representation] = {}
    offset = 0
    for psi in pieces.irreps:
        kinds[psi.digest] = psi
        copies.setdefault(psi.digest, []).append(pieces.basis[:, offset : offset + psi.dim])
        offset += psi.dim
    columns, components = [], []
    for digest, psi in kinds.items():
        frame, algebra = _frame(psi)
        turned = torch.stack([copy @ frame for copy in copies[digest]])  # (copy, d, (a, c))
        repeats = psi.dim // algebra
        columns.append(turned.unflatten(2, (repeats, algebra)).permute(1, 2, 0, 3).flatten(1))
        components.append(Component(psi, repeats, len(turned) * algebra))
    basis = torch.cat(columns, 1)
    eye = torch.eye(rho.dim, dtype=torch.float64)
    if bool((basis - eye).abs().max() < 1e-12):
        return AdaptedBasis(tuple(components), eye, eye, True)
    inverse = basis.T.contiguous() if rho.is_orthogonal else torch.linalg.inv(basis)
    return AdaptedBasis(tuple(components), basis, inverse, False)


def _frame(psi: Representation) -> tuple[Tensor, int]:
    """An orthonormal basis (a, c) of ψ in which all maps ψ → ψ act only on c, and the number of values of c.

    Take an orthonormal basis E_c of the division algebra and vectors v_a: the algebra maps the vectors E_c v_a of each
    a among themselves, by the same matrices for all a.
    """
    algebra = psi.endomorphism_dim
    if algebra in (1, psi.dim):
        return torch.eye(psi.dim, dtype=torch.float64), algebra
    maps = invariant_vectors(psi @ psi).view(algebra, psi.dim, psi.dim) * sqrt(psi.dim)
    frame = torch.zeros(psi.dim, 0, dtype=torch.float64)
    for v in torch.eye(psi.dim, dtype=torch.float64):
        rest = v - frame @ (frame.T @ v)
        if float(rest.norm()) > 0.5 / sqrt(psi.dim):  # some unit vector is at least that far from any subspace
            rest = rest - frame @ (frame.T @ rest)
            frame = torch.cat([frame, (maps @ (rest / rest.norm())).T], 1)
    return frame, algebra


@dataclass(frozen=True)
class Part:
    """The position of one kind of summand: its channels in runs, and its rows.

    Attributes:
        dim: the dimension of the summand.
        count: the number of copies.
        row: the first row.
        runs: (first channel, number of copies) of neighboring copies, in order.
    """

    dim: int
    count: int
    row: int
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Place:
    """The position of component ψ of a type among the rows of the irreducible basis.

    The rows from ``start`` on are ``(repeats, width)``; the kinds of summands share the width in order.
    """

    psi: Representation
    start: int
    repeats: int
    width: int

    @property
    def stop(self) -> int:
        return self.start + self.repeats * self.width


class IrreducibleRows(TableModule):
    """Two layouts of a field as rows ``(d, samples)``: by summand, and by irreducible.

    For a type that is a sum of irreducibles they are the same.

    Args:
        rho: the representation.
    """

    def __init__(self, rho: Representation) -> None:
        super().__init__()
        atoms = summands(rho)
        self.kinds, self.dim = atoms.kinds, rho.dim
        self.bases = [adapted_basis(kind) for kind in self.kinds]
        self.parts = _parts(rho, self.kinds, atoms.counts)
        self._heights = [part.dim * part.count for part in self.parts]
        all_runs = sorted((offset, n * part.dim) for part in self.parts for offset, n in part.runs)
        self._starts, self._sizes = [offset for offset, _ in all_runs], [size for _, size in all_runs]
        self.places, self.shares = _places(self.parts, self.bases)
        # If each ψ occurs in one kind only, rows are already in the order (kind, ψ) and need not move.
        owners = Counter(digest for digest, _ in self.shares)
        self.keeps_order = all(count == 1 for count in owners.values())
        self.is_single = len(self.parts) == 1 and len(self.parts[0].runs) == 1 and not self.bases[0].is_identity
        self.is_identity = self.keeps_order and all(basis.is_identity for basis in self.bases)
        for number, basis in enumerate(self.bases):
            self.register_table(f"basis{number}", basis.basis)
            self.register_table(f"inverse{number}", basis.inverse)

    # -- channels to rows --------------------------------------------------------------------------------------

    def rows(self, x: Tensor) -> Tensor:
        """``(batch, channels, ...)`` to ``(channels, samples)``."""
        flat = x.reshape(x.shape[0], x.shape[1], -1)
        pieces = dict(zip(self._starts, _split(flat, self._sizes, 1), strict=True))
        out = []
        for part in self.parts:
            copies = [pieces[offset].unflatten(1, (n, part.dim)).permute(2, 1, 0, 3) for offset, n in part.runs]
            out.append(_stack(copies, 1).reshape(part.dim * part.count, -1))
        return _stack(out).contiguous()

    def channels(self, rows: Tensor, batch: int, sizes: tuple[int, ...]) -> Tensor:
        """The inverse of :meth:`rows`: ``(batch, channels, *sizes)``."""
        pieces: dict[int, Tensor] = {}
        by_part = _split(rows, self._heights)
        for part, part_rows in zip(self.parts, by_part, strict=True):
            runs = _split(part_rows.view(part.dim, part.count, batch, -1), [n for _, n in part.runs], 1)
            for (offset, n), run in zip(part.runs, runs, strict=True):
                pieces[offset] = run.permute(2, 1, 0, 3).reshape(batch, n * part.dim, -1)
        return _stack([pieces[offset] for offset in self._starts], 1).view(batch, self.dim, *sizes)

    # -- channels to the irreducible basis -------------------------------------------------------------------------

    def enter(self, x: Tensor) -> Tensor:
        """``(batch, channels, ...)`` to rows by irreducible.

        With one kind of summand, layout and change of basis happen in one pass over the field instead of two.
        """
        if functional() or not self.is_single:
            return self.to_irreducible(self.rows(x))
        return enter(x, self.get_buffer("inverse0"))

    def leave(self, rows: Tensor, batch: int, sizes: tuple[int, ...]) -> Tensor:
        """The inverse of :meth:`enter`."""
        if functional() or not self.is_single:
            return self.channels(self.from_irreducible(rows), batch, sizes)
        return leave(rows, self.get_buffer("basis0"), batch, sizes)

    def gelu(self, rows: Tensor) -> Tensor:
        """GELU of all channels of a permutation type, from rows by irreducible to rows by irreducible."""
        if functional() or not self.is_single:
            return self.to_irreducible(gelu(self.from_irreducible(rows)))
        return turned_gelu(rows, self.get_buffer("basis0"), self.get_buffer("inverse0"))

    def to_irreducible(self, rows: Tensor) -> Tensor:
        """A⁻¹ on every copy of every summand: rows by summand to rows by irreducible."""
        if self.is_identity:
            return rows
        pieces = _split(rows, self._heights)
        turned = [self._turn(piece, "inverse", number) for number, piece in enumerate(pieces)]
        if self.keeps_order:
            return _stack(turned)
        by_irrep = {}
        for number, (part, basis, part_rows) in enumerate(zip(self.parts, self.bases, turned, strict=True)):
            sizes = [c.repeats * c.width * part.count for c in basis.components]
            for component, piece in zip(basis.components, part_rows.split(sizes), strict=True):
                by_irrep[component.psi.digest, number] = piece.unflatten(0, (component.repeats, -1))
        out = []
        for digest in self.places:
            out.append(_stack([by_irrep[digest, number] for number in self.owners(digest)], 1).flatten(0, 1))
        return torch.cat(out)

    def from_irreducible(self, rows: Tensor) -> Tensor:
        """The inverse of :meth:`to_irreducible`."""
        if self.is_identity:
            return rows
        if self.keeps_order:
            by_part = _split(rows, self._heights)
        else:
            by_irrep = {}
            pieces = rows.split([place.stop - place.start for place in self.places.values()])
            for (digest, place), piece in zip(self.places.items(), pieces, strict=True):
                owners = self.owners(digest)
                widths = [self.shares[digest, number] for number in owners]
                parts = piece.unflatten(0, (place.repeats, place.width)).split(widths, 1)
                by_irrep.update(
                    {(digest, number): part.flatten(0, 1) for number, part in zip(owners, parts, strict=True)}
                )
            by_part = [
                _stack([by_irrep[component.psi.digest, number] for component in basis.components])
                for number, basis in enumerate(self.bases)
            ]
        return _stack([self._turn(piece, "basis", number) for number, piece in enumerate(by_part)])

    def _turn(self, rows: Tensor, name: str, number: int) -> Tensor:
        if self.bases[number].is_identity:
            return rows
        return (self.get_buffer(f"{name}{number}") @ rows.reshape(self.parts[number].dim, -1)).view(rows.shape)

    def invariant_rows(self, v: Tensor) -> Tensor | None:
        """Coordinates of an invariant vector ``(d,)`` in the rows of the trivial irreducible; None if it has none."""
        trivial = self.trivial
        if trivial is None:
            return None
        rows = self.to_irreducible(self.rows(v[None]))
        return rows[trivial.start : trivial.stop, 0]

    def owners(self, digest: str) -> list[int]:
        """The indices of the kinds of summands that contain an irreducible."""
        return [number for number in range(len(self.kinds)) if (digest, number) in self.shares]

    @property
    def trivial(self) -> Place | None:
        """The position of the invariant vectors."""
        return next((place for place in self.places.values() if is_trivial(place.psi)), None)

    def extra_repr(self) -> str:
        """The irreducibles with their numbers of rows."""
        return ", ".join(f"{p.repeats} x {p.width} {p.psi.name}" for p in self.places.values())


def _stack(parts: list[Tensor], axis: int = 0) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def _split(x: Tensor, sizes: list[int], axis: int = 0) -> list[Tensor]:
    """Pieces along an axis. A single piece is returned as it is: the gradient of ``split`` would copy it."""
    return [x] if len(sizes) == 1 else list(x.split(sizes, axis))


def _parts(rho: Representation, kinds: tuple[Representation, ...], counts: tuple[int, ...]) -> tuple[Part, ...]:
    runs: dict[str, list[tuple[int, int]]] = {kind.digest: [] for kind in kinds}
    offset = 0
    for digest, group in groupby(rho.atoms, key=lambda atom: atom.digest):
        atoms = list(group)
        runs[digest].append((offset, len(atoms)))
        offset += sum(atom.dim for atom in atoms)
    parts, row = [], 0
    for kind, count in zip(kinds, counts, strict=True):
        parts.append(Part(kind.dim, count, row, tuple(runs[kind.digest])))
        row += kind.dim * count
    return tuple(parts)


def _places(parts: tuple[Part, ...], bases: list[AdaptedBasis]) -> tuple[dict[str, Place], dict[tuple[str, int], int]]:
    """The position of each ψ, and the share of its width per kind of summand."""
    widths: dict[str, int] = {}
    shares: dict[tuple[str, int], int] = {}
    shape: dict[str, Any] = {}
    for number, (part, basis) in enumerate(zip(parts, bases, strict=True)):
        for component in basis.components:
            digest, width = component.psi.digest, component.width * part.count
            shares[digest, number] = width
            widths[digest] = widths.get(digest, 0) + width
            shape[digest] = component
    places, start = {}, 0
    for digest, component in shape.items():
        places[digest] = Place(component.psi, start, component.repeats, widths[digest])
        start = places[digest].stop
    return places, shares
