"""Ctrl-C: one line that says what happens next, and the exit code that shells give to a program that it ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

STOPPED = 130


@contextmanager
def resuming_in(out: Path | None) -> Iterator[None]:
    """Within the block, Ctrl-C ends a command that continues in this folder when it is run again."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        stop(interrupt, "" if out is None else f"; the same command continues in {out}")


def stop(interrupt: KeyboardInterrupt, more: str = "") -> NoReturn:
    """Say that the command stopped, unless the training loop has said it, and exit."""
    if not getattr(interrupt, "__notes__", None):
        after_the_key = "\n" if sys.stderr.isatty() else ""  # a terminal shows ^C
        typer.echo(f"{after_the_key}stopped{more}", err=True)
    raise typer.Exit(STOPPED) from None
