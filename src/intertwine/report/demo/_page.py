"""The page of the demo: what each verb does."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ... import __version__
from ..._checked import checked
from ..._figures import Figure, Plot, Series, Table
from ...experiments import Demo
from ...groups import Dihedral
from ...kernels import solve
from ...relaxed import RelaxationTable
from ...spaces import Grid2d
from .._html import Block, Column, DataTable, Facts, Gallery, Picture, Prose, Section, TableCell, page, write_page
from .._numbers import significant
from ..draw._blocks import figure_blocks


@checked
def write_demo_page(path: str | Path, demo: Demo) -> Path:
    """Write the page to a file, atomically, and return its path."""
    return write_page(path, demo_page(demo))


@checked
def demo_page(demo: Demo) -> str:
    """The page as one self-contained HTML document."""
    plots = find_spec("matplotlib") is not None
    by_name = {network.name: network for network in demo.networks}
    summary: list[Block] = [
        Prose(
            "Small networks learn to read 1437 handwritten digits, all upright. Then we rotate the digits by quarter "
            "turns. How does each network cope, and what can we do about it?"
        )
    ]
    headlines = (
        ("plain", "a plain network"),
        ("equivariant", "symmetry imposed"),
        ("augmented, symmetrized, tuned", "symmetry imposed after training, then tuned"),
    )
    facts = [
        (f"{title}: upright → rotated", f"{by_name[name].upright:.0%} → {by_name[name].turned:.0%}")
        for name, title in headlines
        if name in by_name
    ]
    summary += [Facts(facts, large=True)] if facts else []
    filters, capsules = ([p for p in demo.pictures if ("capsules" in p.title) == which] for which in (False, True))
    sections = [
        Section("Every network", [*(_accuracies(demo) if plots else ()), *_networks(demo)]),
        Section("Impose: kernels that commute", _kernels() if plots else ()),
        Section("Relax: how far from strict", _relaxation(demo, plots=plots)),
        Section("Learn: capsules that roll when the digit turns", figure_blocks(capsules, plots=plots)),
        Section("Measure: filters and their partners", figure_blocks(filters, plots=plots)),
        Section("Measure: where rotated digits get lost", _depth(demo)),
    ]
    return page(
        "intertwine: impose, relax, learn and measure symmetry",
        [section for section in sections if section.blocks],
        subtitle="Four verbs on a few small networks",
        summary=summary,
        footer=f"Written by intertwine {__version__}. This file loads nothing from the network.",
    )


def _accuracies(demo: Demo) -> list[Block]:
    from ..draw._svg import inline_svg
    from ._chart import accuracy_chart

    title = "accuracy of every network on upright and on rotated digits"
    caption = "Share of test digits classified correctly. If both bars are equal, rotating a digit changes nothing."
    return [Gallery([Picture(inline_svg(accuracy_chart(demo.networks), name="accuracy", title=title), caption)])]


def _networks(demo: Demo) -> list[Block]:
    rows = [
        [
            TableCell(network.name, title=network.about),
            TableCell(network.verb),
            TableCell(network.about),
            TableCell(f"{network.weights:,}", value=float(network.weights)),
            TableCell(f"{100 * network.upright:.1f}", value=network.upright),
            TableCell(f"{100 * network.turned:.1f}", value=network.turned),
            TableCell(significant(network.error), value=network.error),
        ]
        for network in demo.networks
    ]
    columns = [
        Column("network"),
        Column("verb"),
        Column("what it is", wrap=True),
        Column("weights", align="right"),
        Column("upright", "%", "right", "upright test digits classified correctly"),
        Column("rotated", "%", "right", "the same after rotations by 90, 180 and 270 degrees"),
        Column("invariance error", align="right", title="relative change of the scores under quarter turns"),
    ]
    reading = (
        "One run per network, with one seed. A network that cannot tell a rotated digit from an upright one confuses 6 "
        "and 9: impose a symmetry only if the data have it."
    )
    return [DataTable("Every network", columns, rows), Prose(reading, quiet=True)]


def _kernels() -> list[Block]:
    from ..draw._kernel_figure import kernel_figure
    from ..draw._svg import inline_svg

    group = Dihedral(4)
    plane = Grid2d(group)
    basis = solve(plane.field(group.trivial), plane.field(group.regular), kernel_size=3)
    svg = inline_svg(kernel_figure(basis), name="kernels", title="a basis of equivariant kernels")
    caption = (
        f"An orthonormal basis of the {basis.dim}-dimensional space of equivariant 3 x 3 filters from a gray image to "
        "the eight channels that D4 permutes. A layer learns the coefficients in this basis, and nothing else."
    )
    return [Picture(svg, caption, card=True)]


def _relaxation(demo: Demo, *, plots: bool) -> list[Block]:
    """The learned relaxation as tables and, if there are several layers, as plots by depth."""
    figures: list[Figure] = []
    for name, table in demo.relaxation.items():
        columns = list(dict.fromkeys(subgroup for _, _, shares, _ in table.rows for subgroup in shares))
        before = demo.relaxation_before.get(name)
        for column in columns:
            learned, start = (_along(each, column) for each in (table, before))
            if len(learned) > 1:
                lines = [Series("learned", learned)] + ([Series("at the start", start)] if start else [])
                figures.append(
                    Plot(
                        f"{column} in the {name} network",
                        "layer, in network order",
                        "share of the kernel outside the symmetry",
                        lines,
                        "0 is strictly equivariant; at 1 no symmetry is left. Every layer learned its own value.",
                    )
                )
        rows: list[list[str | float | int | None]] = [
            [layer or "(network)", kind, *(shares.get(column) for column in columns)]
            for layer, kind, shares, _ in table.rows
        ]
        caption = "0 is a strictly equivariant layer; the values are learned."
        figures.append(Table(f"{name} network", ["layer", "kind", *columns], rows, caption))
    return figure_blocks(figures, plots=plots)


def _along(table: RelaxationTable | None, column: str) -> list[tuple[float, list[float]]]:
    rows = table.rows if table is not None else ()
    return [(float(k), [shares[column]]) for k, (_, _, shares, _) in enumerate(rows, 1) if column in shares]


def _depth(demo: Demo) -> list[Block]:
    if find_spec("matplotlib") is None:
        return []
    series = []
    for name, audit in demo.audits.items():
        errors = [r.value for r in audit.readings if r.metric == "layer_invariance_error"]
        if len(errors) > 1:
            series.append(Series(name, [(k / (len(errors) - 1), [error]) for k, error in enumerate(errors)]))
    if not series:
        return []
    plot = Plot(
        "invariance error by depth",
        "depth, from the first layer to the output",
        "relative change",
        series,
        "Of the outputs of layers, under quarter turns. Inner layers of the equivariant network move with the digit; "
        "its output stays the same.",
    )
    return figure_blocks([plot], plots=True)
