"""Finite groups by name: ``D4``, ``Q8``, and products such as ``C3 x S3``."""

from __future__ import annotations

import re

from ...errors import ParseError
from .._catalog import group_named
from ._finite_group import FiniteGroup
from ._products import direct_product


def factors_of(name: str) -> list[str]:
    """The names of the factors of a product.

    >>> factors_of("C_3 x SO(3)")
    ['C_3', 'SO(3)']
    """
    return re.split(r"\s+x\s+|\s*×\s*", name.strip())


def finite_by_name(name: str) -> FiniteGroup:
    """The finite group with this name.

    >>> finite_by_name("C3 x S3").order
    18
    """
    groups = [group_named(part, full_name=name) for part in factors_of(name)]
    finite = [group for group in groups if isinstance(group, FiniteGroup)]
    if len(finite) < len(groups):
        expected = "finite factors in a product" if len(groups) > 1 else "a finite group"
        raise ParseError("parse", expected=expected, got=repr(name), fix="Use a finite subgroup such as C8 or D8.")
    return finite[0] if len(finite) == 1 else direct_product(*finite)
