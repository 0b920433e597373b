from __future__ import annotations

import pytest

from intertwine.errors import InputError, ParseError, RepresentationError, SizeLimitError, SubgroupError
from intertwine.groups import Cyclic, Dihedral, Octahedral, Symmetric, parse_representation, parse_subgroup

D4 = Dihedral(4)
O = Octahedral()
S4 = Symmetric(4)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("trivial", D4.trivial),
        ("regular", D4.regular),
        ("standard", D4.standard),
        ("irrep0", D4.trivial),
        ("irrep1", D4.irrep(1)),
        ("irrep2", D4.irrep(2)),
        ("irrep(2,-1)", D4.irrep(2, -1)),
        ("irrep(0,+1)", D4.trivial),
        ("quotient:C4", D4.quotient(D4.subgroup([1]))),
        ("quotient: C2#2", D4.quotient(D4.subgroup([4]))),
        ("quotient:C2 x C2", D4.quotient(D4.subgroup([2, 4]))),
        ("quotient:2,4", D4.quotient(D4.subgroup([2, 4]))),
        ("quotient:whole", D4.quotient(D4.whole)),
        ("3*trivial + 2*regular", 3 * D4.trivial + 2 * D4.regular),
        ("  3 trivial+2 * regular ", 3 * D4.trivial + 2 * D4.regular),
        ("2regular", 2 * D4.regular),
        ("regular + trivial", D4.regular + D4.trivial),
        ("2*quotient:C4 + irrep1", 2 * D4.quotient(D4.subgroup([1])) + D4.irrep(1)),
    ],
)
def test_what_a_text_means(text: str, meant: object) -> None:
    assert parse_representation(D4, text) == meant


@pytest.mark.parametrize(
    "text",
    ["trivial", "2 irrep(1) + regular", "irrep(0, -1) + irrep(2, +1)", "quotient by C2#3 + 2 trivial", "standard"],
)
def test_the_printed_name_is_understood(text: str) -> None:
    rho = parse_representation(D4, text)
    assert rho.name == text
    assert parse_representation(D4, rho.name) == rho


def test_a_subgroup_is_a_group_too() -> None:
    h = S4.find_subgroup("D4")
    assert parse_representation(h, "regular").group == h
    assert parse_representation(h, "quotient:C4").dim == 2


@pytest.mark.parametrize(
    "text", ["", "  ", "foo", "trivial +", "+ regular", "-1*regular", "irrep5", "irrep-1", "regulars", "3"]
)
def test_an_unknown_name_lists_the_choices(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_representation(D4, text)
    message = str(caught.value)
    assert (
        "a representation of D4: trivial, regular, standard, quotient:SUBGROUP, irrep(0, -1) (dim 1, real)" in message
    )
    assert "irrep(1) (dim 2, real)" in message
    assert "3*trivial + 2*regular" in message


def test_the_error_names_the_term_and_the_type_of_an_irrep() -> None:
    with pytest.raises(ParseError, match=r"irrep\(2\) \(dim 2, complex\).*got 'foo' in 'trivial \+ foo'"):
        parse_representation(Cyclic(6), "trivial + foo")
    with pytest.raises(ParseError, match=r"got an empty term in 'trivial [+]'"):
        parse_representation(D4, "trivial +")


def test_standard_is_offered_only_where_there_are_motions() -> None:
    with pytest.raises(ParseError, match=r"trivial, regular, quotient:SUBGROUP, irrep1.*got 'standard'"):
        parse_representation(S4, "standard")
    assert parse_representation(O, "standard").dim == 3


def test_a_long_list_of_irreps_is_cut() -> None:
    with pytest.raises(ParseError) as caught:
        parse_representation(Cyclic(60), "foo")
    assert str(caught.value).count("(dim") == 11
    assert "... irrep(30)" in str(caught.value)


def test_a_large_group_is_not_solved_for_a_misspelled_name() -> None:
    group = Symmetric(6)
    with pytest.raises(ParseError, match=r"irrep1, irrep2, [.]{3}; got 'foo'"):
        parse_representation(group, "foo")
    assert "irreps" not in vars(group)


def test_zero_copies_are_refused() -> None:
    with pytest.raises(RepresentationError, match=r"a positive whole number of copies"):
        parse_representation(D4, "0*regular")


def test_too_many_copies_are_refused_before_they_are_made() -> None:
    with pytest.raises(SizeLimitError, match=r"8000000000 channels.*Use fewer copies"):
        parse_representation(D4, "1000000000*regular")


@pytest.mark.parametrize(
    ("text", "elements", "name"),
    [
        ("trivial", [0], "C1"),
        ("whole", list(range(8)), "D4"),
        ("D4", list(range(8)), "D4"),
        ("C2", [0, 2], "C2"),
        ("C2#2", [0, 4], "C2#2"),
        ("C2#3", [0, 5], "C2#3"),
        ("D1", [0, 4], "D1"),
        (" C4 ", [0, 1, 2, 3], "C4"),
        ("4", [0, 4], "<4>"),
        ("2, 4", [0, 2, 4, 6], "<2,4>"),
    ],
)
def test_what_a_subgroup_is_called(text: str, elements: list[int], name: str) -> None:
    h = parse_subgroup(D4, text)
    assert h.parent == D4
    assert h.embedding.tolist() == elements
    assert h.name == name


@pytest.mark.parametrize("group", [D4, O, S4])
def test_every_listed_class_is_found_under_its_name(group: Dihedral) -> None:
    for c in group.subgroup_classes():
        if "#" in c.name:
            assert parse_subgroup(group, c.name) == c.representative


@pytest.mark.parametrize("text", ["C3", "C2#9", "foo", "", "SO2", "C2#x"])
def test_no_such_subgroup_lists_those_there_are(text: str) -> None:
    with pytest.raises(SubgroupError) as caught:
        parse_subgroup(D4, text)
    assert "subgroup of D4: expected trivial, whole or one of C1, C2, C2#2, C2#3, C4" in str(caught.value)
    assert f"got {text!r}" in str(caught.value)
    assert "as in 1,4" in str(caught.value)


def test_a_generator_outside_the_group() -> None:
    with pytest.raises(InputError, match=r"expected elements 0\.\.7; got 9"):
        parse_subgroup(D4, "1,9")


def test_a_large_group_takes_generators() -> None:
    group = Symmetric(6)
    assert parse_subgroup(group, "1").order == 2
    with pytest.raises(InputError, match=r"order at most 120.*generators"):
        parse_subgroup(group, "C2")
