"""An audit as tables for the terminal."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..._checked import checked
from ..._console import wide_console
from ...measure import METRICS, Audit, Gate, Reading
from .._numbers import significant
from .._terminal import heading, plain_table
from ._blocks import block_lines
from ._text import differences, interval, layer_lines, layer_metrics, metric_title

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

Judged = Sequence[tuple[Gate, Reading, bool]]


@checked
def audit_table(audit: Audit, judged: Judged = (), *, all_layers: bool = False) -> Group:
    """The verdicts, then the whole network, its blocks, the notes and the gates.

    Args:
        audit: the audit.
        judged: its gates.
        all_layers: a row for every layer instead of one per block.
    """
    from rich.console import Group
    from rich.text import Text

    about = f"{audit.network} on {audit.data or 'the given images'}: {audit.images} images"
    parts: list[RenderableType] = [heading(about)]
    style = {"symmetric": "green", "nearly symmetric": "yellow", "not symmetric": "red"}
    parts += [Text(str(verdict), style=style.get(verdict.state, "")) for verdict in audit.verdicts]
    parts += ["", _whole(audit), ""]
    every = layer_lines(audit.readings)
    lines = every if all_layers else block_lines(every)
    if lines:
        metrics = layer_metrics(lines)
        table = plain_table(
            ("layer" if all_layers else "block", False),
            ("kind", False),
            ("output", False),
            ("symmetry", False),
            *((metric_title(metric), True) for metric in metrics),
        )
        for line in lines:
            values = [significant(line.values[m].value) if m in line.values else "" for m in metrics]
            table.add_row(*(Text(text) for text in (line.layer, line.kind, line.shape, line.symmetry, *values)))
        more = "" if all_layers or len(lines) == len(every) else " (--all-layers shows every layer)"
        parts += [heading(f"{'layers' if all_layers else 'blocks'}, in execution order{more}"), table, ""]
    notes = [note for note in audit.notes if note.level != "cause"]
    if notes:
        parts.append(heading("notes"))
        parts += [Text(f"{n.about}: {n.text}", style="yellow" if n.level == "warning" else "") for n in notes]
        parts.append("")
    if audit.left_out:
        parts += [Text(f"skipped for lack of time: {', '.join(audit.left_out)}", style="yellow"), ""]
    for gate, reading, kept in judged:
        bound = f"{'at most' if METRICS[gate.metric].better == 'lower' else 'at least'} {gate.bound:g}"
        text = f"{'passed' if kept else 'FAILED'}: {gate.metric} of {reading.symmetry or 'the network'} {bound}, is "
        parts.append(Text(text + significant(reading.value), style="green" if kept else "red"))
    return Group(*parts)


@checked
def audit_text(audit: Audit, *, all_layers: bool = False) -> str:
    """The table of an audit as plain text; ``print(audit)`` shows it. Arguments as for :func:`audit_table`."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=wide_console().width)
    with console.capture() as capture:
        console.print(audit_table(audit, all_layers=all_layers))
    # rich pads every line to the width of the table
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip()


def _whole(audit: Audit) -> RenderableType:
    from rich.text import Text

    columns = ("measure", False), ("of", False), ("value", True), ("95 % interval", True), ("floor", True), ("n", True)
    table = plain_table(*columns, ("better", False))
    for reading in audit.readings:
        if not reading.layer:
            texts = (
                metric_title(reading.metric),
                reading.symmetry,
                significant(reading.value),
                interval(reading),
                significant(reading.floor),
                "" if reading.n is None else str(reading.n),
                METRICS[reading.metric].better,
            )
            table.add_row(*(Text(text) for text in texts))
    return table


@checked
def audit_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Group]:
    """Two audits side by side, as rows and as a table; ``apart`` marks intervals that do not overlap."""
    from rich.console import Group
    from rich.text import Text

    rows = differences(first, second)
    table = plain_table(
        ("measure", False),
        ("of", False),
        ("layer", False),
        ("first", True),
        ("second", True),
        ("change", True),
        ("", False),
    )
    for row in rows:
        better = METRICS[row["metric"]].better == "lower"
        improved = (row["change"] < 0) == better
        style = "" if not row["apart"] else "green" if improved else "red"
        verdict = "" if not row["apart"] else "better" if improved else "worse"
        texts = [row["symmetry"], row["layer"], *(significant(row[key]) for key in ("first", "second", "change"))]
        table.add_row(Text(metric_title(row["metric"])), *(Text(text) for text in texts), Text(verdict, style=style))
    title = f"first: {first['network']} on {first['data']}   second: {second['network']} on {second['data']}"
    quiet = Text("better or worse: the 95 % intervals do not overlap", style="dim")
    return rows, Group(heading(title), table, quiet)
