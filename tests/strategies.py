"""What the property tests draw from: groups, subgroups, representations and field types."""

from __future__ import annotations

from functools import cache, lru_cache

from hypothesis import strategies as st

from intertwine.groups import (
    Alternating,
    Cyclic,
    Dihedral,
    FiniteGroup,
    Icosahedral,
    Octahedral,
    Quaternion,
    Representation,
    Subgroup,
    Symmetric,
    Tetrahedral,
    direct_product,
    semidirect_product,
)
from intertwine.spaces import FieldType, HomogeneousSpace


@lru_cache(maxsize=1)
def small_groups() -> tuple[FiniteGroup, ...]:
    """Groups of every kind the theory must cover, up to order 24."""
    frobenius21 = semidirect_product(
        Cyclic(7), Cyclic(3), [[k * 2**h % 7 for k in range(7)] for h in range(3)], name="C7 : C3"
    )
    dicyclic = semidirect_product(Cyclic(3), Cyclic(4), [[k * (-1) ** h % 3 for k in range(3)] for h in range(4)])
    return (
        *(Cyclic(n) for n in (1, 2, 3, 4, 5, 6, 8, 12)),
        *(Dihedral(n) for n in (1, 2, 3, 4, 5, 6)),
        Symmetric(3),
        Symmetric(4),
        Alternating(4),
        Quaternion(),
        direct_product(Cyclic(3), Symmetric(3)),
        direct_product(Cyclic(2), Quaternion()),
        direct_product(Cyclic(2), Cyclic(2), Cyclic(3)),
        frobenius21,
        dicyclic,
    )


@lru_cache(maxsize=1)
def large_groups() -> tuple[FiniteGroup, ...]:
    """Larger ones, for laws that are cheap to check."""
    return (
        Tetrahedral(),
        Octahedral(),
        Octahedral(reflections=True),
        Icosahedral(),
        Alternating(5),
        Symmetric(5),
        Icosahedral(reflections=True),
        Dihedral(30),
        Cyclic(60),
        direct_product(Quaternion(), Cyclic(3)),
    )


def groups() -> st.SearchStrategy[FiniteGroup]:
    return st.sampled_from(small_groups() + large_groups())


@st.composite
def subgroups(draw: st.DrawFn, group: FiniteGroup) -> Subgroup:
    """Any subgroup: a class representative, conjugated."""
    chosen = draw(st.sampled_from(group.subgroup_classes())).representative
    return conjugate(chosen, draw(st.integers(0, group.order - 1)))


@cache
def conjugate(subgroup: Subgroup, g: int) -> Subgroup:
    """gHg⁻¹, the same object each time: it keeps its representations and cosets, which take long to find."""
    return subgroup.conjugate(g)


@st.composite
def representations(draw: st.DrawFn, group: FiniteGroup, *, max_dim: int = 8) -> Representation:
    """Irreducibles, regular, quotient, sums, tensor products, duals, and representations that are not orthogonal."""
    small = [rho for rho in group.irreps if rho.dim <= max_dim]
    kind = draw(st.sampled_from(["irrep", "sum", "regular", "quotient", "tensor", "dual", "skew"]))
    first, second = draw(st.sampled_from(small)), draw(st.sampled_from(small))
    if kind == "sum" and first.dim + second.dim <= max_dim:
        return first + second
    if kind == "regular" and group.order <= max_dim:
        return group.regular
    if kind == "quotient":
        quotient = group.quotient(draw(subgroups(group)))
        return quotient if quotient.dim <= max_dim else first
    if kind == "tensor" and first.dim * second.dim <= max_dim:
        return first @ second
    if kind == "dual":
        return first.dual()
    if kind == "skew":
        return skewed(first)
    return first


def skewed(rho: Representation) -> Representation:
    """The same representation in a basis that is not orthonormal."""
    import torch

    d = rho.dim
    change = torch.eye(d, dtype=torch.float64) + 0.5 * torch.ones(d, d, dtype=torch.float64).triu(1)
    group = rho.group
    if not isinstance(group, FiniteGroup):
        raise TypeError("skewed takes a representation of a finite group")
    return group.representation(change @ rho.matrices @ torch.linalg.inv(change), name=f"{rho.name} skewed")


@lru_cache(maxsize=1)
def groups_of_field_pairs() -> tuple[FiniteGroup, ...]:
    """The same objects each time: they keep their subgroups and representations, which take long to find."""
    return (*small_groups(), Alternating(5))


@st.composite
def field_pairs(draw: st.DrawFn, *, unknowns: int = 900) -> tuple[FieldType, FieldType]:
    """Two field types over homogeneous spaces of one group, small enough for the brute-force solver."""
    group = draw(st.sampled_from(groups_of_field_pairs()))
    types = []
    for _ in range(2):
        h = draw(subgroups(group))
        types.append(HomogeneousSpace(group, h).field(draw(representations(h, max_dim=6))))
    if types[0].total_dim * types[1].total_dim > unknowns:
        # Large spaces: keep the second and make the first a field on a point.
        types[0] = HomogeneousSpace(group, group).field(draw(st.sampled_from(group.irreps)).restrict(group.whole))
    from hypothesis import assume

    assume(types[0].total_dim * types[1].total_dim <= unknowns)
    return types[0], types[1]
