"""Values on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..errors import InputError


def parse_settings(texts: Sequence[str] | None, *, option: str) -> dict[str, Any]:
    """From texts NAME=VALUE, the values read as JSON where they are; numbers with commas between them are a list.

    >>> parse_settings(["lr=0.01", "network=mlp", "widths=8,16"], option="--set")
    {'lr': 0.01, 'network': 'mlp', 'widths': [8, 16]}
    """
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(option, expected="KEY=VALUE", got=repr(text), fix=f"For example {option} lr=0.01.")
        try:
            found[key] = _value(value)
        except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
            reason = "brackets nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InputError(option, expected=f"a value of {key}", got=reason, fix="Check what you gave.") from None
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return _numbers(text) or text


def _numbers(text: str) -> list[int | float] | None:
    """Numbers between commas; None if the text is anything else."""
    try:
        found = json.loads(f"[{text}]")
    except json.JSONDecodeError:
        return None
    plain = all(isinstance(item, int | float) and not isinstance(item, bool) for item in found)
    return found if plain and found else None
