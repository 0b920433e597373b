"""Every group in the catalog can be parsed and satisfies the laws of groups and representations."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, ParseError
from intertwine.groups import GROUPS, FiniteGroup, LieGroup, direct_product, parse, parse_finite, register_group
from intertwine.testing import group_residual, homomorphism_residual

each = pytest.mark.parametrize("name", list(GROUPS))


def random_elements(group, n: int) -> list:
    generator = torch.Generator().manual_seed(0)
    if isinstance(group, FiniteGroup):
        return torch.randint(group.order, (n,), generator=generator).tolist()
    assert isinstance(group, LieGroup)
    return list(group.sample(n, generator=generator))


@each
def test_it_is_a_group_that_parse_finds(name: str) -> None:
    group = parse(GROUPS[name].example)
    assert GROUPS[name].about
    for _ in range(5):
        assert group_residual(group, *random_elements(group, 3)) < 1e-10


@each
def test_its_matrices_multiply_like_its_elements(name: str) -> None:
    group = parse(GROUPS[name].example)
    rho = group.regular if isinstance(group, FiniteGroup) else group.standard
    assert homomorphism_residual(rho, *random_elements(group, 2)) < 1e-10


def test_a_registered_group_can_be_parsed_alone_and_in_products() -> None:
    @register_group("W4", about="the Klein four-group")
    def klein() -> FiniteGroup:
        return direct_product(parse_finite("C2"), parse_finite("C2"))

    try:
        assert parse("W_4").order == 4
        assert parse("W4 x C3").order == 12
    finally:
        del GROUPS._entries["W4"]
    with pytest.raises(ParseError, match="expected a group such as C4"):
        parse("W4")


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(InputError, match="a name that is not taken"):
        register_group("Q8", about="another")(lambda: parse("C8"))


def test_lie_groups_have_no_products() -> None:
    with pytest.raises(ParseError, match="finite factors in a product; got 'SO\\(2\\) x C2'"):
        parse("SO(2) x C2")
    with pytest.raises(ParseError, match="a finite group; got 'SO\\(3\\)'"):
        parse_finite("SO(3)")
