"""``intertwine list``: what there is to choose from."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

_KINDS = ("layers", "datasets", "experiments", "groups")


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command("list", epilog="Example:  intertwine list layers\nintertwine list groups --json")(list_kind)


def list_kind(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(_KINDS)}.", autocompletion=lambda: _KINDS)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """List the layers, datasets, experiments or groups that are there, each with a line about it.

    A layer of your own that is registered, as with any other registered thing, appears by itself.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..errors import InputError

    if kind not in _KINDS:
        raise InputError(
            "intertwine list", expected=f"one of {', '.join(_KINDS)}", got=repr(kind), fix="See intertwine list --help."
        )
    rows = {"layers": _layers, "datasets": _datasets, "experiments": _experiments, "groups": _groups}[kind]()
    if as_json:
        typer.echo(json.dumps({kind: rows}, indent=2, ensure_ascii=False))
        return
    console = Console()
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in rows:
        table.add_row(*map(Text, row.values()))  # as text: brackets in a formula are no markup
    (console if console.is_terminal else Console(width=160)).print(table)


def _layers() -> list[dict[str, str]]:
    from .. import relaxed  # its layers enter the list when it is imported
    from ..nn import LAYERS, Exact

    found = []
    for name in sorted(LAYERS):
        layer = LAYERS[name]
        examples = list(layer.examples())
        spaces = dict.fromkeys(_space_of(example.in_type.space.name) for example in examples)
        exact = sum(isinstance(example.claim, Exact) for example in examples)
        claim = "exact" if exact == len(examples) else "exact or approximate" if exact else "approximate"
        if issubclass(layer, relaxed.RelaxedLayer):
            groups = dict.fromkeys(name for each in examples for name in getattr(each.claim, "shares", ()))
            claim = f"relaxed ({', '.join(groups)})"
        found.append({"name": name, "on": ", ".join(spaces), "claim": claim, "what": _first_line(layer.__doc__)})
    return found


def _space_of(name: str) -> str:
    """The kind of a space without its group."""
    return name.split("(")[0] if "/" not in name else "G/H"


def _datasets() -> list[dict[str, str]]:
    from ..data import describe, names

    return [{"name": name, "what": describe(name).about, "files": describe(name).files} for name in names()]


def _experiments() -> list[dict[str, str]]:
    from ..experiments import experiments

    return [{"name": e.name, "what": e.title, "reference": e.reference} for e in experiments().values()]


def _groups() -> list[dict[str, str]]:
    from ..groups import GROUPS

    named = GROUPS.values()
    names = [f"{group.name}1, {group.name}2, …" if group.numbered else group.name for group in named]
    rows = [
        {"name": name, "what": group.about, "parse": group.example} for name, group in zip(names, named, strict=True)
    ]
    return [*rows, {"name": "products", "what": "direct products of finite groups", "parse": "C3 x S3"}]


def _first_line(doc: str | None) -> str:
    """The first line of a docstring, without the marks of its markup."""
    line = (doc or "").strip().splitlines()[0].rstrip(".")
    return re.sub(r":\w+:`~?([^`]*)`", r"\1", line).replace("``", "")
