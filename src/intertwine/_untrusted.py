"""Readers for JSON and YAML from untrusted sources, with bounds on length, depth and size after expansion.

Anything wrong with such a file raises an :class:`InputError`. A parser's own errors, including its recursion limit,
never reach the caller.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import InputError

MAX_JSON_BYTES = 256 * 2**20
"""Maximum number of bytes of a JSON file. The largest audits and exported programs have some ten million."""

MAX_YAML_BYTES = 2**20
MAX_YAML_DEPTH = 50
MAX_YAML_NODES = 100_000
MAX_NUMBER_LENGTH = 1000
"""Maximum number of characters of a number in YAML. The time to parse one grows with the square of its length."""


def read_bounded(path: str | os.PathLike[str], *, max_bytes: int) -> bytes:
    """The content of a file of at most ``max_bytes`` bytes. Never reads more, whatever length the file reports.

    A missing or unreadable file raises the usual OSError.
    """
    with open(path, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise InputError(str(path), expected=f"a file of at most {max_bytes} bytes", got="a longer one")
    return content


def read_json(path: str | os.PathLike[str], *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """The value in a JSON file."""
    return parse_json(read_bounded(path, max_bytes=max_bytes), caller=str(path))


def parse_json(text: str | bytes, *, caller: str) -> Any:
    """The value of a JSON text.

    >>> parse_json('{"a": [1, 2.5]}', caller="example")
    {'a': [1, 2.5]}
    >>> parse_json("[" * 100_000, caller="example")
    Traceback (most recent call last):
    ...
    intertwine.errors.InputError: example: expected JSON; got brackets nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        reason = "brackets nested too deeply"
    except ValueError as error:  # bad syntax, invalid UTF-8, numbers with thousands of digits
        reason = str(error)
    raise InputError(caller, expected="JSON", got=reason)


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The value in a YAML file."""
    return parse_yaml(read_bounded(path, max_bytes=MAX_YAML_BYTES), caller=str(path))


def parse_yaml(text: str | bytes, *, caller: str) -> Any:
    r"""The value of a YAML text of plain values. Each alias counts as much as what it stands for.

    >>> parse_yaml("lr: 0.1\nlayers: [1, 2]", caller="example")
    {'lr': 0.1, 'layers': [1, 2]}
    """
    import yaml

    reason = "a longer one" if len(text) > MAX_YAML_BYTES else ""
    try:
        reason = reason or _excess(yaml, text)
        if not reason:
            return yaml.safe_load(text)
    except RecursionError:
        reason = "values nested too deeply"
    except (yaml.YAMLError, ValueError) as error:  # ValueError: impossible dates, numbers with thousands of digits
        reason = " ".join(str(error).split())
    raise InputError(
        caller,
        expected=f"YAML of at most {MAX_YAML_BYTES} bytes and {MAX_YAML_NODES} values, {MAX_YAML_DEPTH} deep",
        got=reason,
    )


def _excess(yaml: Any, text: str | bytes) -> str:
    """The bound that a YAML text exceeds, in words; empty if none.

    Reads the text as a stream of events, each of which is cheap, before any value is built.
    """
    sizes: dict[str, int] = {}  # how many values each anchor stands for, with the aliases inside it expanded
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]  # the anchor of each open collection, and its size so far
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        size = 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > MAX_YAML_DEPTH:
                return "values nested too deeply"
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                return f"an alias {event.anchor!r} of a value that is not complete before it"
            size = sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
            if event.anchor is not None:
                sizes[event.anchor] = size
            if len(event.value) > MAX_NUMBER_LENGTH and event.style is None and event.value[0] in "+-.0123456789":
                return f"a number of {len(event.value)} characters"
        anchor, total = open_nodes[-1]
        open_nodes[-1] = (anchor, total + size)
        if total + size > MAX_YAML_NODES:
            return "more values, counting what aliases stand for"
    return ""


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors in a safetensors file, by name. A damaged file raises an InputError.

    The format holds only numbers, and its reader checks that every tensor lies within the file.
    """
    from safetensors.torch import load_file

    with _damaged(path):
        return dict(load_file(path))


def read_metadata(path: Path) -> dict[str, str]:
    """The texts in a safetensors file, by name. A damaged file raises an InputError."""
    from safetensors import safe_open

    with _damaged(path), safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise InputError(
            str(path), expected="a safetensors file", got=str(error), fix="Save or copy it again."
        ) from None
