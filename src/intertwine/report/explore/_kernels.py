"""The room of kernels: a group, two field types and a size; all kernels that commute."""

from __future__ import annotations

import re
from typing import Any

from ..._checked import describe
from ...errors import InputError, SizeLimitError
from ...groups import CompactLieGroup, FiniteGroup, Representation, parse, parse_representation
from ...kernels import DoubleCoset, Shell, SteerableKernelBasis, solve
from ...spaces import Grid2d
from ..draw._kernel_sheet import chosen_kernels, share, sheet_for
from ..draw._pixels import signed_pixels

GROUPS = (*(f"{kind}{n}" for kind in "CD" for n in range(1, 9)), "SO(2)", "O(2)")
LARGEST_GROUP = 16
"""The largest n of C_n and D_n. Larger ones take minutes and have more kernels than anybody can read."""

LARGEST_SIZE = 15
_MOST_LETTERS = 200
_LARGEST_NUMBER = 64
_MOST_CHANNELS = 64
_MOST_KERNELS = 120
_MOST_NUMBERS = 1_500_000  # in all pictures together: what a page draws at once
_WHO = "kernels"


def kernel_answer(group: str, in_type: str, out_type: str, size: int) -> dict[str, Any]:
    """The basis of all equivariant ``size`` × ``size`` filters, as numbers and as pictures.

    Pictures are given as by :func:`signed_pixels`, all on one scale. At most 120 kernels are drawn, fewer where each is
    large, evenly from the double cosets.

    >>> kernel_answer("D4", "trivial", "regular", 3)["dimension"]
    9
    """
    if not 1 <= size <= LARGEST_SIZE:
        raise InputError(_WHO, expected=f"a kernel size from 1 to {LARGEST_SIZE}", got=str(size))
    moving = _plane_group(group)
    space = Grid2d(moving)
    fields = [space.field(_representation(moving, text)) for text in (in_type, out_type)]
    for field in fields:
        if field.dim > _MOST_CHANNELS:
            raise SizeLimitError(
                _WHO,
                expected=f"field types of at most {_MOST_CHANNELS} channels, more than which nobody can read",
                got=f"{field.dim} channels of {field.rho.name}",
                fix="Use fewer copies: they repeat the same kernels. 'intertwine kernels' has no such bound.",
            )
    basis = solve(*fields, kernel_size=size)
    sheet, cosets = sheet_for(basis), list[DoubleCoset | Shell](basis.double_cosets)
    rows, columns = round(sheet.rows.length), round(sheet.columns.length)
    shown = share([coset.dim for coset in cosets], min(_MOST_KERNELS, max(1, _MOST_NUMBERS // (rows * columns))))
    pictures = chosen_kernels(basis, sheet, shown)
    top = max((float(values.abs().max()) for orbit in pictures for values in orbit), default=0.0)
    return {
        "title": f"{sheet.heading}: {fields[0].rho.name} → {fields[1].rho.name}",
        "group": moving.name,
        "dimension": basis.dim,
        "mackey": basis.mackey_dim,
        "residual": basis.residual,
        "exact": not isinstance(basis, SteerableKernelBasis),
        "channels": [field.dim for field in fields],
        "size": size,
        "rows": rows,
        "columns": columns,
        "largest": top,
        "drawn": sum(shown),
        "reading": sheet.reading,
        "orbits": [
            {
                "title": sheet.where(coset),
                "detail": sheet.detail(coset),
                "dimension": coset.dim,
                "kernels": [signed_pixels(values, top) for values in orbit],
            }
            for coset, orbit in zip(cosets, pictures, strict=True)
            if coset.dim
        ],
    }


def representation_names(group: str) -> list[str]:
    """Representations of a group to choose from, as :func:`intertwine.groups.parse_representation` reads them.

    >>> representation_names("C4")
    ['trivial', 'regular', 'standard', 'irrep(1)', 'irrep(2)', '2*trivial + regular']
    """
    moving = _plane_group(group)
    if not isinstance(moving, FiniteGroup):
        return ["trivial", "standard", "irrep1", "irrep2", "irrep3", "2*trivial + irrep1"]
    irreps = [rho.name for rho in moving.irreps[1:]]
    return ["trivial", "regular", "standard", *irreps, "2*trivial + regular"]


def _plane_group(name: str) -> FiniteGroup | CompactLieGroup:
    plain = re.fullmatch(r"[CD]([1-9]\d?)", name.strip())
    if not (plain and int(plain[1]) <= LARGEST_GROUP) and name.strip() not in ("SO(2)", "O(2)"):
        raise InputError(
            _WHO,
            expected=f"a group of the plane: C1 to C{LARGEST_GROUP}, D1 to D{LARGEST_GROUP}, SO(2) or O(2)",
            got=repr(name),
            fix="'intertwine kernels' takes any group.",
        )
    group = parse(name)
    if not isinstance(group, FiniteGroup | CompactLieGroup):
        raise InputError(_WHO, expected="a group that fixes a point of the plane", got=group.name)
    return group


def _representation(group: FiniteGroup | CompactLieGroup, text: str) -> Representation:
    numbers = [int(digits) for digits in re.findall(r"\d{1,9}", text)]
    if len(text) > _MOST_LETTERS or max(numbers, default=0) > _LARGEST_NUMBER:
        raise SizeLimitError(
            _WHO,
            expected=f"a representation of at most {_MOST_LETTERS} letters, with numbers up to {_LARGEST_NUMBER}",
            got=describe(text),
            fix="'intertwine kernels' has no such bounds.",
        )
    return parse_representation(group, text)
