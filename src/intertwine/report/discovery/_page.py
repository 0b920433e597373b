"""The page of a discovery: one sentence, one row per candidate, and the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from ..._checked import checked
from ..._figures import Figure, Panel, Panels, Plot, Series, Table
from ...discovery import Discovery, Finding
from .._html import (
    Block,
    Code,
    Column,
    DataTable,
    Facts,
    Gallery,
    Heading,
    Note,
    Picture,
    Prose,
    Section,
    TableCell,
    Tone,
    fragment,
    page,
    signature,
    write_page,
)
from .._numbers import duration
from ..draw._blocks import NO_PLOTS, figure_blocks
from ..draw._svg import inline_svg
from ._chart import auc_chart, gain_chart
from ._text import auc_text, confused_text, gain_text, verdict_text, worth_text

_TONES: dict[str, Tone] = {"impose": "good", "relax": "", "leave": "bad", "can't tell": "quiet"}


@checked
def discovery_page(discovery: Discovery) -> str:
    """The page as one self-contained HTML document; plots need matplotlib (extra ``plot``)."""
    plots = find_spec("matplotlib") is not None
    sections = [
        Section("Verdicts", [_verdicts(discovery), *(_charts(discovery.findings) if plots else [])]),
        Section("Reasons", _reasons(discovery.findings)),
        Section("Learning curves", figure_blocks(_curves(discovery.findings), plots=plots)),
        Section("Classes that get confused", figure_blocks(_confused(discovery.findings), plots=plots)),
        Section("Dials of the relaxed networks", figure_blocks(_dials(discovery.findings), plots=plots), folded=True),
        Section("The network", _program(discovery)),
        Section("How it works", _method(discovery), folded=True),
    ]
    return page(
        f"Symmetries of {discovery.data}",
        [section for section in sections if section.blocks],
        subtitle=f"{discovery.samples} samples of shape {' x '.join(map(str, discovery.shape))}, "
        f"{len(discovery.classes)} classes, {discovery.seeds} seeds",
        summary=_summary(discovery),
        data=discovery.to_dict(),
        footer=signature(),
    )


@checked
def discovery_summary(discovery: Discovery) -> str:
    """What to do and the table of verdicts as a piece of HTML, for a notebook."""
    return fragment([Note(discovery.sentence, heading="What to do"), _verdicts(discovery)])


@checked
def write_discovery_page(path: str | Path, discovery: Discovery) -> Path:
    """Write the page to a file, atomically, and return its path."""
    return write_page(path, discovery_page(discovery))


def _summary(discovery: Discovery) -> list[Block]:
    blocks: list[Block] = [Note(discovery.sentence, heading="What to do")]
    facts = [("candidates", str(len(discovery.findings))), ("training time", duration(discovery.seconds))]
    chosen = discovery.recommended
    if chosen is not None and chosen.verdict.strictness is not None:
        facts.insert(0, ("accuracy of net.py", f"{100 * chosen.accuracy[chosen.verdict.strictness]:.1f} %"))
    blocks.append(Facts(facts, large=True))
    blocks += [Note(note) for note in discovery.notes]
    if find_spec("matplotlib") is None:
        blocks.append(Note(NO_PLOTS))
    if discovery.left_out:
        text = f"{len(discovery.left_out)} runs did not fit into the budget; a larger --budget continues with them."
        blocks.append(Note(text, warning=True))
    return blocks


def _verdicts(discovery: Discovery) -> DataTable:
    rows = [
        [
            TableCell(
                each.symmetry, title=each.words, note=f"confuses {pair}" if (pair := confused_text(each, 1)) else ""
            ),
            _verdict(each),
            _number(auc_text(each), None if each.auc is None else each.auc.value),
            _number(gain_text(each), None if each.gain is None else each.gain.mean),
            _number(worth_text(each), None if each.worth is None else each.worth.factor),
        ]
        for each in discovery.findings
    ]
    columns = [
        Column("symmetry", title="and the classes that an invariant network confuses most, with its excess errors"),
        Column("verdict"),
        Column("AUC", align="right", title="how well a network tells moved samples from others; 0.5 is chance"),
        Column("against free", unit="points", align="right", title="accuracy with all data, 95 % interval"),
        Column("worth", align="right", title="how many times more data the free network needs, 95 % interval"),
    ]
    return DataTable("Verdicts", columns, rows)


def _verdict(finding: Finding) -> TableCell:
    verdict = finding.verdict
    how = (verdict.strictness or "") if verdict.word == "impose" else ""
    return TableCell(verdict.word, tone=_TONES[verdict.word], note=how)


def _number(texts: tuple[str, str], value: float | None) -> TableCell:
    return TableCell(texts[0], value=math.nan if value is None else value, note=texts[1])


def _charts(findings: Sequence[Finding]) -> list[Block]:
    pictures = []
    if any(each.auc is not None for each in findings):
        svg = inline_svg(auc_chart(findings), name="auc", title="AUC of each candidate")
        caption = (
            "Do moved samples look like the others? Bars start at 0.5, where they do. The gray band is what chance "
            "gives, and a black tick what resampling alone gives, where moving resamples."
        )
        pictures.append(Picture(svg, caption))
    if any(each.curve_gains for each in findings):
        svg = inline_svg(gain_chart(findings), name="gains", title="accuracy against the free network")
        caption = (
            "Accuracy against the free network, averaged over the learning curve, with 95 % intervals. Right of the "
            "line, the symmetry helps."
        )
        pictures.append(Picture(svg, caption))
    return [Gallery(pictures)] if pictures else []


def _reasons(findings: Sequence[Finding]) -> list[Block]:
    blocks: list[Block] = []
    for each in findings:
        joint = f"combines {' and '.join(each.joint_of)}" if each.joint_of else each.words
        blocks.append(Heading(f"{each.symmetry}: {verdict_text(each)}", joint))
        blocks += [Prose(reason) for reason in each.verdict.reasons[:-1] or each.verdict.reasons]
    return blocks


def _curves(findings: Sequence[Finding]) -> list[Figure]:
    return [
        Plot(
            f"learning curves, {each.symmetry}",
            "training samples",
            "accuracy",
            [Series(name, [(float(n), values) for n, values in curve]) for name, curve in each.curves.items()],
            "The horizontal distance between two curves says how much data one network saves.",
            x_scale="log",
        )
        for each in findings
        if each.curves
    ]


def _confused(findings: Sequence[Finding]) -> list[Figure]:
    figures: list[Figure] = []
    for each in findings:
        if each.pictures:
            rows = [
                (
                    f"{picture.pair.first} and {picture.pair.second}, +{picture.pair.excess:.0f} % errors",
                    [
                        Panel(_image(picture.sample), f"a {picture.pair.first}"),
                        Panel(_image(picture.moved), "moved"),
                        Panel(_image(picture.other), f"a {picture.pair.second}"),
                    ],
                )
                for picture in each.pictures
            ]
            caption = "The invariant network confuses these classes more often than the free one."
            figures.append(Panels(f"confused under {each.symmetry}", rows, "gray", caption, shared=False))
    return figures


def _image(x: Tensor) -> Tensor:
    low, high = x.min(), x.max()
    scaled = (x - low) / (high - low).clamp_min(1e-12)
    return scaled if len(x) == 3 else scaled.mean(0)


def _dials(findings: Sequence[Finding]) -> list[Figure]:
    return [
        Table(
            f"dials, {each.symmetry}",
            ["layer", "distance from strict"],
            [[layer, value] for layer, value in each.dials.items()],
            "The share of the kernel that breaks the symmetry: 0 is strict, 1 is free.",
        )
        for each in findings
        if each.dials
    ]


def _program(discovery: Discovery) -> list[Block]:
    if not discovery.program:
        return []
    return [
        Prose(f"net.py trains it: python net.py --data {discovery.data}"),
        Code(discovery.program),
    ]


def _method(discovery: Discovery) -> list[Block]:
    rules = [each.verdict.reasons[-1] for each in discovery.findings if each.verdict.p_value is not None]
    texts = [
        *rules[:1],
        "AUC: for every sample a coin decides whether it is moved. A network learns to tell which from half of the "
        "samples, and is tested on the other half. The p-value comes from permuting the coins. Where moving resamples, "
        "both sides are resampled twice: one is moved by two elements, the other there and back. What resampling alone "
        "gives comes from the same test on samples that were made symmetric by a random element first.",
        "Networks: all have about as many weights, and see the same samples in as many steps. Each seed holds out "
        "another quarter of the samples. Standard errors add the variance over samples and over seeds.",
        "Worth: the horizontal distance between the learning curves of the free network and of the one in the verdict, "
        "with an interval from resampling samples and seeds.",
    ]
    return [Prose(text) for text in texts]
