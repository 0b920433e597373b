"""``intertwine theory``: the classification of known networks, each row checked live."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer

_COLUMNS = ("group", "stabilizer", "base", "rho", "papers", "builder", "layer", "trained_by")


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(epilog="Example:  intertwine theory")(theory)


def theory(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Print the table of known equivariant networks by (G, H, rho), and check one instance of each row.

    A layer maps fields on G/H to fields on G/H; the type of a field is the representation rho of H. Each row names the
    class in this package that builds its kernels, the layer that applies them, and the experiment, the example or the
    page that trains such a network. The check solves for the kernels of one instance. Their number, also
    for a larger filter or band limit, must be the one that characters predict. The map must commute with motions of the
    lattice on a random field, and with random elements of the row's group on a smooth field; the largest relative error
    of each is printed. Filters are sampled if the group does not map the lattice to itself, and then commute only up to
    sampling.

    Exit code 1 if a check fails.
    """
    from rich.table import Table

    from .._console import wide_console
    from ..experiments import classification

    console = wide_console(columns=200)
    rows = classification()
    with console.status("checking", spinner="line") if console.is_terminal else nullcontext():
        results = [(row, row.check() if row.check is not None else None) for row in rows]
    failed = [row for row, check in results if check is not None and not check.passed]
    if as_json:
        out = [
            {
                **{key: getattr(row, key) for key in _COLUMNS},
                "check": {**asdict(check), "passed": check.passed} if check is not None else None,
            }
            for row, check in results
        ]
        typer.echo(json.dumps({"rows": out, "failed": len(failed)}, indent=2, ensure_ascii=False))
    else:
        table = Table(box=None, pad_edge=False)
        numbers = ("kernels", "lattice", "random")
        for name in ("G", "H", "base", "ρ", "papers", "built by", "layer", "trained by", *numbers):
            table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
        for row, check in results:
            shown = ["–"] * 3
            if check is not None:
                lattice = "–" if check.error is None else f"{check.error:.0e}"
                shown = [f"{check.dim}", lattice, f"{check.random_error:.0e}"]
                shown[0] = shown[0] if check.passed else f"FAILED {shown[0]}"
            table.add_row(*(getattr(row, column) for column in _COLUMNS), *shown)
        console.print(table)
        checked = sum(check is not None for _, check in results)
        typer.echo(
            f"{checked} of {len(rows)} rows checked: kernels counted against characters; relative error under motions "
            f"of the lattice, and under random elements of the row's group. {len(failed)} failed."
        )
    if failed:
        raise typer.Exit(1)
