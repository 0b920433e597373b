"""What the entries of a tensor's axis stand for: channels that move together, rows, columns, or fixed entries.

An axis is a sequence of segments, and a segment is a product of factors (major to minor). The factors are

- the channels of an :class:`Atom`, a set of channels that one permutation moves wherever they occur,
- ``h`` or ``w``, the rows or columns of the image plane,
- ``i``, the channels of the image, which only a symmetry of colors moves,
- ``f``, entries that stay in place, and ``z``, equal constants, which any permutation preserves.

A flattened map is the segment (channels, h, w); a concatenation of two streams has two segments; the tokens of a
transformer are (f of size 1), (h, w). Axes that are added, multiplied or contracted with each other must agree:
:meth:`Axes.unify` makes them agree by splitting and identifying atoms, and pins what cannot agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias


@dataclass(eq=False)
class Atom:
    """Channels moved by one permutation; ``parts`` is what replaced them, once that is known."""

    size: int
    parts: Axis | None = None


@dataclass(frozen=True)
class Factor:
    """One factor of a segment."""

    kind: str
    size: int
    atom: Atom | None = None


Segment: TypeAlias = tuple[Factor, ...]
Axis: TypeAlias = tuple[Segment, ...]
Label: TypeAlias = tuple[Axis, ...]


def fresh(size: int) -> Axis:
    """An axis of new channels; a single entry is fixed."""
    return ((Factor("c", size, Atom(size)),),) if size > 1 else fixed(size)


def fixed(size: int) -> Axis:
    """An axis whose entries stay in place."""
    return ((Factor("f", size),),)


def constant(size: int) -> Axis:
    """An axis along which all entries are equal."""
    return ((Factor("z", size),),)


def plane(kind: str, size: int) -> Axis:
    """Rows (``h``) or columns (``w``)."""
    return ((Factor(kind, size),),)


def length(segment: Segment) -> int:
    """The number of entries of a segment."""
    return prod(f.size for f in segment)


def extent(axis: Axis) -> int:
    """The number of entries of an axis."""
    return sum(length(s) for s in axis)


def kind_of(axis: Axis) -> str:
    """``h``, ``w``, ``i`` or ``f`` for an axis with one such factor, else ``c``."""
    if len(axis) == 1 and len(axis[0]) == 1 and axis[0][0].kind in "hwif":
        return axis[0][0].kind
    return "c"


@dataclass
class Axes:
    """The algebra of axes, with a record of what was pinned and why.

    >>> axes = Axes()
    >>> stream, flat = fresh(4), fresh(36)
    >>> axes.unify(flat, axes.merge([stream, plane("h", 3), plane("w", 3)], "here"), "here") == axes.resolve(flat)
    True
    >>> [[f.kind + str(f.size) for f in s] for s in axes.resolve(flat)]
    [['c4', 'h3', 'w3']]
    """

    pinned: list[tuple[str, int]] = field(default_factory=list)
    colors_cut: bool = False
    """Whether the channels of the image were split."""
    lost: dict[str, None] = field(default_factory=dict)
    """Where rows and columns could not be followed."""
    grouped: dict[str, tuple[Axis, int]] = field(default_factory=dict)
    """For weights of grouped convolutions: the channels on the blocks of the second axis, and the number of groups."""

    def resolve(self, axis: Axis) -> Axis:
        """The axis in terms of atoms that have not been replaced."""
        return tuple(s for segment in axis for s in self._resolved(segment))

    def _resolved(self, segment: Segment) -> Axis:
        for position, factor in enumerate(segment):
            if factor.atom is None or factor.atom.parts is None:
                continue
            parts = self.resolve(factor.atom.parts)
            before, after = segment[:position], segment[position + 1 :]
            if len(parts) > 1 and prod(f.size for f in before) > 1:
                # Segments cannot describe a split of any factor but the leading one, so its parts stay in place.
                self.pin(parts, "an inner factor of a flattened axis was split")
                parts = fixed(factor.size)
            return tuple(s for part in parts for s in self._resolved((*before, *part, *after)))
        if len(segment) == 1:
            return (segment,)
        return (tuple(f for f in segment if f.size > 1) or (Factor("f", 1),),)

    def atoms(self, axis: Axis) -> Iterator[Atom]:
        """Atoms that occur in an axis."""
        for segment in self.resolve(axis):
            for factor in segment:
                if factor.atom is not None:
                    yield factor.atom

    def pin(self, axis: Axis, why: str) -> None:
        """Fix all channels of an axis in place, and record why."""
        for atom in list(self.atoms(axis)):
            if atom.parts is None:
                self.pinned.append((why, atom.size))
                atom.parts = fixed(atom.size)

    def release(self, axis: Axis) -> None:
        """Fix an axis whose channels are described elsewhere, without recording it as pinned."""
        for atom in list(self.atoms(axis)):
            atom.parts = fixed(atom.size)

    def pin_all(self, axes: Iterable[Axis], why: str) -> None:
        """Pin several axes."""
        for axis in axes:
            self.pin(axis, why)

    def unify(self, a: Axis, b: Axis, why: str) -> Axis:
        """Make two axes of equal length agree entry by entry, and return the common axis."""
        left, right, out = list(self.resolve(a)), list(self.resolve(b)), []
        while left and right:
            left[:1], right[:1] = self.resolve((left[0],)), self.resolve((right[0],))
            s, t = left[0], right[0]
            if length(s) == length(t):
                left.pop(0), right.pop(0)
                out.append(self._unify_segments(s, t, why))
                continue
            big, small = (left, t) if length(s) > length(t) else (right, s)
            cut = self._cut(big[0], length(small))
            if cut is None:
                self.pin_all([tuple(left), tuple(right)], why)
                rest = extent(tuple(left))
                return (*self.resolve(tuple(out)), *fixed(rest))
            big[:1] = cut
        return self.resolve(tuple(out))

    def _unify_segments(self, s: Segment, t: Segment, why: str) -> Segment:
        if s == t or all(f.kind == "z" for f in t):
            return s
        if all(f.kind == "z" for f in s):
            return t
        for segment, other in ((s, t), (t, s)):
            if len(segment) == 1 and segment[0].atom is not None:
                if any(f.atom is segment[0].atom for f in other):
                    break
                segment[0].atom.parts = (other,)
                return other
        if [f.size for f in s] == [f.size for f in t]:
            return tuple(self._unify_factors(f, g, why) for f, g in zip(s, t, strict=True))
        self.pin_all([(s,), (t,)], why)
        return (Factor("f", length(s)),)

    def _unify_factors(self, f: Factor, g: Factor, why: str) -> Factor:
        f, g = self.resolve(((f,),))[0][0], self.resolve(((g,),))[0][0]
        if f == g or g.kind == "z":
            return f
        if f.kind == "z":
            return g
        if f.atom is not None:
            f.atom.parts = ((g,),)
            return g
        if g.atom is not None:
            g.atom.parts = ((f,),)
            return f
        if "f" in (f.kind, g.kind):
            return g if f.kind == "f" else f
        self.lost[f"{why}: rows meet columns"] = None
        return Factor("f", f.size)

    def _cut(self, segment: Segment, count: int) -> list[Segment] | None:
        """Split a segment into its first ``count`` entries and the rest; None if that is impossible."""
        head, rest = segment[0], segment[1:]
        inner = prod(f.size for f in rest)
        first, remainder = divmod(count, inner)
        if remainder or not 0 < first < head.size or head.kind in "hw":
            return None
        if head.atom is not None:
            parts = [fresh(n)[0] for n in (first, head.size - first)]
            head.atom.parts = tuple(parts)
        else:
            if head.kind == "i":
                self.colors_cut = True
            kind = "f" if head.kind == "i" else head.kind
            parts = [(Factor(kind, n),) for n in (first, head.size - first)]
        return [(*part, *rest) for part in parts]

    def cut(self, axis: Axis, counts: list[int], why: str) -> list[Axis]:
        """Split an axis into consecutive pieces of these lengths."""
        pieces: list[Axis] = []
        rest = list(self.resolve(axis))
        for position, count in enumerate(counts):
            piece: list[Segment] = []
            while count > 0:
                rest[:1] = self.resolve((rest[0],))
                if length(rest[0]) > count:
                    parts = self._cut(rest[0], count)
                    if parts is None:
                        self.pin(tuple(rest), why)
                        left = [count, *counts[position + 1 :]]
                        tail = [fixed(n) for n in left]
                        return [*pieces, (*piece, *tail[0]), *tail[1:]]
                    rest[:1] = parts
                count -= length(rest[0])
                piece.append(rest.pop(0))
            pieces.append(self.resolve(tuple(piece)))
        return pieces

    def merge(self, axes: list[Axis], why: str) -> Axis:
        """Flatten several axes into one."""
        axes = [self.resolve(a) for a in axes]
        axes = [a for a in axes if extent(a) > 1] or [fixed(1)]
        if any(len(a) > 1 for a in axes[1:]):
            self.pin_all(axes, why)
            return fixed(prod(extent(a) for a in axes))
        tail = tuple(f for a in axes[1:] for f in a[0])
        return tuple((*segment, *tail) for segment in axes[0])

    def unflatten(self, axis: Axis, sizes: list[int], why: str) -> list[Axis]:
        """Split one axis into a product of several."""
        if sum(n > 1 for n in sizes) <= 1:
            return [axis if n > 1 else fixed(1) for n in sizes]
        axis = self.resolve(axis)
        if len(axis) == 1:
            factors, out = list(axis[0]), []
            for n in sizes:
                taken: list[Factor] = []
                while n > 1 and factors and n % factors[0].size == 0:
                    n //= factors[0].size
                    taken.append(factors.pop(0))
                if n > 1 and factors and factors[0].kind in "fz" and factors[0].size % n == 0:
                    head = factors[0]
                    taken.append(Factor(head.kind, n))
                    factors[0] = Factor(head.kind, head.size // n)
                    n = 1
                if n > 1:
                    break
                out.append((tuple(taken) or (Factor("f", 1),),))
            else:
                return list(out)
        self.pin(axis, why)
        return [fixed(n) for n in sizes]
