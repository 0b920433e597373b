"""The report page of an experiment: published numbers, ours, and how far to trust them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..._checked import checked
from ..._figures import Figure
from ...errors import InputError
from ...experiments import Comparison, Experiment, Metric, Scale
from .._html import (
    Block,
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
    page,
    signature,
    write_page,
)
from .._numbers import count, duration, number, percent
from ..draw._blocks import NO_PLOTS, capital, figure_blocks, figure_data, reason
from ._data import page_data
from ._run_summary import RunSummary
from ._text import (
    CONFIDENCE,
    SURE,
    Line,
    beside_name,
    claims,
    direction,
    left_out,
    lines,
    metric_label,
    metric_name,
    places_of,
    shown_metrics,
)

_MAX_POINTS, _MIN_POINTS, _ALL_POINTS = 80, 30, 480  # per curve, and of all rows: small enough to mail the page
_MEANING: dict[Scale, str] = {
    "smoke": "Every row in seconds, to check that everything runs. The numbers say nothing about the paper.",
    "quick": "Minutes per row on two cores, with much less data and training than published. Orderings may carry over, "
    "values do not.",
    "small": "Minutes to hours per row on two cores, with less data or training than published. Orderings may carry "
    "over, values may not.",
    "paper": "The published settings.",
}


@checked
def experiment_page(experiment: Experiment, comparison: Comparison, runs: Sequence[RunSummary], *, scale: Scale) -> str:
    """The page as one self-contained HTML document.

    Plots need matplotlib (extra ``plot``); without it the page has only tables, and says so. If a figure of the
    experiment fails, the page has a note in its place.

    Args:
        experiment: its rows, metrics, published numbers and claims.
        comparison: published numbers and ours, from :func:`intertwine.experiments.compare` at this scale.
        runs: the finished runs at this scale.
        scale: smoke, quick, small or paper.
    """
    experiment.require_scale(scale)
    plots = find_spec("matplotlib") is not None
    figures, failed = _figures(experiment, runs)
    sections = [
        Section("Published and ours", _results(experiment, comparison, plots)),
        Section("Claims of the paper", _claims(experiment, comparison)),
        Section("Figures", [*failed, *figure_blocks(figures, plots=plots)]),
        Section("Learning curves", _curves(experiment, runs) if plots else ()),
        Section("Settings", _settings(experiment, scale), folded=True),
        Section("Every run", _runs(experiment, comparison, runs), folded=True),
        Section("Environment", _environment(runs), folded=True),
    ]
    return page(
        experiment.title,
        [section for section in sections if section.blocks],
        subtitle=experiment.reference,
        summary=_summary(experiment, comparison, runs, scale, plots),
        data={**page_data(experiment, comparison, runs, scale), "figures": figure_data(figures)},
        footer=signature(f"Experiment {experiment.name} at scale {scale}"),
    )


@checked
def write_experiment_page(
    path: str | Path,
    experiment: Experiment,
    comparison: Comparison,
    runs: Sequence[RunSummary],
    *,
    scale: Scale,
) -> Path:
    """Write the page to a file, atomically, and return its path."""
    return write_page(path, experiment_page(experiment, comparison, runs, scale=scale))


# -- parts of the page -----------------------------------------------------------------------------------------


def _figures(experiment: Experiment, runs: Sequence[RunSummary]) -> tuple[list[Figure], list[Note]]:
    """The figures, or a warning if they fail: a page without figures is better than none."""
    if experiment.figures is None or not runs:
        return [], []
    try:
        return list(experiment.figures(runs)), []
    except Exception as error:  # the tables do not depend on the figures
        return [], [Note(reason(error), heading="The figures of this experiment could not be drawn.", warning=True)]


def _summary(
    experiment: Experiment, comparison: Comparison, runs: Sequence[RunSummary], scale: Scale, plots: bool
) -> list[Block]:
    blocks: list[Block] = []
    if scale != "paper":
        blocks.append(Note(_MEANING[scale], heading=f"Not the published settings: scale {scale}.", warning=True))
    done = {run.row for run in runs}
    facts = [
        ("scale", scale),
        ("rows run", f"{sum(row.name in done for row in experiment.rows)} of {len(experiment.rows)}"),
        ("finished runs", str(len(runs))),
    ]
    if experiment.orderings:
        held = sum(verdict.holds is True for verdict in comparison.verdicts)
        idle = sum(verdict.holds is None for verdict in comparison.verdicts)
        label = f"claims hold here, {idle} not run" if idle else "claims hold here"
        facts.append((label, f"{held} of {len(comparison.verdicts)}"))
    if runs:
        facts.append(("time of all runs", duration(math.fsum(run.seconds for run in runs))))
    blocks.append(Facts(facts, large=True))
    if not runs:
        command = f"intertwine experiment run {experiment.name} --scale {scale}"
        blocks.append(Note(f"No run has finished yet. Start with: {command}"))
    if not plots:
        blocks.append(Note(NO_PLOTS))
    return blocks


def _results(experiment: Experiment, comparison: Comparison, plots: bool) -> list[Block]:
    blocks: list[Block] = []
    shown = shown_metrics(experiment, comparison)
    for metric, beside in shown:
        blocks += [
            Heading(capital(metric_label(metric)), direction(metric)),
            Prose(capital(metric.meaning.rstrip(".")) + "."),
            *([Prose(_explained(beside), quiet=True)] if beside else ()),
            DataTable(
                f"{capital(metric_name(metric))}: published and ours",
                [
                    Column("row"),
                    Column("published", metric.unit, "right", "mean ± spread as the paper gives them"),
                    Column("ours", metric.unit, "right", "mean ± standard deviation over n seeds"),
                    Column("difference", metric.unit, "right", "ours minus published"),
                    *(Column(beside_name(other), other.unit, "right", other.meaning) for other in beside),
                ],
                [_result_row(line) for line in lines(experiment, comparison, metric, beside)],
            ),
        ]
    if skipped := left_out(experiment, comparison):
        blocks.append(Note(skipped))
    if plots and shown:
        reading = (
            "Open diamonds on dashed lines are published numbers, filled circles on solid lines are ours, and small "
            "dots are seeds. Axes do not start at zero."
        )
        pictures = [
            result_picture(experiment, comparison, metric, name=f"result-{k}") for k, (metric, _) in enumerate(shown, 1)
        ]
        blocks += [Heading("Plots"), Prose(reading, quiet=True), Gallery(pictures)]
    return blocks


def _result_row(line: Line) -> list[TableCell]:
    published, mean = line.cell.published, line.cell.mean
    return [
        TableCell(line.row.title, title=line.row.name),
        TableCell(
            line.published,
            value=math.nan if published is None else published.mean,
            note=line.published_runs,
            title="no published number" if published is None else "",
            tone="quiet" if published is None else "",
        ),
        TableCell(
            line.ours,
            value=math.nan if mean is None else mean,
            note=line.our_runs,
            tone="quiet" if mean is None else "",
        ),
        TableCell(
            line.difference,
            value=math.nan if published is None or mean is None else mean - published.mean,
            note=line.judgment,
        ),
        *(TableCell(text, value=math.nan if mean is None else mean) for text, mean in line.beside),
    ]


def _explained(beside: Sequence[Metric]) -> str:
    """The meaning of the further columns of a table."""
    return capital("; ".join(f"{beside_name(other)}: {other.meaning.rstrip('.')}" for other in beside)) + "."


def result_picture(experiment: Experiment, comparison: Comparison, metric: Metric, *, name: str) -> Picture:
    """Published numbers and ours in one metric; ``name`` is a word that is unique on the page."""
    from ..draw._svg import inline_svg
    from ._plot import comparison_figure

    figure = comparison_figure(experiment, comparison, metric)
    title = f"{capital(metric_label(metric))} of each row, published and ours"
    caption = f"{capital(metric_name(metric))} of each row, published and ours."
    return Picture(inline_svg(figure, name=name, title=title), caption)


def _claims(experiment: Experiment, comparison: Comparison) -> list[Block]:
    claimed = claims(experiment, comparison)
    if not claimed:
        return []
    marks = {True: "✓ ", False: "✗ ", None: ""}
    rank = {True: 2.0, False: 1.0, None: math.nan}
    table = DataTable(
        "Orderings that the paper claims",
        [
            Column("claim"),
            Column("published", title="whether the published means have this order"),
            Column("here", title="whether our means have this order"),
            Column("confidence", align="right", title="one-sided Welch t-test in the claimed direction"),
        ],
        [
            [
                TableCell(claim.text),
                TableCell(claim.published, value="" if claim.verdict.published is None else None),
                TableCell(marks[claim.verdict.holds] + claim.here, value=rank[claim.verdict.holds], tone=claim.tone),
                TableCell(
                    claim.confidence,
                    value=math.nan if claim.verdict.confidence is None else claim.verdict.confidence,
                    tone="quiet" if claim.verdict.confidence is None else "",
                ),
            ]
            for claim in claimed
        ],
    )
    return [table, Prose(f"{CONFIDENCE} Colors mark {percent(SURE)} and above, in either direction.", quiet=True)]


def _curves(experiment: Experiment, runs: Sequence[RunSummary]) -> list[Block]:
    points = _points_per_curve(experiment)
    pictures = [
        picture
        for index, key in enumerate(logged_quantities(experiment, runs), 1)
        for picture in curve_pictures(experiment, runs, key, name=f"curve-{index}")
    ]
    if not pictures:
        return []
    reading = "Lines are means over seeds; bands span the lowest to the highest seed."
    if any(len(run.history) > points for run in runs):
        reading += f" Long logs are averaged over {points} equal intervals of training."
    return [Prose(reading, quiet=True), Gallery(pictures)]


def curve_pictures(experiment: Experiment, runs: Sequence[RunSummary], key: str, *, name: str) -> list[Picture]:
    """A logged quantity of all rows during training; ``name`` is a word that is unique on the page."""
    from ..draw._svg import inline_svg
    from ._plot import MAX_CURVES, curve_figure, learning_curves

    logged = logged_quantities(experiment, runs)
    if key not in logged:
        raise InputError(
            f"experiment {experiment.name}", expected=f"a logged quantity: {', '.join(logged)}", got=repr(key)
        )
    label = logged[key]
    pictures = []
    every = learning_curves(experiment, runs, key, max_points=_points_per_curve(experiment))
    pieces = math.ceil(len(every) / MAX_CURVES)
    bounds = [piece * len(every) // pieces for piece in range(pieces)]
    for first, end in itertools.pairwise([*bounds, len(every)]):
        part = f", rows {first + 1} to {end} of {len(every)}" if pieces > 1 else ""
        figure = curve_figure(every[first:end], every, label)
        svg = inline_svg(figure, name=f"{name}-{first}", title=f"{label} during training{part}")
        pictures.append(Picture(svg, f"{capital(label)} during training{part}."))
    return pictures


def _points_per_curve(experiment: Experiment) -> int:
    return max(_MIN_POINTS, min(_MAX_POINTS, _ALL_POINTS // len(experiment.rows)))


def logged_quantities(experiment: Experiment, runs: Sequence[RunSummary]) -> dict[str, str]:
    """The logged quantities to plot, with their labels: losses, metrics and validation metrics."""
    known = {"train_loss": "training loss", "loss": "training loss", "val_loss": "validation loss"}
    known |= {metric.name: metric_label(metric) for metric in experiment.metrics}
    logged = dict.fromkeys(key for run in runs for entry in run.history for key in entry)
    labels = {key: label for key, label in known.items() if key in logged}
    others = (key for key in logged if key.startswith("val_") and key not in known)
    return labels | {key: f"validation {metric_name(key.removeprefix('val_'))}" for key in others}


def _settings(experiment: Experiment, scale: Scale) -> list[Block]:
    facts = [(metric_name(str(name)), str(value)) for name, value in experiment.scales[scale].items()]
    facts.append(("default number of seeds", str(experiment.seeds[scale])))
    if scale in experiment.data and experiment.data[scale] != experiment.scales[scale].get("data"):
        facts.append(("data sets", experiment.data[scale]))
    settings = {row.name: row.settings_at(scale) for row in experiment.rows}
    names = list(dict.fromkeys(name for values in settings.values() for name in values))
    blocks: list[Block] = [Prose(f"Scale {scale}: {_MEANING[scale]}"), Facts(facts)]
    if names:
        blocks.append(
            DataTable(
                "Settings of each row",
                [Column("row"), *(Column(metric_name(name), wrap=True) for name in names)],
                [
                    [
                        TableCell(row.title, title=row.name),
                        *(TableCell(str(settings[row.name].get(name, ""))) for name in names),
                    ]
                    for row in experiment.rows
                ],
            )
        )
    return blocks


def _runs(experiment: Experiment, comparison: Comparison, runs: Sequence[RunSummary]) -> list[Block]:
    if not runs:
        return []
    titles = {row.name: row.title for row in experiment.rows}
    metrics = [metric for metric in experiment.metrics if any(metric.name in run.metrics for run in runs)]
    places = [places_of(experiment, comparison, metric) for metric in metrics]
    table = DataTable(
        "Every finished run",
        [
            Column("row"),
            Column("seed", align="right"),
            *(Column(metric_name(metric), metric.unit, "right") for metric in metrics),
            Column("time", align="right"),
        ],
        [
            [
                TableCell(titles.get(run.row, run.row)),
                TableCell(str(run.seed)),
                *(_value(run.metrics.get(metric.name), n) for metric, n in zip(metrics, places, strict=True)),
                TableCell(duration(run.seconds), value=round(run.seconds, 3)),
            ]
            for run in runs
        ],
    )
    return [table]


def _value(value: float | None, places: int) -> TableCell:
    return TableCell("") if value is None else TableCell(number(value, places), value=value)


def _environment(runs: Sequence[RunSummary]) -> list[Block]:
    names = list(dict.fromkeys(name for run in runs for name in run.environment))
    facts = []
    for name in names:
        values = [str(run.environment.get(name, "not recorded")) for run in runs]
        different = list(dict.fromkeys(values))
        if len(different) > 1:
            text = ", ".join(f"{value} ({count(values.count(value), 'run')})" for value in different)
        else:
            text = different[0]
        facts.append((metric_name(name), text))
    return [Facts(facts)] if facts else []
