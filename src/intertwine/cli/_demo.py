"""``intertwine demo``: all four verbs on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(epilog="Example:  intertwine demo --out demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for index.html and the runs.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="One epoch each, to check that everything runs.")] = False,
) -> None:
    """Train, relax, audit and symmetrize small networks on embedded digits, and write a page about it.

    Takes a few minutes on two cores and downloads nothing. An interrupted demo resumes.
    """
    from ..experiments import run_demo, save_demo
    from ..report import write_demo_page

    result = run_demo(out / "runs", say=lambda text: typer.echo(text), quick=quick)
    save_demo(out, result)
    page = write_demo_page(out / "index.html", result)
    for network in result.networks:
        typer.echo(
            f"{network.name:<30} upright {network.upright:6.1%}   turned {network.turned:6.1%}   "
            f"invariance error {network.error:.2g}"
        )
    typer.echo(f"Open {page}, or explore interactively: intertwine explore --demo {out}")
