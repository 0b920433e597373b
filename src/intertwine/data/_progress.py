"""A progress bar for downloads and for reading many images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int, *, of_bytes: bool = False) -> Iterator[Callable[[int], object]]:
    """Show a bar with the time left, only on a terminal. Yields a function to call with each amount of progress."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    count = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)
