"""``intertwine list``: the layers, models, datasets, experiments and groups."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Annotated

import typer

_KINDS = ("layers", "models", "datasets", "experiments", "groups")


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command("list", epilog="Example:  intertwine list layers\nintertwine list groups --json")(list_kind)


def list_kind(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(_KINDS)}.", autocompletion=lambda: _KINDS)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """List the layers, models, datasets, experiments or groups, each with a one-line description."""
    from rich.table import Table
    from rich.text import Text

    from .._console import wide_console
    from ..errors import InputError

    if kind not in _KINDS:
        raise InputError(
            "intertwine list", expected=f"one of {', '.join(_KINDS)}", got=repr(kind), fix="See intertwine list --help."
        )
    listed = (_layers, _models, _datasets, _experiments, _groups)
    rows = dict(zip(_KINDS, listed, strict=True))[kind]()
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
    """Read from the sources, because importing the layers imports torch, which takes longer than all the rest."""
    package = Path(__file__).parents[1]
    rows = []
    for room in ("nn", "relaxed"):
        texts = (file.read_text(encoding="utf-8") for file in (package / room).rglob("_*.py"))
        for text in texts:
            for node in ast.parse(text).body if "@register_layer" in text else ():
                if isinstance(node, ast.ClassDef) and _is_registered(node):
                    rows.append({"name": node.name, "room": f"tw.{room}", "what": _first_line(ast.get_docstring(node))})
    return sorted(rows, key=lambda row: row["name"])


def _is_registered(node: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "register_layer" for each in node.decorator_list)


def _models() -> list[dict[str, str]]:
    from ..models import MODELS

    return [{"name": m.name, "what": m.about, "weights (10 classes)": f"{m.weights:,}"} for m in MODELS.values()]


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
