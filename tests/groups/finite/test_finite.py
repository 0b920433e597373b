"""Finite groups: the ways in, the laws, and the errors for what is no group."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intertwine.errors import GroupLawError, InputError, ParseError, SubgroupError
from intertwine.groups import (
    Alternating,
    Cyclic,
    Dihedral,
    FiniteGroup,
    Icosahedral,
    Octahedral,
    Quaternion,
    Symmetric,
    Tetrahedral,
    direct_product,
    isomorphism,
    parse,
    semidirect_product,
    structure_name,
)
from intertwine.testing import group_residual
from tests.strategies import groups, small_groups, subgroups


@given(groups().flatmap(lambda g: st.tuples(st.just(g), *[st.integers(0, g.order - 1)] * 3)))
def test_group_laws(case):
    group, a, b, c = case
    assert group_residual(group, a, b, c) == 0


def test_group_law_checker_sees_a_magma():
    table = Cyclic(5).table.clone()
    table[2, 3], table[2, 4] = table[2, 4].clone(), table[2, 3].clone()
    broken = FiniteGroup(table, name="broken", validated=True)
    assert max(group_residual(broken, 1, 1, c) for c in range(5)) > 0 or group_residual(broken, 2, 3, 1) > 0


@pytest.mark.parametrize("group", small_groups(), ids=str)
def test_every_table_passes_its_own_validation(group):
    assert FiniteGroup.from_table(group.table, name="again") == group


@pytest.mark.parametrize(
    ("group", "order"),
    [
        (Cyclic(7), 7),
        (Dihedral(7), 14),
        (Symmetric(5), 120),
        (Alternating(5), 60),
        (Quaternion(), 8),
        (Tetrahedral(), 12),
        (Octahedral(), 24),
        (Octahedral(reflections=True), 48),
        (Icosahedral(), 60),
        (Icosahedral(reflections=True), 120),
    ],
    ids=str,
)
def test_orders(group, order):
    assert group.order == order


def test_the_same_group_by_different_roads():
    d4 = Dihedral(4)
    by_permutations = FiniteGroup.from_permutations([[1, 2, 3, 0], [0, 3, 2, 1]])
    by_matrices = FiniteGroup.from_matrices([[[0, -1], [1, 0]], [[1, 0], [0, -1]]])
    by_presentation = FiniteGroup.from_presentation("r s", ["r^4", "s^2", "r s r s"])
    by_product = semidirect_product(Cyclic(4), Cyclic(2), [[0, 1, 2, 3], [0, 3, 2, 1]])
    for other in (by_permutations, by_matrices, by_presentation, by_product):
        assert isomorphism(other, d4) is not None
    assert isomorphism(Quaternion(), d4) is None
    assert isomorphism(Icosahedral(), Alternating(5)) is not None
    assert isomorphism(Octahedral(), Symmetric(4)) is not None
    assert isomorphism(Icosahedral(reflections=True), direct_product(Alternating(5), Cyclic(2))) is not None
    assert isomorphism(Icosahedral(reflections=True), Symmetric(5)) is None


def test_isomorphism_is_a_homomorphism():
    source, target = Octahedral(), Symmetric(4)
    images = torch.tensor(isomorphism(source, target))
    assert torch.equal(images[source.table], target.table[images][:, images])


def test_presentation_of_the_icosahedral_group():
    assert structure_name(FiniteGroup.from_presentation("x, y", ["x^2", "y^3", "(x*y)^5"])) == "A5"
    assert FiniteGroup.from_presentation("a b", ["a^2", "b^2", "a b a^-1 b^-1"]).is_abelian


def test_standard_matrices_are_exact_on_the_lattice():
    for group in (Cyclic(4), Dihedral(4), Octahedral(reflections=True)):
        m = group.standard.matrices
        assert torch.equal(m, m.round())
    quarter = Dihedral(4).standard(1)
    assert quarter.tolist() == [[0.0, -1.0], [1.0, 0.0]]
    assert Dihedral(4).standard(4).tolist() == [[-1.0, 0.0], [0.0, 1.0]]


def test_parse():
    assert parse("D4") == Dihedral(4)
    assert parse("C3 x S3").order == 18
    assert parse("C2 × C2 x Q8").order == 32
    assert parse("SO(3)").name == "SO(3)"
    assert parse("Oh").order == 48
    with pytest.raises(ParseError, match=r"parse: expected a group such as C4.*got 'B4'"):
        parse("B4")
    with pytest.raises(ParseError, match="expected a whole number from 1 to 7; got 'S9'"):
        parse("S9")
    with pytest.raises(ParseError, match="finite factors"):
        parse("C2 x SO3")


class TestWhatIsNoGroup:
    def test_shape(self):
        with pytest.raises(GroupLawError, match=r"expected a square table.*got shape \(2, 3\)"):
            FiniteGroup.from_table(np.zeros((2, 3), int))

    def test_closure(self):
        with pytest.raises(GroupLawError, match=r"closure.*got 1·1 = 7"):
            FiniteGroup.from_table([[0, 1], [1, 7]])

    def test_identity_elsewhere(self):
        with pytest.raises(GroupLawError, match=r"identity.*exchange the numbers 0 and 1"):
            FiniteGroup.from_table([[1, 0], [0, 1]])

    def test_no_identity(self):
        with pytest.raises(GroupLawError, match="The table has no identity"):
            FiniteGroup.from_table([[0, 0], [1, 1]])

    def test_inverse(self):
        with pytest.raises(GroupLawError, match=r"inverses: exactly one h with 1·h.*of element 1"):
            FiniteGroup.from_table([[0, 1], [1, 1]])

    def test_associativity(self):
        loop = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
        with pytest.raises(GroupLawError, match=r"associativity.*but"):
            FiniteGroup.from_table(loop)

    def test_not_integers(self):
        with pytest.raises(GroupLawError, match="integer entries"):
            FiniteGroup.from_table([[0.0, 1.0], [1.0, 0.5]])

    def test_permutation(self):
        with pytest.raises(GroupLawError, match=r"permutations of 0..2.*got \[0, 0, 1\]"):
            FiniteGroup.from_permutations([[0, 0, 1]])

    def test_endless_matrices(self):
        with pytest.raises(GroupLawError, match="irrational angle"):
            FiniteGroup.from_matrices([[[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]]])

    def test_endless_presentation(self, monkeypatch):
        monkeypatch.setattr("intertwine.groups.finite._presentation._MAX_COSETS", 500)  # 20 000 take ten seconds
        with pytest.raises(GroupLawError, match="did not close"):
            FiniteGroup.from_presentation("a b", ["a^2", "b^2"])

    def test_presentation_text(self):
        with pytest.raises(ParseError, match=r"got 'c' in 'a c'"):
            FiniteGroup.from_presentation("a b", ["a c"])

    def test_semidirect_action(self):
        with pytest.raises(GroupLawError, match="automorphisms"):
            semidirect_product(Cyclic(4), Cyclic(2), [[0, 1, 2, 3], [0, 2, 1, 3]])
        with pytest.raises(GroupLawError, match=r"\(hk\)\(a\)"):
            semidirect_product(Cyclic(5), Cyclic(2), [[0, 1, 2, 3, 4], [0, 2, 4, 1, 3]])

    def test_count(self):
        with pytest.raises(InputError, match="Cyclic: expected a whole number"):
            Cyclic(0)

    def test_element_out_of_range(self):
        with pytest.raises(InputError, match=r"D4: expected elements 0..7; got 8"):
            Dihedral(4).compose(8, 0)


class TestSubgroups:
    @pytest.mark.parametrize(
        ("group", "classes", "subgroups"),
        [
            (Dihedral(4), 8, 10),
            (Symmetric(4), 11, 30),
            (Alternating(5), 9, 59),
            (Symmetric(5), 19, 156),
            (Quaternion(), 6, 6),
            (direct_product(Cyclic(2), Cyclic(2), Cyclic(2)), 16, 16),
        ],
        ids=str,
    )
    def test_numbers_known_from_the_literature(self, group, classes, subgroups):
        listed = group.subgroup_classes()
        assert (len(listed), sum(c.size for c in listed)) == (classes, subgroups)

    def test_classes_against_all_two_generated_subgroups(self):
        group = Dihedral(6)
        every = {tuple(group.subgroup([a, b]).embedding.tolist()) for a in range(12) for b in range(12)}
        listed = {
            tuple(c.representative.conjugate(g).embedding.tolist()) for c in group.subgroup_classes() for g in range(12)
        }
        assert listed == every  # every subgroup of a dihedral group has two generators

    def test_names(self):
        names = [c.name for c in Symmetric(4).subgroup_classes()]
        assert names == ["C1", "C2", "C2#2", "C3", "C2 x C2", "C2 x C2#2", "C4", "S3", "D4", "A4", "S4"]
        assert structure_name(direct_product(Cyclic(4), Cyclic(6))) == "C12 x C2"

    def test_a_mirror_is_not_a_half_turn(self):
        d4 = Dihedral(4)
        assert d4.find_subgroup("C2").embedding.tolist() == [0, 2]
        assert d4.find_subgroup("D1").embedding.tolist() == [0, 4]
        assert [d4.find_subgroup(f"C2#{k}").embedding.tolist() for k in (2, 3)] == [[0, 4], [0, 5]]
        with pytest.raises(SubgroupError, match="got 'C2#4'"):
            d4.find_subgroup("C2#4")

    def test_cosets_partition(self):
        group = Symmetric(4)
        h = group.subgroup([1])
        assert h.index == 12
        assert torch.bincount(h.coset_of).tolist() == [2] * 12
        assert torch.equal(h.coset_of[h.coset_representatives], torch.arange(12))

    @given(groups().flatmap(lambda g: st.tuples(st.just(g), subgroups(g), subgroups(g))))
    @settings(max_examples=40)
    def test_double_cosets(self, case):
        group, h2, h1 = case
        cosets = group.double_cosets(h2, h1)
        assert sorted(torch.cat(cosets).tolist()) == list(range(group.order))
        for coset in cosets:
            g = int(coset[0])
            around = h1.conjugate(g)
            shared = int(h2.contains(around.embedding).sum())
            assert len(coset) == h2.order * h1.order // shared
        fixed = [
            int((h2.parent.quotient(h1).permutation_table[h2.embedding][k] == torch.arange(h1.index)).sum())
            for k in range(h2.order)
        ]
        assert sum(fixed) == len(cosets) * h2.order  # Burnside: orbits of H2 on G/H1

    def test_normal_and_quotient(self):
        s4 = Symmetric(4)
        klein = s4.find_subgroup("C2 x C2")
        assert klein.is_normal
        assert structure_name(s4.quotient_group(klein)) == "S3"
        with pytest.raises(SubgroupError, match="expected a normal subgroup"):
            s4.quotient_group(s4.subgroup([1]))
        assert s4.center.order == 1
        assert Quaternion().center.order == 2

    def test_not_a_subgroup(self):
        with pytest.raises(SubgroupError, match=r"closed under products.*got \[0, 1\], in which 1·1 = 2 is missing"):
            Cyclic(4).subgroup(elements=[0, 1])
        with pytest.raises(SubgroupError, match="either generators or elements; got neither"):
            Cyclic(4).subgroup()
        with pytest.raises(SubgroupError, match=r"expected a subgroup of D4: C1, C2.*got 'C3'"):
            Dihedral(4).find_subgroup("C3")
        assert Cyclic(4).subgroup(elements=[0, 2]) == Cyclic(4).subgroup([2])

    def test_too_large_to_list(self):
        with pytest.raises(InputError, match="order at most 120; got order 720"):
            Symmetric(6).subgroup_classes()


@pytest.mark.parametrize("name", ["C1", "C6", "C3 x C5", "S4", "D4", "Q8"])
def test_cycles(name):
    group = parse(name)
    for g in range(group.order):
        cycles = group.cycles(g)
        assert sorted(cycles.flatten().tolist()) == list(range(group.order))
        assert cycles.shape[1] == group.element_orders[g]
        assert cycles[0, 0] == 0
        assert torch.equal(group.table[g][cycles], cycles.roll(-1, 1))
    with pytest.raises(InputError):
        group.cycles(group.order)
