"""Positions of panels in a figure, in inches: rows of equal panels, grouped under headers.

We compute positions instead of leaving them to a layout engine: figures with 2 and with 25 panels get the same margins,
and texts never overlap.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

HEADER = 0.40
PANEL_TITLE = 0.19
GROUP_GAP = 0.30
_INCHES_PER_CHARACTER = 0.54 / 72  # times the font size: a wide average for a sans serif face


def text_width(text: str, size: float) -> float:
    """The width of the longest line in inches, an upper estimate for ordinary text."""
    return max(len(line) for line in text.splitlines() or [""]) * size * _INCHES_PER_CHARACTER


def wrapped(text: str, *, width: float, size: float) -> str:
    """The text broken into lines of at most ``width`` inches."""
    characters = max(20, int(width / (size * _INCHES_PER_CHARACTER)))
    return "\n".join(textwrap.fill(line, characters) for line in text.splitlines())


@dataclass(frozen=True)
class Group:
    """Panels under one header.

    Attributes:
        header: two short lines about what they have in common.
        panels: their number.
    """

    header: str
    panels: int


@dataclass(frozen=True)
class Chunk:
    """The part of a group in one row: panels ``first`` to ``first + panels - 1``, starting at ``left``."""

    group: int
    first: int
    panels: int
    left: float
    width: float


@dataclass(frozen=True)
class Layout:
    """Rows of chunks, and their total size."""

    rows: tuple[tuple[Chunk, ...], ...]
    width: float
    height: float


def arrange(groups: Sequence[Group], *, slot: float, row_height: float, header_size: float) -> Layout:
    """Arrange groups in rows that make the figure somewhat wider than high.

    Args:
        groups: the groups, in order.
        slot: width of a panel plus the space next to it.
        row_height: height of a row, including headers, titles and labels.
        header_size: font size of the headers.
    """
    headers = [text_width(group.header, header_size) for group in groups]
    narrowest = max([slot, *headers])
    if not groups:
        return Layout((), narrowest, row_height)
    widths = (narrowest + 0.25 * step for step in range(64))
    return min((_pack(groups, headers, slot, row_height, limit=width) for width in widths), key=_awkwardness)


def _awkwardness(layout: Layout) -> float:
    """The distance from a good aspect ratio, plus penalties for split groups and for empty space."""
    split = sum(chunk.first > 0 for row in layout.rows for chunk in row)
    used = sum(chunk.width for row in layout.rows for chunk in row)
    empty = 1 - used / (layout.width * len(layout.rows))
    return abs(math.log(layout.width / (1.4 * layout.height))) + 0.04 * split + 2 * empty


def _pack(groups: Sequence[Group], headers: list[float], slot: float, row_height: float, *, limit: float) -> Layout:
    rows: list[list[Chunk]] = [[]]
    left = 0.0
    for number, (group, header) in enumerate(zip(groups, headers, strict=True)):
        first = 0
        while first < group.panels:
            needed = max(header, (group.panels - first) * slot)
            room = limit - left
            # Start a new row for a group that would be split here but fits in a row of its own.
            if rows[-1] and (room < max(header, slot) or (needed > room and needed <= limit)):
                rows.append([])
                left, room = 0.0, limit
            count = min(group.panels - first, max(1, int(room / slot + 1e-9)))
            width = max(header, count * slot)
            rows[-1].append(Chunk(number, first, count, left, width))
            left += width + GROUP_GAP
            first += count
    width = max(row[-1].left + row[-1].width for row in rows)
    return Layout(tuple(tuple(row) for row in rows), width, row_height * len(rows))
