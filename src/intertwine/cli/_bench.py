"""``intertwine bench``: what the layers cost on this machine, compared with plain torch."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..nn import Layer

_MODES = ("call", "training step")


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command(epilog="Example:  intertwine bench --layer ReLU --layer Linear --repeats 5")(bench)


def bench(
    layer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this layer (see 'intertwine list layers'); may be repeated."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All examples of each layer, not only the first.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Number of pairs of runs.")] = 15,
    batch: Annotated[int, typer.Option(min=1, help="Fields per batch.")] = 8,
    size: Annotated[int, typer.Option(min=5, max=38, help="Side of an image; volumes have half of it.")] = 24,
    threads: Annotated[int, typer.Option(min=1, help="Number of torch threads.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Measure on this machine what layers cost, compared with the plain torch modules that they export to.

    Each layer takes turns with its plain counterpart on the same input. Times are CPU milliseconds. The ratio (layer
    over plain) is the median over pairs, with its quartiles, which are stable on a busy machine where wall-clock times
    are not. A call is in evaluation mode; a training step is a call with gradients, and recomputes the filter.
    """
    import torch

    from ..testing import compare_with_plain

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for name, number, example in _progress(list(_examples(layer, every=every)), quiet=as_json):
        for mode in _MODES:
            comparison = compare_with_plain(example, training=mode != "call", repeats=repeats, batch=batch, size=size)
            rows.append(
                {
                    "layer": name,
                    "example": number,
                    "types": example.extra_repr(),
                    "what": mode,
                    "plain_ms": 1e3 * comparison.first,
                    "layer_ms": 1e3 * comparison.second,
                    "ratio": comparison.ratio,
                    "quartiles": list(comparison.spread),
                }
            )
    facts = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": threads,
        "repeats": repeats,
        "batch": batch,
    }
    torch.set_num_threads(before)
    if as_json:
        typer.echo(json.dumps({**facts, "rows": rows}, indent=2, ensure_ascii=False))
    else:
        _print(rows, facts)


def _examples(names: list[str] | None, *, every: bool) -> Iterator[tuple[str, int, Layer]]:
    from .. import relaxed  # importing it registers its layers
    from ..nn import LAYERS

    del relaxed
    for name in names or sorted(LAYERS):
        for number, example in enumerate(LAYERS[name].examples()):
            yield name, number, example
            if not every:
                break


def _progress(examples: list[Any], *, quiet: bool) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    hidden = quiet or not console.is_terminal
    yield from track(examples, description="measuring", console=console, transient=True, disable=hidden)


def _print(rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from .._console import wide_console

    table = Table(box=None, pad_edge=False)
    for title in ("layer", "types", "what", "plain ms", "layer ms", "ratio", "quartiles"):
        right = title.endswith("ms") or title in ("ratio", "quartiles")
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in rows:
        low, high = row["quartiles"]
        table.add_row(
            *(Text(_cut(row[key])) for key in ("layer", "types", "what")),
            f"{row['plain_ms']:.3f}",
            f"{row['layer_ms']:.3f}",
            f"{row['ratio']:.2f}",
            f"{low:.2f} – {high:.2f}",
        )
    wide_console(columns=150).print(table)
    typer.echo(
        f"CPU milliseconds, {facts['threads']} thread{'s' * (facts['threads'] != 1)}, batch {facts['batch']}, "
        f"{facts['repeats']} pairs; ratio: layer over plain. torch {facts['torch']}. The examples are small: "
        "below a tenth of a millisecond, the ratio compares the overhead of two calls, not two computations."
    )


def _cut(text: str, length: int = 46) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
