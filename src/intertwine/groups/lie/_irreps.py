"""The irreps of the rotation groups as polynomials in the entries of the group element."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...errors import InputError
from ..special._checks import require_whole
from ..special._wigner import wigner_d
from ._representation import LieRepresentation

if TYPE_CHECKING:
    from ._lie_group import LieGroup

_CACHE: dict[tuple[str, str], LieRepresentation] = {}


def so2_irrep(group: LieGroup, m: int) -> LieRepresentation:
    """Rotation by mθ."""
    require_whole(m, caller=f"{group.name}.irrep", name="m")
    if m == 0:
        return trivial(group)
    return _irrep(group, partial(_turn, m), dim=2, degree=m, name=f"irrep({m})")


def o2_irrep(group: LieGroup, m: int, parity: int | None) -> LieRepresentation:
    """Rotation by mθ with reflection diag(1, -1). For m = 0: trivial, or the determinant."""
    require_whole(m, caller=f"{group.name}.irrep", name="m")
    if m > 0:
        if parity is not None:
            raise InputError(
                f"{group.name}.irrep",
                expected=f"no parity for m = {m}",
                got=repr(parity),
                fix="For m ≥ 1, both parities are the same irrep, up to a change of basis.",
            )
        return _irrep(group, partial(_turn_or_mirror, m), dim=2, degree=m, name=f"irrep({m})")
    if _sign(parity, 1, caller=f"{group.name}.irrep") == 1:
        return trivial(group)
    return _irrep(group, _determinant, dim=1, degree=0, name="irrep(0, -1)")


def so3_irrep(group: LieGroup, l: int) -> LieRepresentation:
    """The real Wigner matrices of degree l."""
    require_whole(l, caller=f"{group.name}.irrep", name="l")
    if l == 0:
        return trivial(group)
    return _irrep(group, partial(wigner_d, l), dim=2 * l + 1, degree=l, name=f"irrep({l})")


def o3_irrep(group: LieGroup, l: int, parity: int | None) -> LieRepresentation:
    """The real Wigner matrices of degree l; the inversion -1 acts by the parity."""
    require_whole(l, caller=f"{group.name}.irrep", name="l")
    natural = (-1) ** l
    sign = _sign(parity, natural, caller=f"{group.name}.irrep")
    if l == 0 and sign == 1:
        return trivial(group)
    function = partial(wigner_d, l) if sign == natural else partial(_pseudo_wigner_d, l)
    return _irrep(group, function, dim=2 * l + 1, degree=l, name=f"irrep({l}, {sign:+d})")


def trivial(group: LieGroup) -> LieRepresentation:
    """The one-dimensional representation in which every element acts as the identity."""
    return _irrep(group, _one, dim=1, degree=0, name="trivial")


def _irrep(
    group: LieGroup, function: Callable[[Tensor], Tensor], *, dim: int, degree: int, name: str
) -> LieRepresentation:
    key = group.digest, name
    if key not in _CACHE:  # keeping the object means its digest is computed only once
        _CACHE[key] = LieRepresentation(group, function, dim=dim, degree=degree, name=name, is_orthogonal=True)
    return _CACHE[key]


def _sign(parity: int | None, default: int, *, caller: str) -> int:
    if parity is None:
        return default
    if isinstance(parity, bool) or parity not in (1, -1):
        raise InputError(caller, expected="parity +1 or -1", got=repr(parity))
    return parity


def _one(g: Tensor) -> Tensor:
    return torch.ones_like(g[..., :1, :1])


def _determinant(g: Tensor) -> Tensor:
    return (g[..., 0, 0] * g[..., 1, 1] - g[..., 0, 1] * g[..., 1, 0])[..., None, None]


def _power(m: int, g: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of mθ as the power (cos θ + i sin θ)^m, by repeated squaring."""
    a, b = g[..., 0, 0], g[..., 1, 0]
    c, s = torch.ones_like(a), torch.zeros_like(a)
    while m:
        if m & 1:
            c, s = a * c - b * s, b * c + a * s
        a, b = a * a - b * b, 2 * a * b
        m >>= 1
    return c, s


def _turn(m: int, g: Tensor) -> Tensor:
    c, s = _power(m, g)
    return torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)


def _turn_or_mirror(m: int, g: Tensor) -> Tensor:
    c, s = _power(m, g)
    det = _determinant(g)[..., 0, 0]
    return torch.stack([torch.stack([c, -det * s], -1), torch.stack([s, det * c], -1)], -2)


def _pseudo_wigner_d(l: int, g: Tensor) -> Tensor:
    det: Tensor = torch.linalg.det(g)
    return det[..., None, None] * wigner_d(l, g)
