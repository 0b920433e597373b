"""The slow, obvious way: all linear maps between two spaces of fields that commute with the group.

It uses neither kernels nor double cosets, which makes it an independent reference for the solver.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._checked import checked
from .._numerics import require_memory
from ..spaces import FieldType
from ._basis import finite_spaces


@checked
def brute_force(in_type: FieldType, out_type: FieldType) -> Tensor:
    """Orthonormal basis ``(k, d2, points2, d1, points1)`` of the maps T with π2(g) T = T π1(g) for all g.

    Computes the null space of the constraint for the generators of G, in dim Ind1 · dim Ind2 unknowns.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.spaces import HomogeneousSpace
    >>> G = Cyclic(4)
    >>> field = HomogeneousSpace(G, G.subgroup([2])).field("regular")
    >>> brute_force(field, field).shape
    torch.Size([4, 2, 2, 2, 2])
    """
    space1, space2 = finite_spaces(in_type, out_type)
    n1, n2 = in_type.total_dim, out_type.total_dim
    require_memory(
        3 * (n1 * n2) ** 2, caller="brute_force", what=f"a constraint in {n1 * n2} unknowns", fix="Use kernels.solve."
    )
    gram = torch.zeros(n1 * n2, n1 * n2, dtype=torch.float64)
    for g in space1.group.generators:
        left, right = out_type.induced(g), in_type.induced(g)
        constraint = torch.kron(left, torch.eye(n1, dtype=torch.float64))
        constraint -= torch.kron(torch.eye(n2, dtype=torch.float64), right.T.contiguous())
        gram += constraint.T @ constraint
    values, vectors = torch.linalg.eigh(gram)
    null = vectors[:, values < 1e-9 * max(1.0, float(values[-1]))]
    return null.T.reshape(-1, out_type.dim, space2.points, in_type.dim, space1.points)
