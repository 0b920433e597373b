"""Groups by name: ``parse("D4")``, ``parse("C3 x S3")``, ``parse("SO(3)")``."""

from __future__ import annotations

from ..._checked import checked
from .._catalog import group_named
from .._group import Group
from ..finite._by_name import factors_of, finite_by_name
from ..finite._finite_group import FiniteGroup


@checked
def parse(name: str) -> Group:
    """The group with this name. Factors of a direct product are joined by ``x``.

    >>> parse("D4").order, parse("C3 x S3").order, parse("SO(3)").name
    (8, 18, 'SO(3)')
    """
    factors = factors_of(name)
    return group_named(factors[0], full_name=name) if len(factors) == 1 else finite_by_name(name)


@checked
def parse_finite(name: str) -> FiniteGroup:
    """The finite group with this name.

    >>> parse_finite("C2 x C3").order
    6
    """
    return finite_by_name(name)
