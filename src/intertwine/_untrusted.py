"""JSON and YAML that anybody may have written, read with bounds on length, depth and size after expansion.

Whatever is wrong with such a file becomes one :class:`InputError`; a parser's own errors, its recursion limit included,
never reach the reader.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .errors import InputError

LONGEST_JSON = 256 * 2**20
"""Bytes of JSON that are read at most; the largest audits and exported programs have some ten million."""

LONGEST_YAML = 2**20
DEEPEST_YAML = 50
MOST_YAML_NODES = 100_000
LONGEST_NUMBER = 1000
"""Digits of a number in YAML; longer ones take time that grows with their square."""


def read_bounded(path: str | os.PathLike[str], *, longest: int) -> bytes:
    """The content of a file of at most ``longest`` bytes; never more is read, whatever the file says of its length.

    A file that is not there, or may not be read, is the usual OSError.
    """
    with open(path, "rb") as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise InputError(
            str(path), expected=f"a file of at most {longest} bytes", got="a longer one", fix="Check that it is whole."
        )
    return content


def read_json(path: str | os.PathLike[str], *, longest: int = LONGEST_JSON) -> Any:
    """The value in a JSON file."""
    return parse_json(read_bounded(path, longest=longest), caller=str(path))


def parse_json(text: str | bytes, *, caller: str) -> Any:
    """The value of a JSON text.

    >>> parse_json('{"a": [1, 2.5]}', caller="example")
    {'a': [1, 2.5]}
    >>> parse_json("[" * 100_000, caller="example")
    Traceback (most recent call last):
    ...
    intertwine.errors.InputError: example: expected JSON; got brackets nested too deeply. Write the file again.
    """
    try:
        return json.loads(text)
    except RecursionError:
        reason = "brackets nested too deeply"
    except ValueError as error:  # bad syntax, bytes that are no text, numbers of thousands of digits
        reason = str(error)
    raise InputError(caller, expected="JSON", got=reason, fix="Write the file again.")


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The value in a YAML file."""
    return parse_yaml(read_bounded(path, longest=LONGEST_YAML), caller=str(path))


def parse_yaml(text: str | bytes, *, caller: str) -> Any:
    r"""The value of a YAML text of plain values; aliases count as often as what they stand for.

    >>> parse_yaml("lr: 0.1\nlayers: [1, 2]", caller="example")
    {'lr': 0.1, 'layers': [1, 2]}
    """
    import yaml

    reason = "a longer one" if len(text) > LONGEST_YAML else ""
    try:
        reason = reason or _excess(yaml, text)
        if not reason:
            return yaml.safe_load(text)
    except RecursionError:
        reason = "values nested too deeply"
    except (yaml.YAMLError, ValueError) as error:  # ValueError: impossible dates, numbers of thousands of digits
        reason = " ".join(str(error).split())
    raise InputError(
        caller,
        expected=f"YAML of at most {LONGEST_YAML} bytes and {MOST_YAML_NODES} values, {DEEPEST_YAML} deep",
        got=reason,
        fix="Correct the file at that place.",
    )


def _excess(yaml: Any, text: str | bytes) -> str:
    """What is too much in the text, told from its events, of which each is cheap; empty if nothing is."""
    sizes: dict[str, int] = {}  # of what each anchor stands for, aliases inside of it expanded
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]  # anchor, and size so far
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        size = 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > DEEPEST_YAML:
                return "values nested too deeply"
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                return f"an alias {event.anchor!r} of something that is not complete before it"
            size = sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
            if event.anchor is not None:
                sizes[event.anchor] = size
            if len(event.value) > LONGEST_NUMBER and event.style is None and event.value[0] in "+-.0123456789":
                return f"a number of {len(event.value)} characters"
        anchor, total = open_nodes[-1]
        open_nodes[-1] = (anchor, total + size)
        if total + size > MOST_YAML_NODES:
            return "more values, counting what aliases stand for"
    return ""


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors in a safetensors file, by name; one that is damaged is an InputError.

    The format holds nothing but numbers, and its reader checks that every tensor lies within the file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise InputError(
            str(path), expected="a safetensors file", got=str(error), fix="Save or copy it again."
        ) from None
