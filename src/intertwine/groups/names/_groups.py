"""Groups by name: ``parse("D4")``, ``parse("C3 x S3")``, ``parse("SO(3)")``."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..._checked import checked
from ...errors import InputError, ParseError
from .._group import Group
from ..finite._finite_group import FiniteGroup
from ..finite._named import Alternating, Cyclic, Dihedral, Icosahedral, Octahedral, Quaternion, Symmetric, Tetrahedral
from ..finite._products import direct_product
from ..lie import O2, O3, SO2, SO3
from ..lie._euclidean import SE2, SE3, Translations

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
    """The group of this name; factors of a direct product are joined by ``x``.

    >>> parse("D4").order, parse("C3 x S3").order, parse("SO(3)").name
    (8, 18, 'SO(3)')
    """
    factors = [_factor(part, name) for part in re.split(r"\s+x\s+|\s*×\s*", name.strip())]
    if len(factors) == 1:
        return factors[0]
    finite = [g for g in factors if isinstance(g, FiniteGroup)]
    if len(finite) < len(factors):
        raise ParseError(
            "parse", expected="finite factors in a product", got=repr(name), fix="Use the Lie group alone."
        )
    return direct_product(*finite)


@checked
def parse_finite(name: str) -> FiniteGroup:
    """The finite group of this name."""
    group = parse(name)
    if not isinstance(group, FiniteGroup):
        raise ParseError("parse", expected="a finite group", got=name, fix="Use a finite subgroup such as C8 or D8.")
    return group


def _factor(text: str, whole: str) -> Group:
    plain = text.strip().replace("(", "").replace(")", "").replace("_", "")
    if plain in SINGLE:
        return SINGLE[plain]()
    if plain in LIE:
        return LIE[plain]()
    match = re.fullmatch(r"([A-Z])(\d+)", plain)
    if match and match[1] in FAMILIES:
        try:
            return FAMILIES[match[1]](int(match[2]))
        except InputError as error:
            raise ParseError("parse", expected=error.expected, got=repr(whole), fix=error.fix) from error
    raise ParseError(
        "parse",
        expected=f"a group such as {', '.join(f'{f}4' for f in FAMILIES)}, {', '.join((*SINGLE, *LIE))}",
        got=repr(whole),
        fix="Join factors with ' x ', as in 'C3 x S3'; for any other group use FiniteGroup.from_permutations.",
    )
