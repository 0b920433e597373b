"""The kernels tab: all equivariant kernels for a group, two field types and a size."""

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
"""The largest n of C_n and D_n. Larger ones take minutes and have too many kernels to look at."""

LARGEST_SIZE = 15
_MAX_LETTERS = 200
_MAX_NUMBER = 64
_MAX_CHANNELS = 64
_MAX_KERNELS = 120
_MAX_NUMBERS = 1_500_000  # in all pictures of a page
_CALLER = "kernels"


def kernel_answer(group: str, in_type: str, out_type: str, size: int) -> dict[str, Any]:
    """The basis of all equivariant ``size`` × ``size`` filters, as numbers and pictures.

    Pictures are in the format of :func:`signed_pixels`, all on one scale. There are at most 120 of them, and fewer if
    they are large, taken evenly from the double cosets.

    >>> kernel_answer("D4", "trivial", "regular", 3)["dimension"]
    9
    """
    if not 1 <= size <= LARGEST_SIZE:
        raise InputError(_CALLER, expected=f"a kernel size from 1 to {LARGEST_SIZE}", got=str(size))
    moving = _plane_group(group)
    space = Grid2d(moving)
    fields = [space.field(_representation(moving, text)) for text in (in_type, out_type)]
    for field in fields:
        if field.dim > _MAX_CHANNELS:
            raise SizeLimitError(
                _CALLER,
                expected=f"field types of at most {_MAX_CHANNELS} channels, to stay readable",
                got=f"{field.dim} channels of {field.rho.name}",
                fix="Use fewer copies, which repeat the same kernels. 'intertwine kernels' has no such limit.",
            )
    basis = solve(*fields, kernel_size=size)
    sheet, cosets = sheet_for(basis), list[DoubleCoset | Shell](basis.double_cosets)
    rows, columns = round(sheet.rows.length), round(sheet.columns.length)
    shown = share([coset.dim for coset in cosets], min(_MAX_KERNELS, max(1, _MAX_NUMBERS // (rows * columns))))
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
    """Suggested representations of a group, in the notation of :func:`intertwine.groups.parse_representation`.

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
            _CALLER,
            expected=f"a group of the plane: C1 to C{LARGEST_GROUP}, D1 to D{LARGEST_GROUP}, SO(2) or O(2)",
            got=repr(name),
            fix="'intertwine kernels' takes any group.",
        )
    group = parse(name)
    if not isinstance(group, FiniteGroup | CompactLieGroup):
        raise InputError(_CALLER, expected="a group that fixes a point of the plane", got=group.name)
    return group


def _representation(group: FiniteGroup | CompactLieGroup, text: str) -> Representation:
    numbers = [int(digits) for digits in re.findall(r"\d{1,9}", text)]
    if len(text) > _MAX_LETTERS or max(numbers, default=0) > _MAX_NUMBER:
        raise SizeLimitError(
            _CALLER,
            expected=f"a representation of at most {_MAX_LETTERS} letters, with numbers up to {_MAX_NUMBER}",
            got=describe(text),
            fix="'intertwine kernels' has no such limits.",
        )
    return parse_representation(group, text)
