"""``intertwine explore``: an interactive page, served to this machine only."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(epilog="Example:  intertwine explore --no-browser")(explore)


def explore(
    demo: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of 'intertwine demo'; shows its network and its audits."),
    ] = None,
    audit: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="The folder of 'intertwine audit --out', or a parent of it; repeatable."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open an interactive page: turn a picture before two networks, kernels, relaxed layers, capsules, audits.

    The page is served on 127.0.0.1, to this machine only, and loads nothing from elsewhere. Without --demo, it uses the
    folder 'demo' if there is one. Ctrl-C stops it.
    """
    for option, folders in (("--demo", [demo] if demo is not None else []), ("--audit", audit or [])):
        for folder in folders:
            if not folder.is_dir():
                raise InputError(option, expected="a folder", got=str(folder))
    from ..report import Explorer

    if demo is None and Path("demo").is_dir():
        demo = Path("demo")
    try:
        with Explorer(port, demo=demo, audits=audit or ()) as server:
            typer.echo(f"Open {server.url}  (Ctrl-C stops it)")
            if browser and _has_screen():
                webbrowser.open(server.url)
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        typer.echo("stopped")


def _has_screen() -> bool:
    """Whether a browser would open in a window; otherwise a text browser would take over the terminal."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
