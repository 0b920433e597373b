"""The angular part of kernels on R^d: maps between irreps that vary with direction like harmonics of one degree.

A kernel κ(x) = Σ_m A_m Y_m(x/|x|) with the harmonics Y of degree J commutes with the group K when

    ρ2(k) A_m ρ1(k)⁻¹ = Σ_n A_n D(k)_nm        for all k in K,

where D is the representation on the harmonics. The solutions form Hom_K(V1 ⊗ Harm_J, V2).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .._checked import checked
from .._numerics import projector_range
from ..errors import TypeMismatchError
from ..groups import (
    O2,
    O3,
    SO2,
    SO3,
    CompactLieGroup,
    Element,
    FiniteGroup,
    Group,
    LieGroup,
    LieRepresentation,
    Representation,
    clebsch_gordan,
    degree_of,
    intertwiners,
)
from ._cache import cached


def harmonics(group: Group, action: Representation, degree: int) -> Representation:
    """The representation D∘ρ of a group with action ρ on the harmonics of one degree, Y(ρ(g)x) = D(ρ(g)) Y(x)."""
    orthogonal = (O2() if action.dim == 2 else O3()).irrep(degree)
    name = f"harmonics of degree {degree}"
    if isinstance(group, FiniteGroup):
        return group.representation(orthogonal(action.matrices), name=name)
    if not isinstance(group, CompactLieGroup):
        raise TypeMismatchError(
            "kernels.solve",
            expected="a finite group, SO(2), O(2), SO(3) or O(3) as the stabilizer",
            got=group.name,
        )
    if isinstance(group, SO2 | O2 | SO3 | O3) and action == group.standard:
        return group.irrep(degree)
    return LieRepresentation(
        group,
        partial(_compose, orthogonal, action),
        dim=orthogonal.dim,
        degree=degree * degree_of(action),
        name=f"{name} under {action.name}",
        is_orthogonal=True,
    )


def _compose(outer: Representation, inner: Representation, g: Element) -> Tensor:
    return outer(inner(g))


@checked
def angular_solutions(rho1: Representation, rho2: Representation, harmonic: Representation) -> Tensor:
    """Orthonormal basis ``(k, d2, d1, harmonics)`` of the angular kernels between two irreps."""
    shape = (rho2.dim, rho1.dim, harmonic.dim)

    def compute() -> dict[str, Tensor]:
        group = rho1.group
        if isinstance(group, FiniteGroup):
            source = torch.einsum("gij,gkl->gikjl", rho1.matrices, harmonic.matrices).flatten(3, 4).flatten(1, 2)
            basis = intertwiners(source, rho2.matrices, orthogonal=rho1.is_orthogonal and rho2.is_orthogonal)
        elif isinstance(group, CompactLieGroup):
            basis = _by_irreps(group, rho1, rho2, harmonic)
        else:
            raise TypeMismatchError(
                "kernels.solve",
                expected="a finite group or a compact Lie group",
                got=group.name,
            )
        return {"angular": basis.reshape(-1, *shape)}

    def fits(tensors: dict[str, Tensor]) -> bool:
        return "angular" in tensors and tuple(tensors["angular"].shape[1:]) == shape

    return cached(compute, "angular", rho1.digest, rho2.digest, harmonic.digest, fits=fits)["angular"]


def angular_residual(solutions: Tensor, rho1: Representation, rho2: Representation, harmonic: Representation) -> float:
    """The largest violation of the constraint, at the generators of a finite group or a few elements of a Lie group."""
    group = rho1.group
    if isinstance(group, FiniteGroup):
        elements: Tensor = torch.tensor(group.generators, dtype=torch.int64)
    elif isinstance(group, LieGroup):
        elements = group.sample(3, torch.Generator().manual_seed(0))
        components = group.component_representatives
        elements = (components[:, None] @ elements).flatten(0, 1)
    if not len(solutions) or not len(elements):
        return 0.0
    left = torch.einsum("gab,kbcm,gcd->gkadm", rho2(elements), solutions, rho1(group.inverse(elements)))
    right = torch.einsum("kabn,gnm->gkabm", solutions, harmonic(elements))
    return float((left - right).abs().max())


def _by_irreps(group: CompactLieGroup, rho1: Representation, rho2: Representation, harmonic: Representation) -> Tensor:
    """The solutions for each irrep in the space of harmonics, in the basis of the harmonics."""
    irreducible = all(rho in group.irreps_up_to(degree_of(rho)) for rho in (rho1, rho2))
    # Clebsch-Gordan coefficients are a table lookup; the null space needs d1·d2·dim(psi) unknowns.
    couple = _by_clebsch_gordan if isinstance(group, SO3 | O3) and irreducible else _by_null_space
    decomposition, solutions, start = harmonic.decompose(), [], 0
    for psi in decomposition.irreps:
        isometry = decomposition.basis[:, start : start + psi.dim]
        solutions.append(couple(group, rho1, rho2, psi) @ isometry.T)
        start += psi.dim
    return torch.cat(solutions)


def _by_clebsch_gordan(group: LieGroup, rho1: Representation, rho2: Representation, psi: Representation) -> Tensor:
    """At most one solution: SO(3) couples the three degrees in one way or not at all; for O(3) parities must agree too.

    Returns:
        ``(k, d2, d1, psi.dim)``.
    """
    l1, l2, j = ((rho.dim - 1) // 2 for rho in (rho1, rho2, psi))
    inversion = -torch.eye(3, dtype=torch.float64)
    allowed = abs(l1 - l2) <= j <= l1 + l2
    if allowed and isinstance(group, O3):
        signs = [float(rho(inversion)[0, 0]) for rho in (rho1, rho2, psi)]
        allowed = signs[0] * signs[1] * signs[2] > 0
    if not allowed:
        return torch.zeros(0, rho2.dim, rho1.dim, psi.dim, dtype=torch.float64)
    coupling = clebsch_gordan(l1, j, l2).permute(2, 0, 1)
    return (coupling / torch.linalg.vector_norm(coupling))[None]


def _by_null_space(group: LieGroup, rho1: Representation, rho2: Representation, psi: Representation) -> Tensor:
    """All X with dρ2(a) X = X dσ(a) on the Lie algebra and ρ2(c) X = X σ(c) for one c per component, where σ = ρ1 ⊗ ψ.

    Returns:
        ``(k, d2, d1, psi.dim)``.
    """
    source = rho1 @ psi
    d1, d2 = source.dim, rho2.dim
    eye1, eye2 = torch.eye(d1, dtype=torch.float64), torch.eye(d2, dtype=torch.float64)
    lefts = [*group.differential(rho2), *rho2(group.component_representatives)]
    rights = [*group.differential(source), *source(group.component_representatives)]
    gram = torch.zeros(d1 * d2, d1 * d2, dtype=torch.float64)
    for left, right in zip(lefts, rights, strict=True):
        constraint = torch.kron(left.contiguous(), eye1) - torch.kron(eye2, right.T.contiguous())
        gram += constraint.T @ constraint
    values, vectors = torch.linalg.eigh(gram)
    null = vectors[:, values < 1e-9]
    return projector_range(null @ null.T).reshape(-1, d2, rho1.dim, psi.dim)
