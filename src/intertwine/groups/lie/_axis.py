"""SO(2) and O(2) acting on 3-space about an axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from ...errors import InputError
from . import _rotation_maps as maps
from ._representation import LieRepresentation

if TYPE_CHECKING:
    from ._lie_group import LieGroup

Axis = Literal["x", "y", "z"] | Sequence[float]
Frame = tuple[tuple[float, ...], ...]
_HOW = 'For example O2().about_axis("z", reflections="half turns").'


def about_axis(group: LieGroup, axis: Axis, reflections: str | None) -> LieRepresentation:
    """The action by rotations about the axis, counterclockwise as seen from its tip."""
    caller = f"{group.name}.about_axis"
    if reflections not in (None, "mirrors", "half turns"):
        raise InputError(caller, expected="reflections 'mirrors' or 'half turns'", got=repr(reflections), fix=_HOW)
    frame = _frame(axis, caller)
    tip = axis if isinstance(axis, str) else f"({', '.join(f'{row[2]:.9g}' for row in frame)})"
    return LieRepresentation(
        group,
        partial(_about, frame, reflections == "half turns"),
        dim=3,
        degree=1,
        name=f"about {tip}" + (f" with {reflections}" if reflections else ""),
        is_orthogonal=True,
    )


def _frame(axis: Axis, caller: str) -> Frame:
    """The rows of a rotation that takes the z axis to this one; a permutation matrix if possible."""
    vectors = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
    try:
        a = torch.tensor(vectors.get(axis, ()) if isinstance(axis, str) else axis, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError):
        a = torch.zeros(0)
    length = float(torch.linalg.vector_norm(a)) if a.shape == (3,) else 0.0
    if not 0 < length < float("inf"):
        raise InputError(
            caller, expected="an axis: 'x', 'y', 'z' or three numbers, not all zero", got=repr(axis), fix=_HOW
        )
    a = a / length
    u = torch.zeros_like(a)
    u[(int(a.abs().argmax()) + 1) % 3] = 1.0
    u = u - (u @ a) * a
    u = u / torch.linalg.vector_norm(u)
    rows = torch.stack([u, torch.linalg.cross(a, u), a], dim=1) + 0.0
    return tuple(tuple(row) for row in rows.tolist())


def _about(frame: Frame, turns_over: bool, g: Tensor) -> Tensor:
    turn = maps.embed_corner(g, 3)
    if turns_over:
        det = g[..., 0, 0] * g[..., 1, 1] - g[..., 0, 1] * g[..., 1, 0]
        signs = torch.stack([torch.ones_like(det), torch.ones_like(det), det], -1)
        turn = turn * signs[..., None, :]
    f = torch.tensor(frame, dtype=g.dtype, device=g.device)
    return f @ turn @ f.mT
