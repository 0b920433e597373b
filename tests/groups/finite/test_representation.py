"""Representations of finite groups: laws, algebra, irreducibles, decomposition, and the errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intertwine.errors import NumericalError, RepresentationError, SizeLimitError, SubgroupError
from intertwine.groups import (
    O2,
    Alternating,
    Cyclic,
    Dihedral,
    MatrixRepresentation,
    Octahedral,
    Quaternion,
    Symmetric,
    direct_product,
    direct_sum,
)
from intertwine.testing import homomorphism_residual
from tests.strategies import groups, large_groups, representations, skewed, small_groups, subgroups


@st.composite
def group_and_representation(draw):
    group = draw(groups())
    return group, draw(representations(group))


@given(group_and_representation(), st.data())
def test_homomorphism(case, data):
    group, rho = case
    a, b = (data.draw(st.integers(0, group.order - 1)) for _ in range(2))
    assert homomorphism_residual(rho, a, b) < 1e-10
    assert homomorphism_residual(rho.dual(), a, b) < 1e-10


def test_homomorphism_checker_sees_a_wrong_matrix():
    group = Dihedral(4)
    m = group.irrep(1).matrices.clone()
    m[3] = -m[3]
    wrong = MatrixRepresentation(group, m, name="wrong", validated=True)
    assert homomorphism_residual(wrong, 1, 2) > 1


@given(group_and_representation())
@settings(max_examples=60)
def test_decomposition(case):
    _, rho = case
    decomposition = rho.decompose()
    blocks = torch.linalg.inv(decomposition.basis) @ rho.matrices @ decomposition.basis
    assert (blocks - direct_sum(decomposition.irreps).matrices).abs().max() < 1e-10
    if rho.is_orthogonal:
        assert (
            decomposition.basis.T @ decomposition.basis - torch.eye(rho.dim, dtype=torch.float64)
        ).abs().max() < 1e-10


@pytest.mark.parametrize("group", small_groups() + large_groups(), ids=str)
def test_irreducibles_are_complete_and_orthogonal(group):
    irreps = group.irreps
    assert irreps[0] == group.trivial
    chi = torch.stack([rho.character(group.elements) for rho in irreps])
    gram = chi @ chi.T / group.order
    kinds = {"real": 1, "complex": 2, "quaternionic": 4}
    assert torch.allclose(gram, torch.diag(torch.tensor([float(kinds[r.kind]) for r in irreps], dtype=torch.float64)))
    assert sum(r.dim**2 // r.endomorphism_dim for r in irreps) == group.order
    assert all(r.is_orthogonal for r in irreps)
    for rho in irreps:
        left = rho.matrices[group.table]
        assert (left - torch.einsum("aij,bjk->abik", rho.matrices, rho.matrices)).abs().max() < 1e-10


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (Cyclic(5), [(1, "real"), (2, "complex"), (2, "complex")]),
        (Dihedral(4), [(1, "real"), (1, "real"), (2, "real"), (1, "real"), (1, "real")]),
        (Quaternion(), [(1, "real")] * 4 + [(4, "quaternionic")]),
        (Alternating(4), [(1, "real"), (2, "complex"), (3, "real")]),
        (Alternating(5), [(1, "real"), (3, "real"), (3, "real"), (4, "real"), (5, "real")]),
        (Symmetric(5), [(1, "real")] * 2 + [(4, "real")] * 2 + [(5, "real")] * 2 + [(6, "real")]),
    ],
    ids=str,
)
def test_irreducibles_known_from_character_tables(group, expected):
    assert [(rho.dim, rho.kind) for rho in group.irreps] == expected


def test_irreducibles_have_the_familiar_form():
    d4 = Dihedral(4)
    assert torch.equal(d4.irrep(1).matrices, d4.standard.matrices)
    c8 = Cyclic(8)
    angle = torch.tensor(2 * torch.pi / 8, dtype=torch.float64)
    rotation = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    assert any((rho(1) - rotation).abs().max() < 1e-12 for rho in c8.irreps if rho.dim == 2)


def test_irreducibles_do_not_depend_on_the_copy_found(monkeypatch):
    from intertwine.groups.finite import _irreps

    products = direct_product(Cyclic(2), Dihedral(5)), direct_product(Cyclic(3), Symmetric(3))
    for group in (*products, Symmetric(4), Alternating(5), Quaternion()):
        before = [rho.matrices for rho in group.irreps]
        with monkeypatch.context() as patch:
            patch.setattr(_irreps, "_CACHE", {})
            draws = _irreps._draws
            patch.setattr(_irreps, "_draws", lambda size, draws=draws: list(draws(size))[::-1])
            again = _irreps.real_irreps(group.table.numpy(), group.digest)
        assert all((a - b).abs().max() < 1e-10 for a, b in zip(before, again, strict=True))


def test_algebra():
    d4 = Dihedral(4)
    rho = 3 * d4.trivial + 2 * d4.regular
    assert (rho.dim, rho.name, len(rho.atoms)) == (19, "3 trivial + 2 regular", 5)
    assert rho.is_permutation
    assert not (d4.regular + d4.irrep(1)).is_permutation
    e = d4.irrep(1)
    assert str((e @ e).decompose()) == "trivial + irrep(0, -1) + irrep(2, +1) + irrep(2, -1)"
    assert d4.trivial + d4.regular == d4.trivial + d4.regular
    assert d4.trivial + d4.regular != d4.regular + d4.trivial


def test_permutation_tables_agree_with_matrices():
    s3 = Symmetric(3)
    h = s3.subgroup([1])
    for rho in (s3.regular, s3.quotient(h), s3.regular @ s3.quotient(h), s3.regular.dual(), 2 * s3.quotient(h)):
        table = rho.permutation_table
        for g in range(6):
            m = rho(g)
            assert torch.equal(m[table[g], torch.arange(rho.dim)], torch.ones(rho.dim, dtype=torch.float64))
            assert m.sum() == rho.dim


@given(st.sampled_from(small_groups()).flatmap(lambda g: st.tuples(st.just(g), subgroups(g))), st.data())
@settings(max_examples=60)
def test_induction_is_adjoint_to_restriction(case, data):
    group, h = case
    rho = data.draw(st.sampled_from(h.irreps))
    sigma = data.draw(st.sampled_from(group.irreps))
    induced = group.induce(rho)
    a, b = (data.draw(st.integers(0, group.order - 1)) for _ in range(2))
    assert induced.dim == h.index * rho.dim
    assert homomorphism_residual(induced, a, b) < 1e-10
    assert group.intertwining_number(sigma, induced) == h.intertwining_number(sigma.restrict(h), rho)


def test_inducing_the_trivial_representation_gives_the_quotient():
    group = Octahedral()
    h = group.find_subgroup("C4")
    assert torch.equal(group.induce(h.trivial).permutation_table, group.quotient(h).permutation_table)
    assert group.induce(group.subgroup([]).trivial).decompose().irreps == group.regular.decompose().irreps


def test_restriction_branches():
    d4 = Dihedral(4)
    c4 = d4.find_subgroup("C4")
    assert [rho.kind for rho in d4.irrep(1).restrict(c4).decompose().irreps] == ["complex"]


def test_a_mirror_and_a_half_turn_restrict_differently():
    rho = O2().irrep(1)
    both = rho.restrict(Cyclic(2)) + rho.restrict(Dihedral(1))
    assert both(1).diagonal().tolist() == [-1.0, -1.0, -1.0, 1.0]


class TestErrors:
    def test_not_a_homomorphism(self):
        with pytest.raises(RepresentationError, match=r"representation 'given' of C4: expected a homomorphism: rho"):
            Cyclic(4).representation({1: [[0.0, -1.0], [2.0, 0.0]]})

    def test_wrong_identity(self):
        with pytest.raises(RepresentationError, match="expected the identity matrix for element 0"):
            Cyclic(2).representation([[[2.0]], [[1.0]]])

    def test_wrong_shape(self):
        with pytest.raises(RepresentationError, match=r"\(4, d, d\), one per element; got shape \(3, 1, 1\)"):
            Cyclic(4).representation(torch.ones(3, 1, 1))

    def test_not_finite(self):
        with pytest.raises(RepresentationError, match="NaN"):
            Cyclic(2).representation([[[1.0]], [[float("nan")]]])

    def test_missing_generators(self):
        with pytest.raises(RepresentationError, match="generate only 2 of 4 elements"):
            Cyclic(4).representation({2: [[1.0]]})

    def test_different_groups(self):
        with pytest.raises(
            RepresentationError, match="representations of one group, C4 as for trivial; got regular of C3"
        ):
            Cyclic(4).trivial + Cyclic(3).regular
        with pytest.raises(RepresentationError, match="rho1 @ rho2"):
            Cyclic(4).trivial @ Cyclic(3).regular

    def test_copies(self):
        with pytest.raises(RepresentationError, match="positive whole number of copies; got 0"):
            0 * Cyclic(4).trivial

    def test_restriction_to_a_stranger(self):
        with pytest.raises(SubgroupError, match=r"expected a subgroup of C4.*got C3"):
            Cyclic(4).regular.restrict(Cyclic(3))

    def test_kind_of_a_sum(self):
        with pytest.raises(RepresentationError, match="a sum of 2 irreps"):
            _ = (Cyclic(4).trivial + Cyclic(4).trivial).kind

    def test_memory(self, monkeypatch):
        monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1M")
        with pytest.raises(
            SizeLimitError, match="expected a result of at most 1 MB; got 60 matrices of size 600 x 600"
        ):
            _ = (10 * Alternating(5).regular).matrices

    def test_characters_that_cannot_be(self):
        group = Cyclic(3)
        wrong = MatrixRepresentation(group, torch.tensor([[[1.0]], [[1.0]], [[-1.0]]]), name="wrong", validated=True)
        with pytest.raises(NumericalError, match="expected a whole number"):
            group.intertwining_number(group.trivial, wrong)


def test_skewed_is_not_orthogonal():
    assert not skewed(Dihedral(4).irrep(1)).is_orthogonal
