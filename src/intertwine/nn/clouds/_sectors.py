"""What a kernel may do in the frame of an edge.

There the kernel is a matrix that commutes with the stabilizer of the axis: SO(2) or O(2) in space, nothing or one
mirror in the plane. Under this small group the channels fall into sectors, and a kernel is a free matrix in each:

- In space, rows m = 0 are scalars, and the rows ±m of every degree l ≥ m are one pair that turns by m times the angle.
  SO(2) leaves a complex number free between any two pairs, O(2) a real one. Mirrors tell natural scalars from
  pseudoscalars, so O(2) splits m = 0 in two; pairs of the other parity are pairs with their rows exchanged.
- In the plane, SO(2) leaves no stabilizer: all rows form one sector. O(2) leaves a mirror: even rows and odd rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...groups import O2, O3, SO2, SO3
from ._irreducibles import Kind, SortedFields


@dataclass(frozen=True)
class Part:
    """The copies of one irreducible in a sector: one row of it, or a pair of rows, each with a sign."""

    kind: Kind
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sector:
    """Channels that the stabilizer of the axis turns alike.

    Attributes:
        inputs: parts of the input.
        outputs: parts of the output.
        phase: whether a kernel may turn pairs of rows, so that its entries are complex numbers.
    """

    inputs: tuple[Part, ...]
    outputs: tuple[Part, ...]
    phase: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """Copies of the input and of the output."""
        return sum(part.kind.count for part in self.inputs), sum(part.kind.count for part in self.outputs)


def sectors(group: SO2 | O2 | SO3 | O3, inputs: SortedFields, outputs: SortedFields) -> tuple[Sector, ...]:
    """All sectors with channels in the input and in the output."""
    every = _planar(group, inputs, outputs) if isinstance(group, SO2 | O2) else _spatial(group, inputs, outputs)
    return tuple(sector for sector in every if all(sector.sizes))


def _spatial(group: SO3 | O3, inputs: SortedFields, outputs: SortedFields) -> list[Sector]:
    mirrors = isinstance(group, O3)

    def scalars(fields: SortedFields, natural: bool | None) -> tuple[Part, ...]:
        kinds = (kind for kind in fields.kinds if natural in (None, kind.natural))
        return tuple(Part(kind, ((kind.degree, 1),)) for kind in kinds)

    def pairs(fields: SortedFields, m: int) -> tuple[Part, ...]:
        parts = []
        for kind in fields.kinds:
            cosine, sine = kind.degree + m, kind.degree - m
            exchanged = mirrors and not kind.natural
            if kind.degree >= m:
                parts.append(Part(kind, ((sine, -1), (cosine, 1)) if exchanged else ((cosine, 1), (sine, 1))))
        return tuple(parts)

    splits = (True, False) if mirrors else (None,)
    result = [Sector(scalars(inputs, natural), scalars(outputs, natural)) for natural in splits]
    top = min(max(fields.degrees, default=0) for fields in (inputs, outputs))
    return result + [Sector(pairs(inputs, m), pairs(outputs, m), phase=not mirrors) for m in range(1, top + 1)]


def _planar(group: SO2 | O2, inputs: SortedFields, outputs: SortedFields) -> list[Sector]:
    def rows(fields: SortedFields, even: bool | None) -> tuple[Part, ...]:
        return tuple(
            Part(kind, ((row, 1),))
            for kind in fields.kinds
            for row in range(fields.dims[kind.degree])
            if even in (None, (row == 0) == kind.natural)
        )

    splits = (True, False) if isinstance(group, O2) else (None,)
    return [Sector(rows(inputs, even), rows(outputs, even)) for even in splits]
