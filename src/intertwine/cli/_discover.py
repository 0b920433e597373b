"""``intertwine discover``: which symmetry does this data have, and how strictly should a network obey it?"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ._options import DATA_HELP, AddressOption, FolderOption
from ._progress import progress_bar, warnings_as_lines
from ._stopping import resuming_in
from ._values import parse_seconds


class Engine(StrEnum):
    """Where training runs are executed."""

    local = "local"
    process = "process"
    ray = "ray"


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(
        epilog="Example:  intertwine discover digits --symmetry c4 --samples 100 --seeds 1 --budget 2s --out discovery",
    )(discover)


def discover(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help=DATA_HELP),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write discover.html, .json, .csv and net.py here; an interrupted search resumes.",
        ),
    ] = None,
    symmetry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="hflip, vflip, transpose, c2, c4, d4, rotation, shifts, scale, colors, hue, brightness, negative, or "
            "another group such as C8. May be repeated; default: all that apply to the images.",
        ),
    ] = None,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Approximate time limit: 60s, 10m, 1h.")] = "10m",
    samples: Annotated[int, typer.Option(min=1, help="Maximum number of images.")] = 10_000,
    seeds: Annotated[int, typer.Option(min=1, help="Training runs per network.")] = 3,
    no_labels: Annotated[
        bool, typer.Option("--no-labels", help="Ignore labels; only ask whether moved images look alike.")
    ] = False,
    folder: FolderOption = None,
    size: Annotated[int | None, typer.Option(min=1, help="Resize images; needed if their sizes differ.")] = None,
    engine: Annotated[
        Engine, typer.Option(help="process uses several processes, ray a cluster; the result is the same.")
    ] = Engine.local,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes, with --engine process or ray; default: one per core."),
    ] = None,
    address: AddressOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print discover.json.")] = False,
) -> None:
    """Find out which symmetries data has, how strictly a network should obey each, and what that is worth.

    The verdict for each symmetry is impose, relax, leave or can't tell.
    """
    seconds = parse_seconds(budget, option="--budget")
    from ..discovery import discover as search

    progress = progress_bar("discover", quiet=as_json, width=60, lines=True)
    with resuming_in(out), progress as show, warnings_as_lines():
        result = search(
            data,
            symmetry,
            load_options={"folder": folder, "size": size},
            budget=seconds,
            max_samples=samples,
            seeds=seeds,
            use_labels=not no_labels,
            folder=out,
            engine=engine.value,
            workers=workers,
            address=address,
            progress=show,
        )
    if out is not None:
        result.save(out)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    from .._console import wide_console
    from ..report import discovery_table

    wide_console().print(discovery_table(result))
    if out is not None:
        names = ["discover.html", "discover.json", "discover.csv", *(["net.py"] if result.program else [])]
        typer.echo(f"Written to {out}: {', '.join(names)}")
