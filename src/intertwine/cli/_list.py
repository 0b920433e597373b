"""``intertwine list``: the layers, datasets, experiments and groups."""

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
    """List the layers, datasets, experiments or groups, each with a one-line description."""
    from rich.table import Table
    from rich.text import Text

    from ..errors import InputError
    from ..report import wide_console

    if kind not in _KINDS:
        raise InputError(
            "intertwine list", expected=f"one of {', '.join(_KINDS)}", got=repr(kind), fix="See intertwine list --help."
        )
    rows = {"layers": _layers, "datasets": _datasets, "experiments": _experiments, "groups": _groups}[kind]()
    if as_json:
        typer.echo(json.dumps({kind: rows}, indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in rows:
        table.add_row(*map(Text, row.values()))  # as text: brackets in a formula are no markup
    wide_console(columns=160).print(table)


def _layers() -> list[dict[str, str]]:
    from .. import relaxed  # importing it registers its layers
    from ..nn import LAYERS

    # Nothing is built here: an example of every layer takes seconds, because each one solves for its kernels.
    return [
        {
            "name": name,
            "room": "tw.relaxed" if issubclass(LAYERS[name], relaxed.RelaxedLayer) else "tw.nn",
            "what": _first_line(LAYERS[name].__doc__),
        }
        for name in sorted(LAYERS)
    ]


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
