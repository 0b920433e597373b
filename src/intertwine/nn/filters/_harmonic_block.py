r"""One block of a filter from free weights, if a table of all basis kernels would be larger than the filter.

Functions on the taps decompose into harmonics Y_s,m, which H mixes by a representation ψ: spherical harmonics times a
radial profile or, for a group that maps the lattice to itself, an orthonormal basis of all functions. Between
irreducibles the kernels are

    κ(x) = Σ_s,a w[s, a] Σ_m A[a, :, :, m] Y_s,m(x),    A in Hom_H(ρ1 ⊗ ψ, ρ2),

so a layer stores the harmonics once, and one small tensor A per pair of irreducibles and ψ: a table of all kernels
κ would repeat every Y for every entry. Other representations are decomposed, and the filter is transformed back to
their own basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor

from ..._devices import on_cpu
from ...groups import FiniteGroup, Representation
from ...kernels import SteerableKernelBasis, angular_solutions
from ...spaces import FieldType, Grid
from ._blocks import FilterBlock, tap_images
from ._natural import Response, exchanged, natural_correlation
from ._sampling import DEFAULT, Sampling


@dataclass(frozen=True)
class Shells:
    """Harmonics of one kind ψ on the taps.

    Attributes:
        psi: how the group acts on them.
        values: ``(shells, harmonics, taps)``.
    """

    psi: Representation
    values: Tensor


@dataclass(frozen=True)
class Part:
    """Kernels between all copies of two irreducibles on the shells of one kind.

    Attributes:
        row: the index of the output irreducible.
        column: the index of the input irreducible.
        kind: the index of the kind of shells.
        angular: A, as a matrix ``(solutions, d2 d1 harmonics)``.
        shape: copies of the two irreducibles, shells and solutions.
    """

    row: int
    column: int
    kind: int
    angular: Tensor
    shape: tuple[int, int, int, int]

    @property
    def weights(self) -> int:
        """The number of weights."""
        return torch.Size(self.shape).numel()


@dataclass(frozen=True)
class Irreducibles:
    """The decomposition of a representation: distinct irreducibles, their multiplicities, and the change of basis."""

    kinds: tuple[Representation, ...]
    counts: tuple[int, ...]
    basis: Tensor | None

    def means(self, correlation: Tensor) -> list[float]:
        """The mean diagonal entry of an invariant matrix on each kind of irreducible."""
        turned = correlation if self.basis is None else self.basis.T @ correlation @ self.basis
        sizes = [n * psi.dim for n, psi in zip(self.counts, self.kinds, strict=True)]
        return [float(part.mean()) for part in turned.diagonal().split(sizes)]


@dataclass(frozen=True)
class HarmonicTable:
    """What a block is made from; see the top of this file.

    Attributes:
        shells: the harmonics by kind.
        rows: the irreducibles of the output.
        columns: the irreducibles of the input.
        parts: the parts, in the order of their weights.
        norms: Σ|κ|² of the kernel of each weight.
        response: see :class:`FilterBlock`.
    """

    shells: tuple[Shells, ...]
    rows: Irreducibles
    columns: Irreducibles
    parts: tuple[Part, ...]
    norms: Tensor
    response: Response

    @property
    def weights(self) -> int:
        """How many weights each pair of copies has."""
        return len(self.norms)

    @property
    def simple(self) -> bool:
        """Whether both are irreducible and each kind of harmonics couples them at most once, as for SO(3) and O(3)."""
        sides = (self.rows, self.columns)
        return all(side.counts == (1,) and side.basis is None for side in sides) and all(
            part.shape[3] == 1 for part in self.parts
        )

    @property
    def size(self) -> int:
        """The number of entries of all tables, harmonics included."""
        bases = [side.basis.numel() for side in (self.rows, self.columns) if side.basis is not None]
        return sum(s.values.numel() for s in self.shells) + sum(p.angular.numel() for p in self.parts) + sum(bases)


@lru_cache(maxsize=512)
@on_cpu
def harmonic_table(
    in_kind: FieldType, out_kind: FieldType, kernel_size: tuple[int, ...], sampling: Sampling = DEFAULT
) -> HarmonicTable | None:
    """The table of a pair of summands; None for representations that are not orthogonal."""
    if not (in_kind.rho.is_orthogonal and out_kind.rho.is_orthogonal):
        return None
    shells = tap_harmonics(in_kind.space, kernel_size, sampling)
    rows, columns = _irreducibles(out_kind.rho), _irreducibles(in_kind.rho)
    parts, norms, uncorrelated, shared = [], [torch.zeros(0, dtype=torch.float64)], 0.0, 0.0
    correlation = natural_correlation(in_kind.space, kernel_size)  # type: ignore[arg-type]
    exchanged_share = columns.means(exchanged(in_kind.rho))
    for (i, psi2), (j, psi1) in product(enumerate(rows.kinds), enumerate(columns.kinds)):
        for kind, shell in enumerate(shells):
            angular = angular_solutions(psi1, psi2, shell.psi)
            shape = rows.counts[i], columns.counts[j], len(shell.values), len(angular)
            if len(angular):
                parts.append(Part(i, j, kind, angular.flatten(1).contiguous(), shape))
                gram = torch.einsum("smx,snx->smn", shell.values, shell.values)
                norm = torch.einsum("aijm,aijn,smn->sa", angular, angular, gram)
                norms.append(norm.expand(shape).flatten())
                natural = torch.einsum("smx,snx->smn", shell.values @ correlation, shell.values)
                part = shape[0] * shape[1] * float(torch.einsum("aijm,aijn,smn->", angular, angular, natural))
                uncorrelated, shared = uncorrelated + part, shared + part * exchanged_share[j]
    return HarmonicTable(shells, rows, columns, tuple(parts), torch.cat(norms), Response(uncorrelated, shared))


@lru_cache(maxsize=64)
@on_cpu
def tap_harmonics(space: Grid, kernel_size: tuple[int, ...], sampling: Sampling = DEFAULT) -> tuple[Shells, ...]:
    """The functions on the taps that kernels are made from, grouped by how the group acts on them."""
    scalar = space.field(space.stabilizer.trivial)
    if isinstance(space.stabilizer, FiniteGroup) and space.exact:
        harmonics = _lattice_harmonics(space, space.stabilizer, kernel_size)
    else:
        harmonics = SteerableKernelBasis(scalar, scalar, kernel_size, allow_empty=True, **sampling.options).shells()
    kinds: dict[str, tuple[Representation, list[Tensor]]] = {}
    for psi, values in harmonics:
        kinds.setdefault(psi.digest, (psi, []))[1].append(values.T)
    return tuple(Shells(psi, torch.stack(values)) for psi, values in kinds.values())


def harmonic_values(space: Grid, kernel_size: tuple[int, ...], sampling: Sampling = DEFAULT) -> Tensor:
    """All harmonics on the taps, ``(harmonics, taps)``, in the order of the coefficients of a block."""
    return torch.cat([shell.values.flatten(0, 1) for shell in tap_harmonics(space, kernel_size, sampling)])


def _lattice_harmonics(
    space: Grid, group: FiniteGroup, kernel_size: tuple[int, ...]
) -> list[tuple[Representation, Tensor]]:
    """All functions on the taps, orbit by orbit; orbits that leave the array are left out."""
    image = tap_images(space, kernel_size)
    inside, orbit_of = (image >= 0).all(0), image.amin(0)  # the smallest tap of an orbit names it
    harmonics = []
    for name in torch.unique(orbit_of[inside]).tolist():
        orbit = torch.nonzero(orbit_of == name).flatten()
        number = torch.full((image.shape[1],), -1)
        number[orbit] = torch.arange(len(orbit))
        matrices = torch.nn.functional.one_hot(number[image[:, orbit]], len(orbit)).mT.to(torch.float64)
        pieces, start = group.representation(matrices, name="functions on an orbit").decompose(), 0
        for psi in pieces.irreps:
            values = torch.zeros(image.shape[1], psi.dim, dtype=torch.float64)
            values[orbit] = pieces.basis[:, start : start + psi.dim]
            harmonics.append((psi, values))
            start += psi.dim
    return harmonics


def _irreducibles(rho: Representation) -> Irreducibles:
    pieces = rho.decompose()
    kinds = {psi.digest: psi for psi in pieces.irreps}
    names = [psi.digest for psi in pieces.irreps]
    # Copies of one irreducible become neighbors, so they form one axis.
    columns: dict[str, list[int]] = {name: [] for name in kinds}
    start = 0
    for name in names:
        columns[name] += range(start, start + kinds[name].dim)
        start += kinds[name].dim
    basis = pieces.basis[:, [c for part in columns.values() for c in part]]
    same = torch.equal(basis, torch.eye(rho.dim, dtype=basis.dtype))
    return Irreducibles(tuple(kinds.values()), tuple(names.count(n) for n in kinds), None if same else basis)


class HarmonicBlock(FilterBlock):
    """Weights ``(n2, n1, k)`` to coefficients of the harmonics ``(n2 d2, n1 d1, harmonics)``, linear and equivariant.

    All blocks of a filter share one table of harmonics, :func:`harmonic_values`.

    Args:
        in_kind: the summand of the input.
        out_kind: the summand of the output.
        table: from :func:`harmonic_table`.
        copies: n2 and n1.
    """

    left: Tensor
    right: Tensor
    coupling: Tensor
    shell_of: Tensor
    way = "harmonic"
    spectral = True

    def __init__(self, in_kind: FieldType, out_kind: FieldType, table: HarmonicTable, copies: tuple[int, int]) -> None:
        super().__init__()
        self.copies, self.d1, self.d2 = copies, in_kind.dim, out_kind.dim
        self.norms, self.response, self._simple = table.norms, table.response, table.simple
        if table.simple:
            self._couple(table)
            return
        self._shapes = [part.shape for part in table.parts]
        self._sizes = [part.weights for part in table.parts]
        self._cells = [[[-1] * len(table.shells) for _ in table.columns.kinds] for _ in table.rows.kinds]
        for number, part in enumerate(table.parts):
            self._cells[part.row][part.column][part.kind] = number
            self.register_table(f"angular{number}", part.angular)
        self._row_sizes = [(n, psi.dim) for n, psi in zip(table.rows.counts, table.rows.kinds, strict=True)]
        self._column_sizes = [(n, psi.dim) for n, psi in zip(table.columns.counts, table.columns.kinds, strict=True)]
        self._shell_sizes = [shell.values.shape[0] * shell.values.shape[1] for shell in table.shells]
        self._turned = table.rows.basis is not None, table.columns.basis is not None
        if table.rows.basis is not None:
            self.register_table("left", table.rows.basis)
        if table.columns.basis is not None:
            self.register_table("right", table.columns.basis)

    def _couple(self, table: HarmonicTable) -> None:
        """Store one entry of A per matrix entry and harmonic, and the index of the weight that multiplies it.

        Then the block is one elementwise product, without a matrix product per pair of shells.
        """
        parts = {part.kind: part for part in table.parts}
        coupling, shell_of, start = [], [], 0
        for kind, shell in enumerate(table.shells):
            shells, m = shell.values.shape[:2]
            if kind in parts:
                coupling.append(parts[kind].angular.view(self.d2, self.d1, 1, m).expand(-1, -1, shells, -1).flatten(2))
                shell_of += [start + s for s in range(shells) for _ in range(m)]
                start += shells
            else:
                coupling.append(torch.zeros(self.d2, self.d1, shells * m, dtype=torch.float64, device="cpu"))
                shell_of += [0] * (shells * m)
        self.register_table("coupling", torch.cat(coupling, 2))
        self.register_table("shell_of", torch.tensor(shell_of, device="cpu"))

    def forward(self, weight: Tensor) -> Tensor:
        n2, n1 = self.copies
        if self._simple:
            weight = weight.index_select(2, self.shell_of)
            out = weight[:, None, :, None] * self.coupling[:, None]
            return out.view(n2 * self.d2, n1 * self.d1, -1)
        slices = weight.split(self._sizes, 2)
        out = _joined(
            [
                _joined([self._cell(slices, i, j, weight) for j in range(len(row))], 3)
                for i, row in enumerate(self._cells)
            ],
            1,
        )
        if self._turned[0]:
            out = torch.matmul(self.left, out.flatten(2)).view(out.shape)
        if self._turned[1]:
            out = torch.matmul(self.right, out)
        return out.reshape(n2 * self.d2, n1 * self.d1, -1)

    def _cell(self, slices: Sequence[Tensor], i: int, j: int, weight: Tensor) -> Tensor:
        """Coefficients of the harmonics between two irreducibles, ``(n2, c2 d2, n1, c1 d1, harmonics)``."""
        (n2, n1), (c2, d2), (c1, d1) = self.copies, self._row_sizes[i], self._column_sizes[j]
        parts = []
        for kind, number in enumerate(self._cells[i][j]):
            if number < 0:
                parts.append(weight.new_zeros(n2, c2 * d2, n1, c1 * d1, self._shell_sizes[kind]))
                continue
            _, _, shells, solutions = self._shapes[number]
            product = slices[number].reshape(-1, solutions) @ self.get_buffer(f"angular{number}")
            product = product.view(n2, n1, c2, c1, shells, d2, d1, -1).permute(0, 2, 5, 1, 3, 6, 4, 7)
            parts.append(product.reshape(n2, c2 * d2, n1, c1 * d1, -1))
        return _joined(parts, 4)

    def extra_repr(self) -> str:
        """How the block is made, as shown by ``print(layer)``."""
        return f"{self.way}, {self.weights} weights for {self.d2} x {self.d1}"


def _joined(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)
