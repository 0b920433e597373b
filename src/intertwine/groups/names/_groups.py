"""Groups by name: ``parse("D4")``, ``parse("C3 x S3")``, ``parse("SO(3)")``."""

from __future__ import annotations

from collections.abc import Callable

from ..._checked import checked
from ...errors import ParseError
from .._group import Group
from ..finite._by_name import factors_of, finite_by_name
from ..finite._finite_group import FiniteGroup
from ..lie._euclidean import SE2, SE3, Translations
from ..lie._planar import O2, SO2
from ..lie._spatial import O3, SO3

LIE: dict[str, Callable[[], Group]] = {
    "SO2": SO2,
    "O2": O2,
    "SO3": SO3,
    "O3": O3,
    "T2": lambda: Translations(2),
    "T3": lambda: Translations(3),
    "SE2": SE2,
    "SE3": SE3,
}


@checked
def parse(name: str) -> Group:
    """The group with this name. Factors of a direct product are joined by ``x``.

    >>> parse("D4").order, parse("C3 x S3").order, parse("SO(3)").name
    (8, 18, 'SO(3)')
    """
    factors = factors_of(name)
    if len(factors) == 1 and factors[0] in LIE:
        return LIE[factors[0]]()
    if any(factor in LIE for factor in factors):
        raise ParseError("parse", expected="finite factors in a product", got=repr(name))
    return finite_by_name(name, others=tuple(LIE))


@checked
def parse_finite(name: str) -> FiniteGroup:
    """The finite group with this name.

    >>> parse_finite("C2 x C3").order
    6
    """
    group = parse(name)
    if not isinstance(group, FiniteGroup):
        raise ParseError("parse", expected="a finite group", got=name, fix="Use a finite subgroup such as C8 or D8.")
    return group
