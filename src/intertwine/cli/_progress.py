"""The progress of a long command, and its warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bar(name: str, *, quiet: bool, width: int = 28, lines: bool = False) -> Iterator[Callable[..., None]]:
    """A bar on stderr, as a function of the current title, the number of finished parts and that of all parts.

    Args:
        name: the first title.
        quiet: whether to show nothing.
        width: the number of letters reserved for titles.
        lines: whether to print one line per title where there is no terminal, for logs.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if lines and not quiet and not console.is_terminal:
        plain = Console(stderr=True, soft_wrap=True, highlight=False)
        yield lambda title, done, total: plain.print(f"[{done + 1}/{total}] {title}", markup=False)
        return
    columns = (TextColumn(f"{{task.description:<{width}}}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(name)
        yield lambda title, done, total: bar.update(task, description=title, completed=done, total=total)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show warnings (skipped files, halved batches) as lines, each once."""
    from rich.console import Console

    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = str(message).splitlines()[0]
        if issubclass(category, UserWarning | RuntimeWarning) and text not in shown:
            shown.add(text)
            # Printed by rich, which keeps the progress bar intact.
            Console(stderr=True, soft_wrap=True, highlight=False).print(f"warning: {text}", markup=False)

    with warnings.catch_warnings():
        warnings.showwarning = show
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        yield
