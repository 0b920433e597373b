"""The page of an audit: the measurements, where the symmetry is lost, and how to read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from ..._checked import checked
from ..._figures import Figure, Panel, Panels, Plot, Series, Table
from ...measure import METRICS, Audit, Gate, Reading
from .._html import (
    Block,
    Column,
    DataTable,
    Facts,
    Heading,
    LayerPicker,
    Note,
    Prose,
    Section,
    TableCell,
    fragment,
    page,
    signature,
    write_page,
)
from .._numbers import duration, significant
from ..draw._blocks import figure_blocks
from ._blocks import block_lines
from ._layers import audit_layers, first_filters
from ._text import LAYER_METRICS, LayerLine, interval, layer_lines, layer_metrics, metric_title

Judged = Sequence[tuple[Gate, Reading, bool]]


@checked
def audit_page(audit: Audit, judged: Judged = ()) -> str:
    """The page as one self-contained HTML document; plots need matplotlib (extra ``plot``)."""
    plots = find_spec("matplotlib") is not None
    lines = layer_lines(audit.readings)
    blocks = block_lines(lines)
    sections = [
        Section(_causes_title(audit), _causes(audit)),
        Section("The whole network", _whole(audit)),
        Section("Gates", _gates(judged)),
        Section(
            "Where the symmetry is lost", [*figure_blocks(_figures(audit), plots=plots), *_layers(blocks, "block")]
        ),
        Section("One layer", _picker(audit)),
        Section("Every layer", _layers(lines, "layer") if len(lines) > len(blocks) else [], folded=True),
        Section("Orders of matched channels", figure_blocks(_order_tables(audit), plots=plots), folded=True),
        Section("Notes", _notes(audit), folded=True),
        Section("How it is measured", _meanings(audit), folded=True),
    ]
    return page(
        f"Audit of {audit.network}",
        [section for section in sections if section.blocks],
        subtitle=f"{audit.images} images of {audit.data}" if audit.data else f"{audit.images} images",
        summary=_summary(audit, judged),
        data=audit.to_dict(),
        footer=signature(),
    )


@checked
def audit_summary(audit: Audit) -> str:
    """The verdicts and the table of the whole network as a piece of HTML, which a notebook shows for an audit."""
    return fragment([*_verdicts(audit), *_whole(audit)])


@checked
def write_audit_page(path: str | Path, audit: Audit, judged: Judged = ()) -> Path:
    """Write the page to a file, atomically, and return its path."""
    return write_page(path, audit_page(audit, judged))


def _summary(audit: Audit, judged: Judged) -> list[Block]:
    blocks = _verdicts(audit)
    facts = []
    for symmetry in audit.symmetries:
        for metric in ("invariance_error", "equivariance_error", "agreement", "averaged_accuracy"):
            readings = [r for r in audit.readings if (r.metric, r.symmetry, r.layer) == (metric, symmetry, "")]
            facts += [(f"{metric_title(metric)}, {symmetry}", significant(r.value)) for r in readings]
    facts += [("accuracy", significant(r.value)) for r in audit.readings if r.metric == "accuracy"]
    blocks += [Facts(facts, large=True)] if facts else []
    missed = [gate for gate, _, kept in judged if not kept]
    if judged:
        text = f"{len(missed)} of {len(judged)} gates failed." if missed else "All gates passed."
        blocks.append(Note(text, warning=bool(missed)))
    if audit.left_out:
        blocks.append(Note(f"Skipped for lack of time: {', '.join(audit.left_out)}.", warning=True))
    blocks.append(
        Facts(
            [
                ("network", audit.network),
                ("weights", audit.weights),
                ("symmetries", ", ".join(audit.symmetries)),
                ("time", duration(audit.seconds)),
            ]
        )
    )
    return blocks


def _verdicts(audit: Audit) -> list[Block]:
    return [
        Note(verdict.reasons, heading=verdict.finding, warning=verdict.state == "not symmetric")
        for verdict in audit.verdicts
    ]


def _causes_title(audit: Audit) -> str:
    """In a symmetric network, one layer repairs what another breaks, as when slices at all offsets are averaged."""
    if audit.verdicts and all(verdict.state == "symmetric" for verdict in audit.verdicts):
        return "Layers that keep the symmetry only together"
    return "Layers that break the symmetry"


def _causes(audit: Audit) -> list[Block]:
    """The layers that cannot commute with a symmetry on their own."""
    rows = [[TableCell(note.about), TableCell(note.text)] for note in audit.notes if note.level == "warning"]
    columns = [Column("layer"), Column("reason", wrap=True)]
    return [DataTable(_causes_title(audit), columns, rows)] if rows else []


def _whole(audit: Audit) -> list[Block]:
    floors = any(r.floor is not None for r in audit.readings if not r.layer)
    rows = []
    for r in audit.readings:
        if not r.layer:
            floor = TableCell(significant(r.floor), value=math.nan if r.floor is None else r.floor)
            rows.append(
                [
                    TableCell(metric_title(r.metric), title=METRICS[r.metric].meaning),
                    TableCell(r.symmetry),
                    TableCell(
                        significant(r.value),
                        value=r.value,
                        note=interval(r),
                        title=f"{METRICS[r.metric].better} is better",
                    ),
                    *([floor] if floors else []),
                    TableCell("" if r.n is None else str(r.n), value=math.nan if r.n is None else r.n),
                ]
            )
    columns = [
        Column("measure"),
        Column("of"),
        Column("value", align="right", unit="95 % interval", title="mean over images; interval from resampling them"),
        *([Column("floor", align="right", title="what interpolation alone contributes")] if floors else []),
        Column("images", align="right"),
    ]
    return [DataTable("Measures of the whole network", columns, rows)] if rows else []


def _gates(judged: Judged) -> list[Block]:
    if not judged:
        return []
    rows = [
        [
            TableCell(metric_title(gate.metric)),
            TableCell(reading.symmetry),
            TableCell(f"{'≤' if METRICS[gate.metric].better == 'lower' else '≥'} {gate.bound:g}", value=gate.bound),
            TableCell(significant(reading.value), value=reading.value),
            TableCell("passed" if kept else "failed", tone="good" if kept else "bad"),
        ]
        for gate, reading, kept in judged
    ]
    columns = [Column("measure"), Column("of"), Column("bound", align="right"), Column("value", align="right")]
    return [DataTable("Gates", [*columns, Column("verdict")], rows)]


def _figures(audit: Audit) -> list[Figure]:
    """Per symmetry: the error by depth, and pairs of filters."""
    lines = block_lines(layer_lines(audit.readings))
    figures: list[Figure] = []
    for symmetry in audit.symmetries:
        measured = [
            line for line in lines if line.symmetry == symmetry and any(m in line.values for m in LAYER_METRICS)
        ]
        series = [
            Series(
                metric_title(metric),
                [(k, [line.values[metric].value]) for k, line in enumerate(measured, 1) if metric in line.values],
            )
            for metric in LAYER_METRICS
            if sum(metric in line.values for line in measured) > 1
        ]
        if series:
            figures.append(
                Plot(
                    f"error by depth, {symmetry}",
                    "block, in execution order",
                    "relative error",
                    series,
                    "Equivariance: does the layer's output move with the image? Invariance: does it stay the same?",
                )
            )
        figures += _filters(audit, symmetry)
    return figures


def _order_tables(audit: Audit) -> list[Figure]:
    return [table for symmetry in audit.symmetries for table in _orders(audit, symmetry)]


def _filters(audit: Audit, symmetry: str) -> list[Figure]:
    """Filters of the first layer, and those of the moved network in the same slots after matching."""
    first_layer = first_filters(audit.arrays, symmetry)
    if first_layer is None:
        return []
    _, filters, moved = first_layer
    colored = filters.shape[1] == 3
    top = float(max(filters.abs().max(), moved.abs().max())) or 1.0

    def panel(f: Tensor) -> Panel:
        return Panel(0.5 + 0.5 * f / top) if colored else Panel(f.mean(0))

    rows = [("filters", [panel(f) for f in filters]), ("moved, matched", [panel(f) for f in moved])]
    note = "" if colored else " The mean over input channels is shown." if filters.shape[1] > 1 else ""
    caption = f"In a group-convolutional network both rows are the same.{note}"
    return [Panels(f"filters of the first layer, {symmetry}", rows, "gray" if colored else "diverging", caption)]


def _orders(audit: Audit, symmetry: str) -> list[Figure]:
    """The number of channels on cycles of each length."""
    prefix = f"orders/{symmetry}/"
    orders = {name.removeprefix(prefix): values for name, values in audit.arrays.items() if name.startswith(prefix)}
    if not orders:
        return []
    longest = max(len(values) for values in orders.values())
    shown = min(longest, 6)
    rows: list[list[str | float | int | None]] = []
    for name, values in orders.items():
        counts = [int(values[k]) if k < len(values) else 0 for k in range(longest)]
        rest = [sum(counts[shown:])] if longest > shown else []
        rows.append([name, *counts[:shown], *rest])
    columns = ["channels of", *(f"order {k}" for k in range(1, shown + 1)), *(["more"] if longest > shown else [])]
    caption = (
        "Order 1: a channel that matches itself. In an exactly equivariant network all orders divide the order of the "
        "element. This matching is not constrained to that."
    )
    return [Table(f"orders of matched channels, {symmetry}", columns, rows, caption)]


def _layers(lines: Sequence[LayerLine], what: str) -> list[Block]:
    """A table for each symmetry."""
    symmetries = list(dict.fromkeys(line.symmetry for line in lines))
    blocks: list[Block] = []
    for symmetry in symmetries:
        blocks += [Heading(f"Every {what}, {symmetry}")] if len(symmetries) > 1 else []
        blocks.append(_layer_table([line for line in lines if line.symmetry == symmetry], what))
    return blocks


def _layer_table(lines: Sequence[LayerLine], what: str) -> DataTable:
    metrics = layer_metrics(lines)
    rows = [
        [
            TableCell(line.layer, value=float(k), note=", ".join(t for t in (line.kind, line.shape) if t)),
            *(
                TableCell(significant(line.values[m].value), value=line.values[m].value, title=interval(line.values[m]))
                if m in line.values
                else TableCell("", value=math.nan)
                for m in metrics
            ),
        ]
        for k, line in enumerate(lines, 1)
    ]
    titles = [Column(metric_title(m), align="right", title=METRICS[m].formula) for m in metrics]
    return DataTable(f"Every {what}", [Column(what), *titles], rows)


def _picker(audit: Audit) -> list[Block]:
    layers = audit_layers(audit.readings, audit.arrays)
    return [LayerPicker(layers)] if layers else []


def _notes(audit: Audit) -> list[Block]:
    return [Note(note.text, heading=note.about) for note in audit.notes if note.level == "info"]


def _meanings(audit: Audit) -> list[Block]:
    measured = dict.fromkeys(reading.metric for reading in audit.readings)
    rows = [
        [
            TableCell(metric_title(metric)),
            TableCell(METRICS[metric].formula),
            TableCell(METRICS[metric].meaning),
            TableCell(METRICS[metric].better),
        ]
        for metric in measured
    ]
    columns = [
        Column("measure"),
        Column("per image", wrap=True),
        Column("meaning", wrap=True),
        Column("better"),
    ]
    reading = (
        "Values are means over images; intervals are the central 95 % of the means over 1000 resamplings of the "
        "images. The floor is the value that interpolation alone gives: a value near its floor says nothing about the "
        "network."
    )
    return [Prose(reading), DataTable("Measures", columns, rows)] if rows else []
