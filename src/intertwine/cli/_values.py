"""Values on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..errors import InputError


def parse_settings(texts: Sequence[str] | None, *, option: str) -> dict[str, Any]:
    """Parse texts NAME=VALUE. Values are JSON or plain text; comma-separated numbers are a list.

    >>> parse_settings(["lr=0.01", "network=mlp", "widths=8,16"], option="--set")
    {'lr': 0.01, 'network': 'mlp', 'widths': [8, 16]}
    """
    settings = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(option, expected="KEY=VALUE", got=repr(text), fix=f"For example {option} lr=0.01.")
        try:
            settings[key] = _value(value)
        except (RecursionError, ValueError) as error:  # ValueError: a number with thousands of digits
            reason = "brackets nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InputError(option, expected=f"a value of {key}", got=reason) from None
    return settings


def parse_seconds(text: str, *, option: str) -> float:
    """A time such as 60s, 10m or 1h in seconds.

    >>> parse_seconds("10m", option="--budget"), parse_seconds("90", option="--budget")
    (600.0, 90.0)
    """
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise InputError(option, expected="a time such as 60s, 10m or 1h", got=repr(text))
    return seconds


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return _numbers(text) or text


def _numbers(text: str) -> list[int | float] | None:
    """Comma-separated numbers; None for any other text."""
    try:
        numbers = json.loads(f"[{text}]")
    except json.JSONDecodeError:
        return None
    plain = all(isinstance(item, int | float) and not isinstance(item, bool) for item in numbers)
    return numbers if plain and numbers else None
