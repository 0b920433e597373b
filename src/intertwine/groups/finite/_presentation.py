"""Groups from generators and relations, by sympy's coset enumeration. (torch depends on sympy.)"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...errors import GroupLawError, ParseError

_MAX_COSETS = 20_000


def permutations_of(letters: str, relations: Sequence[str]) -> list[list[int]]:
    """How each generator permutes the group's elements, as lists of images."""
    from sympy.combinatorics.fp_groups import FpGroup
    from sympy.combinatorics.free_groups import free_group

    names = re.findall(r"[A-Za-z]\w*", letters)
    if not names:
        raise ParseError(
            "from_presentation",
            expected="one or more names of generators, such as 'a b'",
            got=repr(letters),
        )
    free, *generators = free_group(", ".join(names))
    words = [_word(relation, dict(zip(names, generators, strict=True)), free.identity) for relation in relations]
    try:
        cosets: Any = FpGroup(free, words).coset_enumeration([], max_cosets=_MAX_COSETS)
    except ValueError as error:
        raise GroupLawError(
            "from_presentation",
            expected="relations of a finite group",
            got=f"an enumeration that did not close ({error})",
            fix="Add the relations that make the group finite, such as a^n.",
        ) from error
    cosets.compress()
    cosets.standardize()
    # sympy's columns are generator, inverse, generator, inverse, ... It acts from the right; taking the inverses turns
    # this into an action from the left.
    return [[row[2 * k + 1] for row in cosets.table] for k in range(len(names))]


def _word(text: str, names: dict[str, Any], identity: Any) -> Any:
    """Read ``(a*b)^2`` or ``a b a^-1`` without evaluating it as Python."""
    tokens = re.findall(r"[A-Za-z]\w*|\^\s*-?\d+|[()]|\S", text.replace("*", " ").replace("·", " "))
    stack: list[Any] = [identity]
    last: list[Any] = [None]
    for token in tokens:
        if token in names:
            last[-1] = names[token]
            stack[-1] = stack[-1] * names[token]
        elif token == "(":
            stack.append(identity)
            last.append(None)
        elif token == ")" and len(stack) > 1:
            inner = stack.pop()
            last.pop()
            last[-1] = inner
            stack[-1] = stack[-1] * inner
        elif token.startswith("^") and last[-1] is not None:
            stack[-1] = stack[-1] * last[-1] ** -1 * last[-1] ** int(token[1:])
            last[-1] = None
        else:
            raise ParseError(
                "from_presentation",
                expected=f"words in {', '.join(names)} with ^, *, and parentheses",
                got=f"{token!r} in {text!r}",
                fix="Write relations such as 'a^4' or '(a*b)^2', each equal to the identity.",
            )
    if len(stack) != 1:
        raise ParseError("from_presentation", expected="matching parentheses", got=repr(text))
    return stack[0]
