"""Values on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..errors import InputError


def parse_settings(texts: Sequence[str] | None, *, option: str) -> dict[str, Any]:
    """From texts NAME=VALUE, the values read as JSON where they are.

    >>> parse_settings(["lr=0.01", "network=mlp"], option="--set")
    {'lr': 0.01, 'network': 'mlp'}
    """
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(option, expected="KEY=VALUE", got=repr(text), fix=f"For example {option} lr=0.01.")
        try:
            found[key] = json.loads(value)
        except json.JSONDecodeError:
            found[key] = value
    return found
