"""Hash, normalize and flatten JSON values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .._checked import checked
from ..errors import InputError


@checked
def content_hash(value: object) -> str:
    """SHA-256 of a JSON value, independent of the order of its keys: 64 hexadecimal digits.

    >>> content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    True
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError("content_hash", expected="a JSON value", got=str(error)) from None
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """The value after a round trip through JSON."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise InputError(
            "fit",
            expected="`about`, and the extra state of modules, as tensors or JSON values",
            got=str(error),
            fix="Checkpoints are not pickled. Convert it to numbers, strings, lists and dictionaries.",
        ) from None


def flat(name: str, value: Any) -> dict[str, Any]:
    """Flatten nested dictionaries into one with dotted names.

    >>> flat("about", {"model": {"width": 3}})
    {'about.model.width': 3}
    """
    if not isinstance(value, Mapping) or not value:
        return {name: value}
    return {key: leaf for part, inner in value.items() for key, leaf in flat(f"{name}.{part}", inner).items()}
