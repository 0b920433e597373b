"""Channels of one group that lie apart, such as those that meet the zeros before and after a padded stream.

A shortcut that pads its channels with zeros on both sides divides the stream it is added to into three: channels that
meet zeros, the channels of the shortcut, and channels that meet zeros again. The tracer cuts the stream at these
places. But any permutation of the first and the last channels together preserves the function. They are one group, and
what was an atom is a slice of the atom of that group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor

from ._axes import Atom, Axes, Axis, Constant, Factor, Label, Segment, extent, is_stacked, length

Slices: TypeAlias = Mapping[Atom, Factor]
"""For each atom that has become part of a larger one, the slice that stands for it."""


def exchangeable(axes: Axes, places: Sequence[Axis]) -> list[list[Atom]]:
    """Sets of atoms whose channels may be exchanged with each other.

    These are atoms that lie on the same axes wherever they occur, with the same factors beside them, and meet the same
    constants. Atoms inside a product of several atoms, or inside stacked streams, are left out.

    Args:
        axes: the algebra that the axes are from.
        places: all axes of parameters and values, and all pieces that axes were split into.
    """
    neighbors = {f.atom for axis in places if len(axis) > 1 for segment in axis for f in segment} - {None}
    if not neighbors:
        return []
    occurrences: dict[Atom, list[tuple[int, Segment]]] = defaultdict(list)
    excluded: set[Atom] = set()
    for number, axis in enumerate(places):
        if is_stacked(axis):
            excluded.update(axes.atoms(axis))
        for segment in axis:
            atoms = [f.atom for f in segment if f.atom is not None]
            if len(atoms) > 1:
                excluded.update(atoms)
            elif atoms and atoms[0] in neighbors:
                beside = tuple(Factor("c", 0) if f.atom is not None else f for f in segment)
                occurrences[atoms[0]].append((number, beside))
    constants = _constants(axes)
    alike: dict[object, list[Atom]] = defaultdict(list)
    for atom, where in occurrences.items():
        if atom not in excluded:
            alike[tuple(where), constants.get(atom, frozenset())].append(atom)
    return [atoms for atoms in alike.values() if len(atoms) > 1]


def _constants(axes: Axes) -> dict[Atom, frozenset[object]]:
    met: dict[Atom, set[object]] = defaultdict(set)
    for segment, constants in axes.meetings:
        for atom in axes.atoms((segment,)):
            met[atom].add(tuple(f.link for f in constants))
    return {atom: frozenset(links) for atom, links in met.items()}


def counted(axes: Axes) -> set[Atom]:
    """Atoms that meet constants whose number is part of the network's code."""
    return {
        atom
        for segment, constants in axes.meetings
        if any(isinstance(f.link, Constant) and f.link.counted for f in constants)
        for atom in axes.atoms((segment,))
    }


def slices_of(sets: Iterable[Sequence[Atom]]) -> dict[Atom, Factor]:
    """One atom for each set of atoms, and the slices of it that stand for them."""
    slices = {}
    for atoms in sets:
        whole, first = Atom(sum(a.size for a in atoms)), 0
        for atom in atoms:
            slices[atom] = Factor("c", atom.size, whole, first=first)
            first += atom.size
    return slices


def sliced(label: Label, slices: Slices) -> Label:
    """A label in terms of slices."""
    return tuple(
        tuple(tuple(slices.get(f.atom, f) if f.atom is not None else f for f in segment) for segment in axis)
        for axis in label
    )


def wholes(axis: Axis) -> list[tuple[Segment, Tensor]]:
    """For each segment, the segment with all channels of its atoms, and the places of its entries on the axis.

    The slices of an atom lie in different segments, for which the answer is the same.

    >>> atom = Atom(3)
    >>> axis = ((Factor("c", 2, atom),), (Factor("f", 4),), (Factor("c", 1, atom, first=2),))
    >>> [places.tolist() for _, places in wholes(axis)]
    [[0, 1, 6], [2, 3, 4, 5], [0, 1, 6]]
    """
    entries = torch.arange(extent(axis)).split([length(s) for s in axis])
    grids = [e.reshape([f.size for f in s]) for e, s in zip(entries, axis, strict=True)]
    if not any(f.is_slice for segment in axis for f in segment):
        return list(zip(axis, grids, strict=True))
    seen = Counter[Segment]()
    keys: list[tuple[Segment, int]] = []
    parts: dict[tuple[Segment, int], list[tuple[int, Tensor]]] = defaultdict(list)
    for segment, grid in zip(axis, grids, strict=True):
        whole = tuple(replace(f, size=f.atom.size, first=0) if f.atom is not None else f for f in segment)
        # An axis may hold the same channels several times, as after ``repeat``; the n-th slices belong together.
        keys.append((whole, seen[segment]))
        seen[segment] += 1
        parts[keys[-1]].append((sum(f.first for f in segment), grid))
    places = {}
    for (whole, number), together in parts.items():
        dim = next((k for k, f in enumerate(whole) if f.atom is not None), 0)
        ordered = [grid for _, grid in sorted(together, key=lambda part: part[0])]
        places[whole, number] = torch.cat(ordered, dim) if len(ordered) > 1 else ordered[0]
    return [(key[0], places[key]) for key in keys]


def runs(places: Tensor) -> tuple[tuple[int, int], ...]:
    """Places in order, as (start, size) of runs of consecutive ones.

    >>> runs(torch.tensor([0, 1, 2, 7, 8]))
    ((0, 3), (7, 2))
    """
    places = places.flatten()
    breaks = (places.diff() != 1).nonzero().flatten() + 1
    return tuple((int(run[0]), len(run)) for run in places.tensor_split(breaks))
