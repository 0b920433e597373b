"""Finite groups by name: ``D4``, ``Q8``, and products such as ``C3 x S3``."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...errors import InputError, ParseError
from ._finite_group import FiniteGroup
from ._named import Alternating, Cyclic, Dihedral, Icosahedral, Octahedral, Quaternion, Symmetric, Tetrahedral
from ._products import direct_product

FAMILIES: dict[str, Callable[[int], FiniteGroup]] = {
    "C": Cyclic,
    "D": Dihedral,
    "S": Symmetric,
    "A": Alternating,
}
SINGLE: dict[str, Callable[[], FiniteGroup]] = {
    "Q8": Quaternion,
    "T": Tetrahedral,
    "O": Octahedral,
    "Oh": lambda: Octahedral(reflections=True),
    "I": Icosahedral,
    "Ih": lambda: Icosahedral(reflections=True),
}


def factors_of(name: str) -> list[str]:
    """The factors of a product, without optional parentheses and underscores.

    >>> factors_of("C_3 x SO(3)")
    ['C3', 'SO3']
    """
    parts = re.split(r"\s+x\s+|\s*×\s*", name.strip())
    return [part.strip().replace("(", "").replace(")", "").replace("_", "") for part in parts]


def finite_by_name(name: str, *, others: tuple[str, ...] = ()) -> FiniteGroup:
    """The finite group with this name. The error for unknown names lists all known ones, and ``others``.

    >>> finite_by_name("C3 x S3").order
    18
    """
    factors = [_factor(part, name, others) for part in factors_of(name)]
    return factors[0] if len(factors) == 1 else direct_product(*factors)


def _factor(plain: str, full_name: str, others: tuple[str, ...]) -> FiniteGroup:
    if plain in SINGLE:
        return SINGLE[plain]()
    match = re.fullmatch(r"([A-Z])(\d+)", plain)
    if match and match[1] in FAMILIES:
        try:
            return FAMILIES[match[1]](int(match[2]))
        except InputError as error:
            raise ParseError("parse", expected=error.expected, got=repr(full_name), fix=error.fix) from error
    raise ParseError(
        "parse",
        expected=f"a group such as {', '.join((*(f'{f}4' for f in FAMILIES), *SINGLE, *others))}",
        got=repr(full_name),
        fix="Join factors with ' x ', as in 'C3 x S3'. For any other group, use FiniteGroup.from_permutations.",
    )
