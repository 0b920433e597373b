"""What the entries of a tensor's axis stand for: channels that move together, rows, columns, or fixed entries.

An axis is a sequence of segments, and a segment is a product of factors (major to minor). The factors are

- the channels of an :class:`Atom`, a set of channels that one permutation moves wherever they occur,
- ``h`` or ``w``, the rows or columns of the image plane,
- ``i``, the channels of the image, which only a symmetry of colors moves,
- ``f``, entries that stay in place, and ``z``, equal numbers (:class:`Constant`), which any permutation preserves,
- ``t``, the entries of a table that a fixed index reads, and which move as what was read (:class:`Lookup`),
- ``s`` and ``x``, several streams side by side and their axes (:class:`Stack`).

A flattened map is the segment (channels, h, w); a concatenation of two streams has two segments; the tokens of a
transformer are (f of size 1), (h, w). Axes that are added, multiplied or contracted with each other must agree:
:meth:`Axes.unify` makes them agree by splitting and identifying atoms, and pins what cannot agree.

A reshape may divide a factor. Rows divide into windows and the rows of a window. Channels divide into heads and the
channels of a head; each head then permutes its channels in its own way, and the atom inside refers to the atom of the
heads by ``outers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

from torch import Tensor


@dataclass(eq=False)
class Atom:
    """Channels moved by one permutation; ``parts`` is what replaced them, once that is known.

    Attributes:
        size: the number of channels.
        parts: what replaced them.
        outers: the atoms whose channels each contain a copy of this one, such as heads.
        divided: for the first part of a divided atom, that atom and the other part.
        cut: where it was cut into several parts.
    """

    size: int
    parts: Axis | None = None
    outers: list[Atom] = field(default_factory=list)
    divided: tuple[Atom, Atom] | None = None
    cut: str = ""


@dataclass(eq=False)
class Stack:
    """Streams side by side, such as queries, keys and values: for each of them its axes, by slot."""

    members: list[list[Axis]]


@dataclass(eq=False)
class Lookup:
    """Entry ``index[i]`` of a table is read at i; ``label`` says what the axes of the index stand for."""

    index: Tensor
    label: Label


@dataclass(eq=False)
class Constant:
    """Entries of an axis that are all equal, such as the zeros on both sides of a padded axis.

    Attributes:
        counted: whether the network says how many there are.
    """

    counted: bool = False


@dataclass(frozen=True)
class Factor:
    """One factor of a segment.

    Attributes:
        kind: what its entries are.
        size: their number.
        atom: the channels.
        stride: how many rows or columns lie between neighbors; more than 1 for windows.
        offset: after a cyclic shift, a mirror maps row p to row n − 1 − offset − p, modulo n.
        link: the stack or the lookup that it belongs to, or which constant its entries are.
        slot: which axis of the stack it is.
        first: the first channel of the atom that occurs here; the other channels may be in other segments.
    """

    kind: str
    size: int
    atom: Atom | None = None
    stride: int = 1
    offset: int = 0
    link: Stack | Lookup | Constant | None = None
    slot: int = 0
    first: int = 0

    @property
    def is_slice(self) -> bool:
        """Whether these are only some channels of the atom; a graph has such factors, the algebra below has none."""
        return self.atom is not None and self.size < self.atom.size


Segment: TypeAlias = tuple[Factor, ...]
Axis: TypeAlias = tuple[Segment, ...]
Label: TypeAlias = tuple[Axis, ...]


def fresh(size: int) -> Axis:
    """An axis of new channels; a single entry is fixed."""
    return ((Factor("c", size, Atom(size)),),) if size > 1 else fixed(size)


def fixed(size: int) -> Axis:
    """An axis whose entries stay in place."""
    return ((Factor("f", size),),)


def constant(size: int, link: Constant | None = None) -> Axis:
    """An axis along which all entries are equal; equal to those of other axes with the same link."""
    return ((Factor("z", size, link=link or Constant()),),)


def is_constant(segment: Segment) -> bool:
    """Whether all entries of a segment are equal."""
    return all(f.kind == "z" for f in segment)


def with_own_constants(axis: Axis) -> Axis:
    """The same axis, whose constants are no longer taken to equal those of other tensors."""
    own: dict[Constant, Constant] = {}
    return tuple(
        tuple(
            replace(f, link=own.setdefault(f.link, Constant(f.link.counted))) if isinstance(f.link, Constant) else f
            for f in segment
        )
        for segment in axis
    )


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
    pieces: list[Axis] = field(default_factory=list)
    """What axes were split into."""
    meetings: list[tuple[Segment, Segment]] = field(default_factory=list)
    """Segments and the constants that they were added to, multiplied by, or contracted with."""
    phases: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    """For values that hold every n-th row or column, by id: axis → (n, the first)."""

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
                self.pin(parts, factor.atom.cut or "an inner factor of a flattened axis was split")
                parts = fixed(factor.size)
            return tuple(s for part in parts for s in self._resolved((*before, *part, *after)))
        return (joined(segment),)

    def product(self, axis: Axis) -> list[Axis]:
        """The axes that an axis was divided into, which may have several segments each."""
        atom = axis[0][0].atom if len(axis) == len(axis[0]) == 1 else None
        if atom is None or atom.parts is None:
            return [axis]
        if len(atom.parts) == 1 and all(f.atom is not None for f in atom.parts[0]):
            return [a for f in atom.parts[0] for a in self.product(((f,),))]
        return [self.resolve(axis)]

    def atoms(self, axis: Axis) -> Iterator[Atom]:
        """Atoms that occur in an axis, or in the streams of a stack."""
        for segment in self.resolve(axis):
            for factor in segment:
                if factor.atom is not None:
                    yield factor.atom
                elif isinstance(factor.link, Stack):
                    for member in factor.link.members:
                        for part in member if factor.kind == "s" else [member[factor.slot]]:
                            yield from self.atoms(part)

    def outer(self, atom: Atom) -> Atom | None:
        """The channels that each contain a copy of an atom, if they are known and unique."""
        outers = set()
        for o in atom.outers:
            axis = self.resolve(((Factor("c", o.size, o),),))
            outers.add(axis[0][0].atom if len(axis) == len(axis[0]) == 1 else None)
        return outers.pop() if len(outers) == 1 else None

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
        if left == right:
            return tuple(left)
        if is_stacked(tuple(left)) or is_stacked(tuple(right)):
            self.pin_all([tuple(left), tuple(right)], why)
            return fixed(extent(a))
        while left and right:
            left[:1], right[:1] = self.resolve((left[0],)), self.resolve((right[0],))
            s, t = left[0], right[0]
            if length(s) == length(t):
                left.pop(0), right.pop(0)
                out.append(self._unify_segments(s, t, why))
                continue
            big, small = (left, t) if length(s) > length(t) else (right, s)
            cut = self._cut(big[0], length(small), why)
            if cut is None:
                self.pin_all([tuple(left), tuple(right)], why)
                rest = extent(tuple(left))
                return (*self.resolve(tuple(out)), *fixed(rest))
            big[:1] = cut
        return self.resolve(tuple(out))

    def _unify_segments(self, s: Segment, t: Segment, why: str) -> Segment:
        if s == t:
            return s
        for segment, other in ((s, t), (t, s)):
            if is_constant(other):
                return self._meet(segment, other)
        for segment, other in ((s, t), (t, s)):
            if len(segment) == 1 and segment[0].atom is not None:
                if any(f.atom is segment[0].atom for f in other):
                    break
                self._replace(segment[0].atom, other)
                return other
        if [f.size for f in s] == [f.size for f in t]:
            return tuple(self._unify_factors(f, g, why) for f, g in zip(s, t, strict=True))
        self.pin_all([(s,), (t,)], why)
        return (Factor("f", length(s)),)

    def _meet(self, segment: Segment, constants: Segment) -> Segment:
        if is_constant(segment):
            counted = any(isinstance(f.link, Constant) and f.link.counted for f in (*segment, *constants))
            return constant(length(segment), Constant(counted))[0]
        self.meetings.append((segment, constants))
        return segment

    def _unify_factors(self, f: Factor, g: Factor, why: str) -> Factor:
        f, g = self.resolve(((f,),))[0][0], self.resolve(((g,),))[0][0]
        if f == g:
            return f
        for factor, other in ((f, g), (g, f)):
            if other.kind == "z":
                return self._meet((factor,), (other,))[0]
        if f.atom is not None:
            self._replace(f.atom, (g,))
            return g
        if g.atom is not None:
            self._replace(g.atom, (f,))
            return f
        if "f" in (f.kind, g.kind):
            return g if f.kind == "f" else f
        shifted = f.kind == g.kind and f.offset != g.offset
        self.lost[f"{why}: {'rows meet shifted rows' if shifted else 'rows meet columns'}"] = None
        return Factor("f", f.size)

    def _replace(self, atom: Atom, segment: Segment) -> None:
        atom.parts = (segment,)
        if len(segment) == 1 and segment[0].atom is not None:
            segment[0].atom.outers += atom.outers

    def _cut(self, segment: Segment, count: int, why: str) -> list[Segment] | None:
        """Split a segment into its first ``count`` entries and the rest; None if that is impossible."""
        head, rest = segment[0], segment[1:]
        inner = prod(f.size for f in rest)
        first, remainder = divmod(count, inner)
        if remainder or not 0 < first < head.size or head.kind in "hwtsx":
            return None
        if head.atom is not None:
            parts = [fresh(n)[0] for n in (first, head.size - first)]
            head.atom.parts, head.atom.cut = tuple(parts), why
        else:
            if head.kind == "i":
                self.colors_cut = True
            kind = "f" if head.kind == "i" else head.kind
            parts = [(replace(head, kind=kind, size=n),) for n in (first, head.size - first)]
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
                    parts = self._cut(rest[0], count, why)
                    if parts is None:
                        self.pin(tuple(rest), why)
                        left = [count, *counts[position + 1 :]]
                        tail = [fixed(n) for n in left]
                        return [*pieces, (*piece, *tail[0]), *tail[1:]]
                    rest[:1] = parts
                count -= length(rest[0])
                piece.append(rest.pop(0))
            pieces.append(self.resolve(tuple(piece)))
        self.pieces += pieces
        return pieces

    def merge(self, axes: list[Axis], why: str) -> Axis:
        """Flatten several axes into one."""
        axes = [self.resolve(a) for a in axes]
        axes = [a for a in axes if extent(a) > 1] or [fixed(1)]
        if len(axes) == 1:
            return axes[0]
        if any(len(a) > 1 for a in axes[1:]) or any(is_stacked(a) for a in axes):
            self.pin_all(axes, why)
            return fixed(prod(extent(a) for a in axes))
        tail = tuple(f for a in axes[1:] for f in a[0])
        return tuple(joined((*segment, *tail)) for segment in axes[0])

    def unflatten(self, axis: Axis, sizes: list[int], why: str) -> list[Axis]:
        """Split one axis into a product of several."""
        if sum(n > 1 for n in sizes) <= 1:
            return [axis if n > 1 else fixed(1) for n in sizes]
        axis = self.resolve(axis)
        parts = self._divided(list(axis[0]), sizes, why) if len(axis) == 1 else self._unstacked(axis, sizes, why)
        if parts is not None:
            return parts
        self.pin(axis, why)
        return [fixed(n) for n in sizes]

    def _divided(self, factors: list[Factor], sizes: list[int], why: str) -> list[Axis] | None:
        """The axes of these sizes whose product is a segment; None if a factor cannot be divided."""
        out: list[Axis] = []
        for n in sizes:
            taken: list[Factor] = []
            while n > 1 and factors:
                if n % factors[0].size == 0:
                    n //= factors[0].size
                    taken.append(factors.pop(0))
                    continue
                pair = self._division(factors[0], n, why)
                if pair is None:
                    return None
                taken.append(pair[0])
                factors[0], n = pair[1], 1
            if n > 1:
                return None
            out.append((tuple(taken) or (Factor("f", 1),),))
        return out

    def _division(self, factor: Factor, count: int, why: str) -> tuple[Factor, Factor] | None:
        """A factor as the product of one of size ``count`` and another."""
        rest = factor.size // count
        if factor.size % count or factor.kind in "itsx":
            return None
        if factor.atom is not None:
            first, second = Atom(count), Atom(rest)
            second.outers, first.divided = [first], (factor.atom, second)
            factor.atom.parts = ((Factor("c", count, first), Factor("c", rest, second)),)
            return Factor("c", count, first), Factor("c", rest, second)
        if factor.kind in "hw" and factor.offset % rest:
            where = why.partition(": ")[0]
            self.lost[f"{where}: a mirror of the shifted rows does not map windows of {rest} to windows"] = None
            return Factor("f", count), Factor("f", rest)
        windows = Factor(factor.kind, count, None, factor.stride * rest, factor.offset // rest, factor.link)
        return windows, Factor(factor.kind, rest, None, factor.stride, link=factor.link)

    def _unstacked(self, axis: Axis, sizes: list[int], why: str) -> list[Axis] | None:
        """Several segments as a product: those that end alike, or streams of equal size."""
        inner = prod(sizes[1:])
        tail: list[Factor] = []
        while prod(f.size for f in tail) < inner and all(len(s) > len(tail) for s in axis):
            factor = axis[0][-1 - len(tail)]
            if any(s[-1 - len(tail)] != factor for s in axis):
                break
            tail.insert(0, factor)
        if prod(f.size for f in tail) == inner:
            leading = tuple(s[: len(s) - len(tail)] or (Factor("f", 1),) for s in axis)
            rest = self._divided(tail, sizes[1:], why)
            return [leading, *rest] if rest is not None else None
        if any(f.kind in "hwsx" for s in axis for f in s):
            return None
        pieces = self.cut(axis, [inner] * sizes[0], why)
        stack = Stack([self.unflatten(p, sizes[1:], why) for p in pieces])
        return self._stacked(stack, sizes)

    def _stacked(self, stack: Stack, sizes: list[int]) -> list[Axis]:
        parts = [((Factor("x", n, link=stack, slot=j),),) if n > 1 else fixed(1) for j, n in enumerate(sizes[1:])]
        return [((Factor("s", sizes[0], link=stack),),), *parts]

    def separate(self, axis: Axis) -> None:
        """Give each channel of an axis its own copy of what is inside it, before one of them is taken.

        Queries, keys and values are first divided as three channels that contain the same atoms. Once they are taken
        apart, each of them has atoms of its own.
        """
        axis = self.resolve(axis)
        first = axis[0][0].atom if len(axis) == len(axis[0]) == 1 else None
        if first is None or first.divided is None:
            return
        whole, rest = first.divided
        inside = self.resolve(((Factor("c", rest.size, rest),),))
        leaves = list(dict.fromkeys(self.atoms(inside)))
        copies = [{leaf: Atom(leaf.size) for leaf in leaves} for _ in range(first.size)]
        for copy in copies:
            for leaf, atom in copy.items():
                atom.outers = [copy[o] for o in leaf.outers if o in copy]

        def copied(segment: Segment, copy: dict[Atom, Atom]) -> Segment:
            return tuple(Factor("c", f.size, copy[f.atom]) if f.atom is not None else f for f in segment)

        whole.parts = tuple(copied(segment, copy) for copy in copies for segment in inside)
        stack = Stack([[((Factor("c", atom.size, atom),),) for atom in copy.values()] for copy in copies])
        first.parts = ((Factor("s", first.size, link=stack),),)
        for j, leaf in enumerate(leaves):
            leaf.parts = ((Factor("x", leaf.size, link=stack, slot=j),),)

    def member(self, label: Label, dim: int, k: int) -> Label:
        """The label of entry k along an axis that is a stack."""
        stack = self.resolve(label[dim])[0][0].link

        def taken(factor: Factor) -> Axis:
            return stack.members[k][factor.slot] if factor.link is stack and isinstance(stack, Stack) else ((factor,),)

        out = []
        for j, axis in enumerate(label):
            if j == dim:
                continue
            segments: list[Segment] = []
            for segment in self.resolve(axis):
                parts = [self.resolve(taken(f)) for f in segment]
                if any(len(p) > 1 for p in parts[1:]):
                    self.pin_all(parts, "streams that are taken apart")
                    parts = [fixed(extent(p)) for p in parts]
                segments += [(*s, *(f for p in parts[1:] for f in p[0])) for s in parts[0]]
            out.append(tuple(segments))
        return tuple(out)


def is_stacked(axis: Axis) -> bool:
    """Whether an axis belongs to a stack."""
    return any(f.kind in "sx" for segment in axis for f in segment)


def joined(segment: Segment) -> Segment:
    """A segment without single entries, and with windows and the rows inside them as rows again."""
    if len(segment) == 1:
        return segment
    out: list[Factor] = []
    for f in segment:
        if f.size == 1:
            continue
        last = out[-1] if out else None
        inside = last is not None and f.kind in "hw" and last.kind == f.kind and last.stride == f.stride * f.size
        if last is not None and inside and not f.offset:
            out[-1] = Factor(f.kind, last.size * f.size, None, f.stride, last.offset * f.size)
        else:
            out.append(f)
    return tuple(out) or (Factor("f", 1),)
