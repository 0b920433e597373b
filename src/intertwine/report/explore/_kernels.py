"""The kernels tab: all equivariant kernels for a group, two field types and a size."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from ..._checked import describe
from ...errors import EmptyKernelSpaceError, InputError, SizeLimitError
from ...groups import CompactLieGroup, Element, FiniteGroup, Representation, parse, parse_representation
from ...kernels import DoubleCoset, LatticeKernelBasis, Shell, SteerableKernelBasis, solve
from ...spaces import FieldAction, FieldType, Grid2d, Space
from ..draw._kernel_sheet import Sheet, chosen_kernels, share, sheet_for
from ..draw._pixels import gray_pixels, signed_pixels
from ._pictures import DEFAULT, SIDE, digit_picture

GROUPS = (*(f"{kind}{n}" for kind in "CD" for n in range(1, 9)), "SO(2)", "O(2)")
LARGEST_GROUP = 16
"""The largest n of C_n and D_n. Larger ones take minutes and have too many kernels to look at."""

LARGEST_SIZE = 15
_MAX_LETTERS = 200
_MAX_NUMBER = 64
_MAX_CHANNELS = 64
_MAX_KERNELS = 120
_MAX_NUMBERS = 1_500_000  # in all pictures of a page
_MAX_MAPS = 16  # output channels that are drawn
_FIELD_SIZES = (5, 9, 13)  # of the filter that makes an input field from a picture: the first that is enough
_CALLER = "kernels"


@dataclass(frozen=True)
class _Solution:
    """A basis, and its kernels as they are drawn: per double coset, on one scale."""

    basis: LatticeKernelBasis | SteerableKernelBasis
    sheet: Sheet
    pictures: list[list[Tensor]]
    top: float


@lru_cache(maxsize=4)
def _solved(group: str, in_type: str, out_type: str, size: int) -> _Solution:
    """At most 120 kernels are drawn, and fewer if they are large, taken evenly from the double cosets."""
    if not 1 <= size <= LARGEST_SIZE:
        raise InputError(_CALLER, expected=f"a kernel size from 1 to {LARGEST_SIZE}", got=str(size))
    moving = _plane_group(group)
    space = Grid2d(moving)
    source, target = (space.field(_representation(moving, text)) for text in (in_type, out_type))
    for field in (source, target):
        if field.dim > _MAX_CHANNELS:
            raise SizeLimitError(
                _CALLER,
                expected=f"field types of at most {_MAX_CHANNELS} channels, to stay readable",
                got=f"{field.dim} channels of {field.rho.name}",
                fix="Use fewer copies, which repeat the same kernels. 'intertwine kernels' has no such limit.",
            )
    basis = _plane_kernels(source, target, size)
    sheet = sheet_for(basis)
    room = max(1, _MAX_NUMBERS // round(sheet.rows.length * sheet.columns.length))
    pictures = chosen_kernels(
        basis, sheet, share([coset.dim for coset in basis.double_cosets], min(_MAX_KERNELS, room))
    )
    top = max((float(values.abs().max()) for orbit in pictures for values in orbit), default=0.0)
    return _Solution(basis, sheet, pictures, top)


def _plane_kernels(in_type: FieldType, out_type: FieldType, size: int) -> LatticeKernelBasis | SteerableKernelBasis:
    basis = solve(in_type, out_type, kernel_size=size)
    if not isinstance(basis, LatticeKernelBasis | SteerableKernelBasis):
        raise InputError(_CALLER, expected="filters on the square lattice", got=type(basis).__name__)
    return basis


def kernel_answer(group: str, in_type: str, out_type: str, size: int) -> dict[str, Any]:
    """The basis of all equivariant ``size`` × ``size`` filters, as numbers and pictures.

    Pictures are in the format of :func:`signed_pixels`, all on one scale.

    >>> kernel_answer("D4", "trivial", "regular", 3)["dimension"]
    9
    """
    solution = _solved(group, in_type, out_type, size)
    basis, sheet = solution.basis, solution.sheet
    fields = (basis.in_type, basis.out_type)
    cosets = list[DoubleCoset | Shell](basis.double_cosets)
    return {
        "title": f"{sheet.heading}: {fields[0].rho.name} → {fields[1].rho.name}",
        "group": basis.group.name,
        "dimension": basis.dim,
        "mackey": basis.mackey_dim,
        "residual": basis.residual,
        "exact": not isinstance(basis, SteerableKernelBasis),
        "channels": [field.dim for field in fields],
        "size": size,
        "rows": round(sheet.rows.length),
        "columns": round(sheet.columns.length),
        "largest": solution.top,
        "drawn": sum(map(len, solution.pictures)),
        "reading": sheet.reading,
        "orbits": [
            {
                "title": sheet.where(coset),
                "detail": sheet.detail(coset),
                "dimension": coset.dim,
                "kernels": [signed_pixels(values, solution.top) for values in orbit],
            }
            for coset, orbit in zip(cosets, solution.pictures, strict=True)
            if coset.dim
        ],
    }


def applied_kernel(
    group: str, in_type: str, out_type: str, size: int, *, kernel: int | None = None, digit: int = DEFAULT
) -> dict[str, Any]:
    """A kernel applied to a picture and to the moved picture, beside the moved output.

    The last two agree, which is what makes the kernel equivariant. If the input field is not made of scalars, a fixed
    equivariant filter makes such a field from the picture.

    Args:
        group: the group, as in :func:`kernel_answer`.
        in_type: the input field.
        out_type: the output field.
        size: the kernel size.
        kernel: the number of a drawn kernel; None for a fixed random mix of all of them.
        digit: the digit in the picture.

    >>> applied_kernel("C4", "trivial", "regular", 3)["error"] < 1e-12
    True
    """
    solution = _solved(group, in_type, out_type, size)
    basis = solution.basis
    drawn = [values for orbit in solution.pictures for values in orbit]
    if not drawn or (kernel is not None and not 0 <= kernel < len(drawn)):
        raise InputError(
            _CALLER, expected=f"a kernel from 0 to {len(drawn) - 1}" if drawn else "a kernel", got=f"{kernel}"
        )
    values = drawn[kernel] if kernel is not None else _mixed(torch.stack(drawn))
    filters = torch.einsum("aybx->abyx", values.reshape(basis.out_type.dim, size, basis.in_type.dim, size))
    picture = digit_picture(digit).double()[None, None]
    fields = _as_field(picture, basis.in_type)
    # Moved by a turn that maps pixels to pixels, if the group has one.
    g, how, exact = _move(basis.in_type.space)
    scalars, source, target = (
        FieldAction.of(field, padding="zeros")
        for field in (basis.in_type.space.field(basis.group.trivial), basis.in_type, basis.out_type)
    )
    output, after = (conv2d(x, filters, padding=size // 2)[0] for x in (fields, source.move(g, fields)))
    moved = target.move(g, output[None])[0]
    largest = float(torch.stack([output, after, moved]).abs().max())
    return {
        "side": SIDE,
        "out_side": output.shape[-1],
        "rows": values.shape[0],
        "columns": values.shape[1],
        "kernel": signed_pixels(values, float(values.abs().max())),
        "how": how,
        "exact": exact,
        "scalars": basis.in_type.is_trivial,
        "channels": len(output),
        "picture": gray_pixels(picture[0, 0]),
        "moved_picture": gray_pixels(scalars.move(g, picture)[0, 0]),
        "output": [signed_pixels(each, largest) for each in output[:_MAX_MAPS]],
        "output_of_moved": [signed_pixels(each, largest) for each in after[:_MAX_MAPS]],
        "moved_output": [signed_pixels(each, largest) for each in moved[:_MAX_MAPS]],
        "largest": largest,
        "error": float((after - moved).abs().max()) / (largest or 1.0),
    }


def _mixed(kernels: Tensor) -> Tensor:
    """A fixed random combination."""
    weights = torch.randn(len(kernels), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.tensordot(weights, kernels, 1)


def _as_field(picture: Tensor, kind: FieldType) -> Tensor:
    """The picture ``(1, 1, n, n)`` in every channel of a field of scalars; other fields are made by a filter."""
    if kind.is_trivial:
        return picture.expand(1, kind.dim, *picture.shape[2:])
    for size in _FIELD_SIZES:
        with suppress(EmptyKernelSpaceError):
            basis = _plane_kernels(kind.space.field(kind.rho.group.trivial), kind, size)
            filters = _mixed(torch.stack([basis.filters(kappa) for kappa in basis.on_cosets()]))
            return conv2d(picture, filters, padding=size // 2)
    raise InputError(
        _CALLER,
        expected="an input field that an equivariant filter can make from a picture",
        got=f"{kind.rho.name}, which needs filters larger than {_FIELD_SIZES[-1]} x {_FIELD_SIZES[-1]}",
    )


def _move(space: Space) -> tuple[Element, str, bool]:
    """An element of the group to move pictures by, in words, and whether it maps pixels to pixels.

    Such elements come first, among them turns, among them the smallest.
    """
    if not isinstance(space, Grid2d):
        raise InputError(_CALLER, expected="the plane", got=space.name)
    group = space.stabilizer
    candidates = [*space.lattice_elements, *(range(group.order) if isinstance(group, FiniteGroup) else ())]

    def rank(g: Element) -> tuple[bool, bool, bool, float]:
        m = space.action(g)
        angle = math.degrees(math.atan2(float(m[1, 0]), float(m[0, 0]))) % 360
        mirrors = bool(torch.linalg.det(m) < 0)
        stays = bool(torch.allclose(m, torch.eye(2, dtype=m.dtype)))
        return stays, not space.preserves_lattice(g), mirrors, round(angle, 6)

    g = min(candidates, key=rank)
    stays, inexact, mirrors, angle = rank(g)
    return g, "left as it is" if stays else "mirrored" if mirrors else f"turned by {angle:.4g}°", not inexact


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
