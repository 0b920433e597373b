"""The dimension of a space of intertwiners from linear equations, for groups without a Haar integral."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._numerics import LAW_TOLERANCE, RANK_TOLERANCE, require_memory
from ...errors import NumericalError


def intertwiner_count(x1: Tensor, x2: Tensor, *, caller: str) -> int:
    """The dimension of {A : x2[a] A = A x1[a] for all a}.

    Args:
        x1: ``(generators, d1, d1)``, the action of the Lie algebra on the domain.
        x2: ``(generators, d2, d2)``, the action on the codomain.
        caller: the name in error messages.

    >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]], dtype=torch.float64)
    >>> intertwiner_count(turn, turn, caller="example")
    2
    """
    d1, d2 = x1.shape[-1], x2.shape[-1]
    size = d1 * d2
    require_memory(
        3 * size**2,
        caller=f"{caller}.intertwining_number",
        what=f"{size} linear equations in as many unknowns",
        fix="Sum the numbers for the summands (rho.atoms) instead.",
    )
    normal = torch.zeros(size, size, dtype=torch.float64)
    eye1, eye2 = torch.eye(d1, dtype=torch.float64), torch.eye(d2, dtype=torch.float64)
    for a, b in zip(x1, x2, strict=True):
        equations = torch.kron(b, eye1) - torch.kron(eye2, a.T.contiguous())
        normal += equations.T @ equations
    values = torch.linalg.eigvalsh(normal)  # squares of the singular values
    scale = max(1.0, float(values[-1]))
    unclear = values[(values > LAW_TOLERANCE * scale) & (values < RANK_TOLERANCE * scale)]
    if len(unclear):
        raise NumericalError(
            f"{caller}.intertwining_number",
            expected="equations that are either clearly satisfied or clearly violated",
            got=f"a relative residual of {float(unclear[0] / scale) ** 0.5:.2g}",
            fix="The representations are ill-conditioned: rescale their bases.",
        )
    return int((values <= LAW_TOLERANCE * scale).sum())
