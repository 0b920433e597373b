"""The page of the demo: what each verb is good for, with numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ... import __version__
from ..._checked import checked
from ..._figures import Figure, Plot, Series
from ...demo import Demo, Scores
from ...discovery import Finding
from ...relaxed import RelaxationTable
from .._html import Block, Column, DataTable, Gallery, Picture, Prose, Section, TableCell, page, write_page
from .._numbers import significant
from ..discovery._text import confused_text, verdict_text, worth_text
from ..draw._blocks import figure_blocks


@checked
def write_demo_page(path: str | Path, demo: Demo) -> Path:
    """Write the page to a file, atomically, and return its path."""
    return write_page(path, demo_page(demo))


@checked
def demo_page(demo: Demo) -> str:
    """The page as one self-contained HTML document."""
    plots = find_spec("matplotlib") is not None
    sections = [
        Section("Discover: is it a symmetry of my data?", _discover(demo)),
        Section("Impose: answers that hold when the image turns", _impose(demo, plots=plots)),
        Section("Relax: when the symmetry holds only in part", _relax(demo, plots=plots)),
        Section("Learn: capsules that roll when the digit turns", _learn(demo, plots=plots)),
        Section("Measure: make a trained network exactly symmetric", _measure(demo, plots=plots)),
    ]
    return page(
        "intertwine: discover, impose, relax, learn and measure symmetry",
        [section for section in sections if section.blocks],
        subtitle=f"Five verbs on 1797 handwritten digits, {_seeds(demo)}",
        summary=_summary(demo, plots=plots),
        footer=f"Written by intertwine {__version__}, {demo.cpu_seconds:.0f} CPU seconds. All numbers: results.json. "
        "This file loads nothing from the network.",
    )


def _summary(demo: Demo, *, plots: bool) -> list[Block]:
    rows = {row.name: row for row in demo.impose}
    if not {"plain", "equivariant"} <= rows.keys():
        return []
    plain, equivariant = rows["plain"], rows["equivariant"]
    blocks: list[Block] = [
        Prose(
            f"Turn a digit, and a plain network falls from {plain.mean('upright'):.0%} to {plain.mean('turned'):.0%} "
            f"correct answers; an equivariant network with as many weights stays at {equivariant.mean('turned'):.0%}. "
            "But is it a symmetry of your data, should the network obey it strictly, and does the network that you "
            "already have obey it? Below, each question is answered with small networks that were trained here."
        )
    ]
    if plots and demo.digit is not None:
        from ..draw._svg import inline_svg
        from ._chart import turning_picture

        title = "a digit in four poses, and the accuracy of a plain and of an equivariant network in each"
        svg = inline_svg(turning_picture(demo.digit, [plain, equivariant]), name="turning", title=title)
        caption = f"Share of test digits in each pose that are classified correctly; {_seeds(demo)}."
        blocks.append(Picture(svg, caption, card=True))
    return blocks


def _seeds(demo: Demo) -> str:
    return "one seed" if demo.seeds == 1 else f"means over {demo.seeds} seeds"


def _discover(demo: Demo) -> list[Block]:
    findings = [(name, each, each.findings[0]) for name, each in demo.discoveries.items() if each.findings]
    if not findings:
        return []
    kinds = ("invariant", "local", "relaxed", "free")
    columns = [
        Column("data", wrap=True),
        Column("quarter turns", wrap=True, title="the verdict"),
        Column("worth", align="right", title="times as many images as the free network would need"),
        *(Column(kind, "%", "right", _KINDS[kind]) for kind in kinds),
        Column("confused", wrap=True, title="by the invariant network and not by the free one"),
    ]
    rows = [
        [
            TableCell(name),
            TableCell(verdict_text(finding)),
            TableCell(*worth_text(finding)[:1], note=worth_text(finding)[1]),
            *(_share(finding, kind) for kind in kinds),
            TableCell(confused_text(finding, 2)),
        ]
        for name, _, finding in findings
    ]
    sentences = " ".join(f"{name[:1].upper() + name[1:]}: {each.sentence}" for name, each, _ in findings)
    ahead = _ahead_on_the_curve({name: finding for name, _, finding in findings})
    return [
        Prose(
            "The same question about two sets of digits. In the first, every digit is turned at random. In the second, "
            "6 stays upright and 9 is a 6 upside down."
        ),
        DataTable("What was discovered", columns, rows),
        Prose(sentences),
        Prose(
            "Accuracy on held-out digits of networks of the same size, trained on the same images. Verdicts also count "
            f"networks trained on a quarter and a sixteenth of the images{ahead}. The command "
            "intertwine discover asks this about any images, and about more symmetries.",
            quiet=True,
        ),
    ]


_TURNED = {"upright": "upright digits", "turned": "turned by 90, 180 and 270 degrees"}
_CLASSES = {"6 and 9": "6 and 9", "other digits": "other digits", "all digits": "all digits"}
_KINDS = {
    "invariant": "equivariant layers and an invariant readout",
    "local": "equivariant layers, and a head that sees the orientation",
    "relaxed": "starts invariant, and learns how far to leave the symmetry",
    "free": "no symmetry",
}


def _ahead_on_the_curve(findings: Mapping[str, Finding]) -> str:
    """Where the chosen network is not the most accurate with all images, how far it is ahead on average."""
    for name, finding in findings.items():
        chosen, gains = finding.verdict.strictness, finding.curve_gains
        best = max(finding.accuracy, key=lambda kind: finding.accuracy[kind], default=None)
        if chosen is None or best is None or not {chosen, best} <= set(gains):
            continue
        ahead = 100 * (gains[chosen].mean - gains[best].mean)
        if ahead > 0:
            return f": on average, for {name}, the {chosen} network is {ahead:.1f} points ahead of the {best} one"
    return ""


def _share(finding: Finding, kind: str) -> TableCell:
    value = dict(finding.accuracy).get(kind)  # type: ignore[call-overload]
    return TableCell("–", tone="quiet") if value is None else TableCell(f"{100 * value:.1f}", value=value)


def _impose(demo: Demo, *, plots: bool) -> list[Block]:
    rows = {row.name: row for row in demo.impose}
    if not rows:
        return []
    blocks: list[Block] = [
        Prose(
            "Three networks learn digits and are tested on digits in every pose. Augmentation shows the network digits "
            "in any pose; equivariant layers build the symmetry in, and see upright digits only."
        ),
        *(_side_by_side(_bars("impose", demo.impose, _TURNED), _depth(demo)) if plots else ()),
        _table("Impose", demo.impose, {"upright": _percent, "turned": _percent, "invariance error": significant}),
    ]
    if "augmented" in rows:
        augmented = rows["augmented"]
        blocks.append(
            Prose(
                "Augmentation goes a long way, and costs something: with as many weights and epochs, the augmented "
                f"network has {augmented.mean('turned'):.1%} on turned digits, and its scores still change by "
                f"{augmented.mean('invariance error'):.0%} when a digit turns. In the equivariant network, they "
                "cannot. It takes a 9 for a 6 upside down, though: see the next section."
            )
        )
    return blocks


def _relax(demo: Demo, *, plots: bool) -> list[Block]:
    rows = {row.name: row for row in demo.relax}
    if not rows:
        return []
    blocks: list[Block] = [
        Prose(
            "Digits in any pose, but 6 stands upright and 9 is a 6 upside down; 400 training images, and networks with "
            "about as many weights. A strict network cannot tell 6 from 9. A free network can, and has to learn the "
            "other eight digits in four poses each. A relaxed network starts strict and learns where "
            "to leave the symmetry."
        ),
        *(_side_by_side(_bars("relax", demo.relax, _CLASSES), _dial(demo)) if plots else ()),
        _table("Relax", demo.relax, dict.fromkeys(("all digits", "6 and 9", "other digits"), _percent)),
    ]
    return blocks


def _learn(demo: Demo, *, plots: bool) -> list[Block]:
    if not demo.learn:
        return []
    return [
        Prose(
            "An autoencoder sees sequences of turning digits, without labels and without a word about rotations. Its "
            "capsules end up in circles: roll them by one place, and the decoded digit turns by one step."
        ),
        *figure_blocks(demo.rolled, plots=plots),
        _table("Learn", demo.learn, {"error": significant}),
        Prose(
            "Squared error of the predicted frames of test digits, relative to their variance: the mean image has "
            "error 1. Predictions see the first frame only.",
            quiet=True,
        ),
    ]


def _measure(demo: Demo, *, plots: bool) -> list[Block]:
    rows = {row.name: row for row in demo.measure}
    if not rows:
        return []
    blocks: list[Block] = []
    if {"trained on mirrored digits", "made symmetric, tuned"} <= rows.keys():
        before, after = rows["trained on mirrored digits"], rows["made symmetric, tuned"]
        blocks.append(
            Prose(
                "A network that was trained on mirrored digits has almost learned the mirror: when a test digit is "
                f"mirrored, {before.mean('changed answers'):.1%} of its answers change"
                f"{_after_more_training(rows)}. "
                "Surgery on its weights makes it exactly symmetric, with the same architecture: "
                f"{after.mean('changed answers'):.1%} change, at an accuracy of {after.mean('accuracy'):.1%} instead "
                f"of {before.mean('accuracy'):.1%}."
            )
        )
    formats = {"accuracy": _percent, "changed answers": _percent, "invariance error": significant}
    return [*blocks, _table("Measure", demo.measure, formats), *figure_blocks(demo.filters, plots=plots)]


def _after_more_training(rows: Mapping[str, Scores]) -> str:
    control = rows.get("trained longer")
    return "" if control is None else f", and after more training {control.mean('changed answers'):.1%}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _table(caption: str, rows: Sequence[Scores], metrics: Mapping[str, Callable[[float], str]]) -> DataTable:
    """One row per network; means, with the range over seeds beside them."""
    weights = any(row.weights for row in rows)
    columns = [
        Column("network" if weights else "prediction", wrap=True),
        *(Column(name, "%" if show is _percent else "", "right") for name, show in metrics.items()),
        *((Column("weights", align="right"),) if weights else ()),
    ]
    cells = [
        [
            TableCell(row.name, note=row.about),
            *(_score(row, name, show) for name, show in metrics.items()),
            *((TableCell(f"{row.weights:,}", value=float(row.weights)),) if weights else ()),
        ]
        for row in rows
    ]
    return DataTable(caption, columns, cells)


def _score(row: Scores, metric: str, show: Callable[[float], str]) -> TableCell:
    low, high = row.range(metric)
    note = f"{show(low)}–{show(high)}" if show(low) != show(high) else ""
    return TableCell(show(row.mean(metric)), value=row.mean(metric), note=note, title="mean, and range over seeds")


def _side_by_side(*figures: Figure | Picture | None) -> list[Block]:
    """One gallery of pictures, drawn if they are not drawn yet."""
    pictures: list[Picture] = []
    for figure in figures:
        if isinstance(figure, Picture):
            pictures.append(figure)
        elif figure is not None:
            (gallery,) = (block for block in figure_blocks([figure], plots=True) if isinstance(block, Gallery))
            pictures += gallery.pictures
    return [Gallery(pictures)]


def _bars(name: str, rows: Sequence[Scores], metrics: Mapping[str, str]) -> Picture:
    from ..draw._svg import inline_svg
    from ._chart import score_bars

    svg = inline_svg(score_bars(rows, metrics), name=name, title=f"{name}: accuracy of each network")
    return Picture(svg, "Share of test digits classified correctly; lines span the seeds.")


def _dial(demo: Demo) -> Plot | None:
    """The dials of the relaxed network by depth, before and after training, over the seeds."""
    lines = [
        Series(title, _by_layer(tables))
        for title, tables in (("learned", demo.dials), ("at the start", demo.dials_at_start))
        if tables
    ]
    if not lines:
        return None
    return Plot(
        "the learned dial",
        "layer, in network order",
        "share of the kernel outside the symmetry",
        lines,
        "0 is strictly equivariant; at 1 no symmetry is left. The network learned how far to go in each layer.",
    )


def _by_layer(tables: Sequence[RelaxationTable]) -> list[tuple[float, list[float]]]:
    return [
        (float(k), [shares["C4"] for _, _, shares, _ in rows])
        for k, rows in enumerate(zip(*(table.rows for table in tables), strict=True), 1)
    ]


def _depth(demo: Demo) -> Plot | None:
    series = []
    for name in ("plain", "augmented", "equivariant"):
        readings = demo.audits[name].readings if name in demo.audits else ()
        errors = [reading.value for reading in readings if reading.metric == "layer_invariance_error"]
        if len(errors) > 1:
            series.append(Series(name, [(k / (len(errors) - 1), [error]) for k, error in enumerate(errors)]))
    if not series:
        return None
    return Plot(
        "where a network loses the symmetry",
        "depth, from the first layer to the output",
        "relative change",
        series,
        "Change of the outputs of layers when digits turn, from audits of the first seed. Inner layers of the "
        "equivariant network move with the digit; its output stays the same.",
    )
