"""Representations and subgroups by name: ``parse_representation(G, "3*trivial + 2*regular")``."""

from __future__ import annotations

import re

from ..._checked import checked
from ..._numerics import require_memory
from ...errors import InputError, ParseError, SubgroupError
from .._representation import Representation, direct_sum
from ..finite._finite_group import FiniteGroup
from ..finite._subgroup import Subgroup
from ..lie._compact import CompactLieGroup
from ..lie._planar import O2, SO2
from ..lie._spatial import O3, SO3

_MAX_LISTED = 12
_MAX_ORDER_TO_LIST = 240
_MAX_PARENTHESES = 100
_IRREP = re.compile(r"irrep\s*\(?\s*(\d+)\s*(?:,\s*([+-]?1)\s*)?\)?")
_E3NN = re.compile(r"(?:(\d+)\s*[x*·×]\s*)?(\d+)([eo])")


@checked
def parse_representation(group: FiniteGroup | CompactLieGroup, text: str) -> Representation:
    """The representation of ``group`` with this name.

    The text is a sum of terms, each with an optional number of copies. A term is ``trivial``, ``regular``, ``standard``
    (the matrices of a group of motions), ``irrep2`` or ``quotient:C2`` (functions on the cosets of a subgroup, see
    :func:`parse_subgroup`). ``irrep2`` has frequency 2 for C_n, D_n, SO(2) and O(2), and degree 2 for SO(3) and O(3);
    ``irrep(2,-1)`` also names the parity. For any other finite group it is ``group.irreps[2]``. A sum in parentheses
    counts as one field. For O(3), the notation of e3nn is understood as well: ``8x0e + 4x1o``. Names printed by
    representations can be parsed too.

    >>> from intertwine.groups import Dihedral
    >>> parse_representation(Dihedral(4), "3*trivial + 2 regular").dim
    19
    >>> parse_representation(Dihedral(4), "quotient:C4 + irrep1")
    D4: quotient by C4 + irrep(1)
    >>> from intertwine.groups import O3
    >>> parse_representation(O3(), "8x0e + 4x1o")
    O(3): 8 trivial + 4 irrep(1, -1)
    """
    terms = [_term(group, term, text) for term in _outer_terms(text)]
    channels = sum(copies * rho.dim for copies, rho in terms)
    require_memory(
        channels**2,
        caller=f"representation {text!r} of {group.name}",
        what=f"{channels} channels, one matrix of size {channels} x {channels}",
        fix="Use fewer copies.",
    )
    return direct_sum(copies * rho for copies, rho in terms)


@checked
def parse_subgroup(group: FiniteGroup, text: str) -> Subgroup:
    """The subgroup of ``group`` with this name.

    The text is ``trivial``, ``whole``, a list of generators such as ``1,4``, or a type such as ``C2``. ``C2#2`` is the
    second class of that type in ``group.subgroup_classes()``.

    >>> from intertwine.groups import Dihedral
    >>> [parse_subgroup(Dihedral(4), name).embedding.tolist() for name in ("C2", "C2#2", "2,4", "trivial")]
    [[0, 2], [0, 4], [0, 2, 4, 6], [0]]
    """
    plain = text.strip()
    if plain == "trivial":
        return Subgroup(group, [0], name="C1")
    if plain == "whole":
        return Subgroup(group, range(group.order), name=group.name)
    if re.fullmatch(r"\d+(\s*,\s*\d+)*", plain):
        generators = [int(g) for g in plain.split(",")]
        return Subgroup(group, group.subgroup(generators).embedding, name=f"<{','.join(map(str, generators))}>")
    try:
        return group.find_subgroup(plain)
    except InputError as error:
        listed = ", ".join(c.name for c in group.subgroup_classes())
        raise SubgroupError(
            f"subgroup of {group.name}",
            expected=f"trivial, whole or one of {listed}",
            got=repr(text),
            fix=f"You can also list generators by number, 0 to {group.order - 1}, as in 1,4.",
        ) from error


