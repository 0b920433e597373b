"""The double-coset solver: against Mackey's formula, against brute force, and in its three realizations."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings

from intertwine.errors import (
    EmptyKernelSpaceError,
    InputError,
    NumericalError,
    SizeLimitError,
    SubgroupError,
    TypeMismatchError,
)
from intertwine.groups import Alternating, Cyclic, Dihedral, MatrixRepresentation, Quaternion, Symmetric, direct_product
from intertwine.kernels import brute_force, solve
from intertwine.spaces import Grid2d, HomogeneousSpace
from tests.strategies import field_pairs, skewed


def induced_character_dim(in_type, out_type) -> float:
    """(1/|G|) Σ_g χ_Ind1(g⁻¹) χ_Ind2(g) by traces of the induced matrices: no cosets, no cocycles in sight."""
    group = in_type.space.group
    chi1 = torch.stack([in_type.induced(int(group.inverse(g))).trace() for g in range(group.order)])
    chi2 = torch.stack([out_type.induced(g).trace() for g in range(group.order)])
    return float((chi1 * chi2).mean())


def test_solver_against_mackey_and_brute_force():
    seen = Counter()

    @given(field_pairs())
    @settings(max_examples=320)
    def each(pair):
        in_type, out_type = pair
        basis = agrees_with_oracles(in_type, out_type)
        seen["tuples"] += 1
        seen["different subgroups"] += in_type.space != out_type.space
        seen["nonzero"] += basis.dim > 0
        seen["not orthogonal"] += not (in_type.rho.is_orthogonal and out_type.rho.is_orthogonal)

    each()
    assert seen["tuples"] >= 300
    assert seen["different subgroups"] > 100
    assert seen["nonzero"] > 100
    assert seen["not orthogonal"] > 10


def agrees_with_oracles(in_type, out_type):
    group = in_type.space.group
    basis = solve(in_type, out_type, allow_empty=True)
    oracle = brute_force(in_type, out_type)
    assert basis.dim == basis.mackey_dim == len(oracle) == round(induced_character_dim(in_type, out_type))
    assert basis.residual < 1e-10
    if not basis.dim:
        return basis

    operators = basis.operator()
    flat = operators.reshape(basis.dim, out_type.total_dim, in_type.total_dim)
    for g in group.generators:
        assert (out_type.induced(g) @ flat - flat @ in_type.induced(g)).abs().max() < 1e-10

    # Brute force spans the same space: projecting on it changes nothing.
    span = oracle.reshape(len(oracle), -1)
    ours = operators.reshape(basis.dim, -1)
    assert (ours @ span.T @ span - ours).abs().max() < 1e-8

    # Three realizations, one operator.
    on_cosets, on_group = basis.on_cosets(), basis.on_group()
    assert (basis.operator_from_group(on_group) - operators).abs().max() < 1e-10
    assert (basis.group_to_cosets(on_group) - on_cosets).abs().max() < 1e-10
    values = basis.cosets_to_double_cosets(on_cosets)
    assert (basis.double_cosets_to_cosets(values) - on_cosets).abs().max() < 1e-10
    at = 0
    for here, value in zip(basis.on_double_cosets(), values, strict=True):
        assert (value[at : at + len(here)] - here).abs().max() < 1e-10 if len(here) else True
        at += len(here)

    # On the group the kernel is bi-equivariant: κ(h2 g h1) = ρ2(h2) κ(g) ρ1(h1).
    h1, h2 = in_type.space.subgroup, out_type.space.subgroup
    for a in h2.generators:
        left = on_group[:, group.table[int(h2.embedding[a])]]
        assert (left - out_type.rho(a) @ on_group).abs().max() < 1e-10
    for b in h1.generators:
        right = on_group[:, group.table[:, int(h1.embedding[b])]]
        assert (right - on_group @ in_type.rho(b)).abs().max() < 1e-10

    # Orthonormal on the cosets, and the twisted cross-correlation is the same map.
    gram = torch.einsum("kxab,lxab->kl", on_cosets, on_cosets)
    assert (gram - torch.eye(basis.dim, dtype=torch.float64)).abs().max() < 1e-10
    kappa = basis.combine(torch.randn(basis.dim, dtype=torch.float64))
    f = torch.randn(in_type.dim, in_type.space.points, dtype=torch.float64)
    by_matrix = torch.einsum("axby,by->ax", basis.operator(kappa), f)
    assert (basis.correlate(kappa, f) - by_matrix).abs().max() < 1e-10
    return basis


class TestKnownDimensions:
    def test_c6_over_c2(self):
        group = Cyclic(6)
        h = group.subgroup([3])
        space = HomogeneousSpace(group, h)
        assert solve(space.field(h.trivial), space.field(h.regular)).dim == 3

    @pytest.mark.parametrize("group", [Cyclic(5), Dihedral(4), Symmetric(4), Quaternion()], ids=str)
    def test_functions_on_the_group(self, group):
        e = group.subgroup([])
        space = HomogeneousSpace(group, e)
        assert solve(space.field(e.trivial), space.field(e.trivial)).dim == group.order

    def test_a_point_is_plain_schur(self):
        group = Symmetric(4)
        point = HomogeneousSpace(group, group)
        for a in group.irreps:
            for b in group.irreps:
                assert solve(point.field(a), point.field(b), allow_empty=True).dim == group.intertwining_number(a, b)

    def test_deep_sets(self):
        group = Symmetric(5)
        h = group.fixing(4)
        assert h.order == 24
        space = HomogeneousSpace(group, h)
        assert solve(space.field(h.trivial), space.field(h.trivial)).dim == 2

    def test_graph_layers_have_fifteen_maps(self):
        group = Symmetric(4)
        whole = HomogeneousSpace(group, group)
        h = group.fixing(3)
        pairs = group.quotient(h) @ group.quotient(h)
        assert solve(whole.field(pairs), whole.field(pairs)).dim == 15

    def test_lifting_and_projecting(self):
        group = Dihedral(4)
        e, h = group.subgroup([]), group.find_subgroup("C4")
        base, top = HomogeneousSpace(group, h), HomogeneousSpace(group, e)
        lifting = solve(base.field(h.trivial), top.field(e.trivial))
        projecting = solve(top.field(e.trivial), base.field(h.trivial))
        assert (lifting.dim, projecting.dim) == (2, 2)
        assert len(lifting.double_cosets) == 2

    def test_double_cosets_partition_the_points(self):
        group = Alternating(5)
        h1, h2 = group.find_subgroup("A4"), group.find_subgroup("C5")
        basis = solve(HomogeneousSpace(group, h1).field(h1.trivial), HomogeneousSpace(group, h2).field(h2.regular))
        cosets = basis.double_cosets
        assert sum(c.points for c in cosets) == h1.index
        assert all(c.points * c.stabilizer_order == h2.order for c in cosets)
        assert sum(c.dim for c in cosets) == basis.dim
        assert repr(basis).startswith(f"KernelBasis(dim={basis.dim}, double cosets={len(cosets)}, residual=")


def test_sums_share_the_solutions_of_their_summands():
    group = direct_product(Cyclic(2), Symmetric(3))
    h = group.find_subgroup("C2#2")
    space = HomogeneousSpace(group, h)
    one = solve(space.field(h.regular), space.field(h.irreps[1]))
    many = solve(space.field(2 * h.regular + h.trivial), space.field(3 * h.irreps[1]))
    other = solve(space.field(h.trivial), space.field(h.irreps[1]), allow_empty=True)
    assert many.dim == 6 * one.dim + 3 * other.dim
    assert many.residual < 1e-10


class TestNothingPassesSilently:
    def broken(self):
        """Claims to be a representation of C2, and is none: the matrix of the generator squares to 1.21."""
        group = Cyclic(2)
        matrices = torch.tensor([[[1.0]], [[1.1]]], dtype=torch.float64)
        return group, MatrixRepresentation(group, matrices, name="broken", validated=True)

    def test_mackey_mismatch_raises(self):
        group, broken = self.broken()
        point = HomogeneousSpace(group, group)
        with pytest.raises(NumericalError, match=r"whole number of intertwiners|by Mackey's formula"):
            solve(point.field(broken.restrict(group.whole)), point.field(group.trivial))

    def test_rank_mismatch_raises(self, monkeypatch):
        from intertwine.kernels import _orbits

        monkeypatch.setenv("INTERTWINE_CACHE", "off")
        solved = _orbits.intertwiners
        monkeypatch.setattr(_orbits, "intertwiners", lambda *a, **k: solved(*a, **k)[:-1])
        group = Dihedral(5)
        h = group.find_subgroup("C5")
        space = HomogeneousSpace(group, h)
        with pytest.raises(NumericalError, match=r"expected \d+ kernels by Mackey's formula; got \d+ from the solver"):
            solve(space.field(h.irreps[1]), space.field(h.irreps[1]))

    def test_wrong_kernels_raise(self, monkeypatch):
        from intertwine.kernels import _orbits

        monkeypatch.setenv("INTERTWINE_CACHE", "off")
        solved = _orbits.intertwiners
        monkeypatch.setattr(_orbits, "intertwiners", lambda *a, **k: solved(*a, **k).mT + 0.01)
        group = Dihedral(7)
        h = group.find_subgroup("C7")
        space = HomogeneousSpace(group, h)
        with pytest.raises(NumericalError, match="satisfy the constraint to 1e-10; got a residual"):
            solve(space.field(h.irreps[1]), space.field(h.irreps[1]))


class TestErrors:
    def test_empty(self):
        group = Symmetric(3)
        point = HomogeneousSpace(group, group)
        types = point.field(group.trivial), point.field(group.irreps[2])
        with pytest.raises(EmptyKernelSpaceError, match=r"share no irrep.*the only layer.*is zero.*allow_empty"):
            solve(*types)
        assert solve(*types, allow_empty=True).dim == 0

    def test_different_groups(self):
        a, b = Cyclic(4), Cyclic(6)
        with pytest.raises(SubgroupError, match="two spaces of one group, C4"):
            solve(HomogeneousSpace(a, a).field(a.trivial), HomogeneousSpace(b, b).field(b.trivial))

    def test_different_kinds_of_space(self):
        group = Cyclic(4)
        with pytest.raises(TypeMismatchError, match="homogeneous spaces of one finite group"):
            solve(HomogeneousSpace(group, group).field(group.trivial), Grid2d(group).field(group.trivial))

    def test_weights(self):
        group = Cyclic(4)
        point = HomogeneousSpace(group, group)
        basis = solve(point.field(group.regular), point.field(group.regular))
        with pytest.raises(InputError, match=r"expected 4 weights.*got shape \(3,\)"):
            basis.combine(torch.zeros(3))

    def test_memory(self, monkeypatch):
        group = Alternating(5)
        e = group.subgroup([])
        space = HomogeneousSpace(group, e)
        basis = solve(space.field(20 * e.trivial), space.field(20 * e.trivial))
        assert basis.dim == 24000
        monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "100M")
        with pytest.raises(SizeLimitError, match=r"KernelBasis.on_cosets: expected a result of at most 100 MB"):
            basis.on_cosets()
        with pytest.raises(SizeLimitError, match="a constraint in 1440000 unknowns"):
            brute_force(space.field(20 * e.trivial), space.field(20 * e.trivial))


def test_skewed_representations_give_orthonormal_kernels():
    group = Dihedral(4)
    h = group.find_subgroup("C4")
    space = HomogeneousSpace(group, h)
    rho = skewed(h.irreps[2])
    basis = solve(space.field(rho), space.field(skewed(h.regular)))
    on_cosets = basis.on_cosets()
    gram = torch.einsum("kxab,lxab->kl", on_cosets, on_cosets)
    assert (gram - torch.eye(basis.dim, dtype=torch.float64)).abs().max() < 1e-10
