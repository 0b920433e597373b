"""``intertwine demo``: all five verbs on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._stopping import resuming_in


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(epilog="Example:  intertwine demo --out demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for index.html and the runs.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="One epoch each, to check that everything runs.")] = False,
) -> None:
    """Discover, impose, relax, learn and measure symmetry on embedded digits, and write a page about it.

    Takes a few minutes and downloads nothing. Every number is in results.json. An interrupted demo resumes.
    """
    from ..demo import run_demo, save_demo
    from ..report import write_demo_page

    with resuming_in(out):
        result = run_demo(out / "runs", say=lambda text: typer.echo(text), quick=quick)
    save_demo(out, result)
    page = write_demo_page(out / "index.html", result)
    for name, discovery in result.discoveries.items():
        typer.echo(f"discover  {name}: {discovery.sentence}")
    for verb, rows in result.verbs.items():
        for row in rows:
            numbers = "   ".join(f"{name} {row.mean(name):.4g}" for name in row.values)
            typer.echo(f"{verb:<8}  {row.name:<27} {numbers}")
    typer.echo(f"Open {page}, or explore interactively: intertwine explore --demo {out}")