def _outer_terms(text: str) -> list[str]:
    """The text split at each + outside parentheses, which also hold the signs of parities."""
    terms, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "+" and depth == 0:
            terms.append("")
        else:
            terms[-1] += character
    return [term.strip() for term in terms]


def _term(group: FiniteGroup | CompactLieGroup, term: str, text: str) -> tuple[int, Representation]:
    """The number of copies and the summand."""
    if isinstance(group, O3) and (match := _E3NN.fullmatch(term)):
        degree, parity = int(match[2]), 1 if match[3] == "e" else -1
        return int(match[1] or 1), group.irrep(degree, parity)
    match = re.fullmatch(r"(?:(\d+)\s*[*·×]?\s*)?(\S.*)", term)
    if match is None:
        raise _unknown(group, text, term)
    return int(match[1] or 1), _atom(group, match[2], text)


def _atom(group: FiniteGroup | CompactLieGroup, name: str, text: str) -> Representation:
    if name == "trivial":
        return group.trivial
    if name.startswith("(") and name.endswith(")") and name.count("(") < _MAX_PARENTHESES:
        return parse_representation(group, name[1:-1]).one_field()
    if isinstance(group, CompactLieGroup):
        return _lie_atom(group, name, text)
    if name == "regular":
        return group.regular
    if name == "standard" and group.standard is not None:
        return group.standard
    if match := _IRREP.fullmatch(name):
        for psi in group.irreps:
            if psi.name in _irrep_names(int(match[1]), match[2]):
                return psi
    if match := re.fullmatch(r"quotient(?:\s*:\s*|\s+by\s+)(\S.*)", name):
        return group.quotient(parse_subgroup(group, match[1]))
    raise _unknown(group, text, name)


def _irrep_names(number: int, parity: str | None) -> list[str]:
    """What the irrep may be called, by its number in a list, or by its frequency and parity."""
    sign = f"{int(parity):+d}" if parity else "+1"
    plain = [f"irrep{number}", f"irrep({number})"] if parity is None else []
    return [*plain, f"irrep({number}, {sign})", *(["trivial"] if number == 0 and sign == "+1" else [])]


def _lie_atom(group: CompactLieGroup, name: str, text: str) -> Representation:
    if name == "standard":
        return group.standard
    if match := _IRREP.fullmatch(name):
        degree, parity = int(match[1]), int(match[2]) if match[2] else None
        if isinstance(group, SO2 | SO3) and parity is None:
            return group.irrep(degree)
        if isinstance(group, O2 | O3):
            return group.irrep(degree, parity)
    raise _unknown(group, text, name)


def _unknown(group: FiniteGroup | CompactLieGroup, text: str, term: str) -> ParseError:
    if isinstance(group, CompactLieGroup):
        return ParseError(
            "parse_representation",
            expected=f"a representation of {group.name}: trivial, standard, irrep1, irrep2, ...",
            got=repr(term) + (f" in {text!r}" if term != text.strip() else ""),
            fix="Write sums and copies as in '2*trivial + irrep1', and parities as in irrep(1,-1).",
        )
    standard = "standard, " if group.standard is not None else ""
    return ParseError(
        "parse_representation",
        expected=f"a representation of {group.name}: trivial, regular, {standard}quotient:SUBGROUP{_irreps_of(group)}",
        got=(repr(term) if term else "an empty term") + (f" in {text!r}" if term != text.strip() else ""),
        fix="Write sums and copies as in '3*trivial + 2*regular'.",
    )


def _irreps_of(group: FiniteGroup) -> str:
    if group.order > _MAX_ORDER_TO_LIST:  # computing all irreps takes too long for an error message
        return ", irrep1, irrep2, ..."
    listed = [f"{rho.name} (dim {rho.dim}, {rho.kind})" for rho in group.irreps[1:_MAX_LISTED]]
    if len(group.irreps) > _MAX_LISTED:
        listed.append(f"... {group.irreps[-1].name}")
    return "".join(f", {item}" for item in listed)
