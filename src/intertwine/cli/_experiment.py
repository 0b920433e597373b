"""``intertwine experiment``: list, run, show and report the reproductions of papers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import AddressOption
from ._stopping import resuming_in
from ._values import parse_settings

if TYPE_CHECKING:
    from ..experiments import Comparison, Experiment, Outcome, Run
    from ..experiments import Scale as ScaleName

RESULTS = Path("results")


class Scale(StrEnum):
    """How much of a paper to run."""

    smoke = "smoke"
    quick = "quick"
    small = "small"
    paper = "paper"


class Engine(StrEnum):
    """Where jobs run."""

    local = "local"
    ray = "ray"


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the experiment; 'list' shows them.")]
ScaleOption = Annotated[
    Scale,
    typer.Option(help="smoke: seconds; quick: minutes per row; small: up to hours per row; paper: published settings."),
]
ResultsOption = Annotated[Path, typer.Option(help="Folder of all runs.")]
ShownScaleOption = Annotated[
    Scale | None, typer.Option(help="The scale to show.", show_default="the largest one with results")
]
ShownResultsOption = Annotated[
    Path | None,
    typer.Option(help="Folder of all runs.", show_default="results, or else those that come with the package"),
]


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    group = typer.Typer(
        help="Reproduce a paper's table: run its rows, compare published numbers with ours, write a report.",
        epilog="Example:  intertwine experiment run lenet --scale smoke --only mlp",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    run_one = "intertwine experiment run lenet --scale smoke --only mlp"
    group.command("list", epilog="Example:  intertwine experiment list")(list_experiments)
    group.command("run", epilog=f"Example:  {run_one}")(run)
    group.command("show", epilog="Example:  intertwine experiment show rotated-mnist")(show)
    group.command("report", epilog=f"Example:  {run_one}\nintertwine experiment report lenet --scale smoke")(report)
    group.command("keep", epilog=f"Example:  {run_one}\nintertwine experiment keep lenet --scale smoke --out kept")(
        keep
    )
    app.add_typer(group, name="experiment")


def list_experiments(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the experiments with their rows."""
    from ..experiments import experiments

    known = experiments().values()
    if as_json:
        rows = [
            {"name": e.name, "title": e.title, "reference": e.reference, "rows": [row.name for row in e.rows]}
            for e in known
        ]
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for experiment in known:
        typer.echo(f"{experiment.name:<14} {experiment.title}  ({experiment.reference})")
        typer.echo(f"{'':<14} rows: {', '.join(row.name for row in experiment.rows)}")


def run(
    name: NameArgument,
    scale: ScaleOption = Scale.smoke,
    only: Annotated[list[str] | None, typer.Option(metavar="ROW", help="Run this row only; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; the default depends on the scale.")] = None,
    first_seed: Annotated[
        int, typer.Option(min=0, help="The first seed, to add to runs whose records are elsewhere.")
    ] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; smoke uses embedded data.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Download missing data sets.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Number of parallel jobs.")] = 1,
    engine: Annotated[Engine, typer.Option(help="Where jobs run.")] = Engine.local,
    address: AddressOption = None,
    results: ResultsOption = RESULTS,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; such runs are not in the table."),
    ] = None,
) -> None:
    """Run the rows of an experiment that are not finished yet.

    Finished runs never run again, and a killed batch resumes where it stopped. Several processes, on one machine or on
    several that share the folder, can run the same command at the same time: each job runs in one of them.

    Exit code 1 if a job failed.
    """
    from ..experiments import experiment_named, jobs_of, run_jobs

    experiment = experiment_named(name)
    specs = jobs_of(
        experiment,
        scale.value,
        results=results,
        data=data,
        only=only or (),
        seeds=seeds,
        first_seed=first_seed,
        overrides=parse_settings(setting, option="--set"),
        download=download,
    )
    outcomes: list[Outcome] = []
    in_this_process = workers == 1 and engine is Engine.local
    with resuming_in(results):
        for outcome in run_jobs(specs, engine=engine.value, workers=workers, address=address, progress=in_this_process):
            outcomes.append(outcome)
            typer.echo(f"[{len(outcomes)}/{len(specs)}] {_outcome_line(experiment, outcome)}")
    counts = {state: sum(outcome.state == state for outcome in outcomes) for state in ("failed", "busy")}
    typer.echo(f"compare: intertwine experiment show {name} --scale {scale.value} --results {results}")
    if counts["busy"]:
        typer.echo(f"{counts['busy']} jobs are being run by another process.")
    if counts["failed"]:
        raise typer.Exit(1)


def show(
    name: NameArgument,
    scale: ShownScaleOption = None,
    results: ShownResultsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print published numbers next to ours, with the spread over seeds, and whether each claimed ordering holds.

    Without runs of your own, it shows the results that come with the package.
    """
    shown = _shown(name, scale, results)
    if as_json:
        typer.echo(json.dumps(_as_json(shown), indent=2, ensure_ascii=False))
        return
    from .._console import wide_console
    from ..report import comparison_table

    typer.echo(f"{shown.experiment.title} ({shown.experiment.reference}), scale {shown.scale}")
    typer.echo(f"{shown.source}{_cost(shown.runs)}")
    if shown.elsewhere:
        typer.echo("; ".join(f"--scale {each} shows {count} more" for each, count in shown.elsewhere.items()))
    wide_console().print(comparison_table(shown.experiment, shown.comparison))


def report(
    name: NameArgument,
    scale: ShownScaleOption = None,
    results: ShownResultsOption = None,
    out: Annotated[Path | None, typer.Option(help="File to write; default: RESULTS/NAME-SCALE.html.")] = None,
) -> None:
    """Write one self-contained HTML page with the tables and plots."""
    from ..report import write_experiment_page

    shown = _shown(name, scale, results)
    path = out if out is not None else (results or RESULTS) / f"{name}-{shown.scale}.html"
    write_experiment_page(path, shown.experiment, shown.comparison, shown.runs, scale=shown.scale)
    typer.echo(f"written: {path}")


def keep(
    name: NameArgument,
    scale: ScaleOption = Scale.small,
    results: ResultsOption = RESULTS,
    out: Annotated[Path | None, typer.Option(help="Folder of the file.", show_default="in the package")] = None,
) -> None:
    """Write the results of finished runs to one small file.

    The files in the package are what 'show' prints on a machine without runs, and what the tables of the pages are made
    from.
    """
    from ..experiments import experiment_named, keep_results

    options = {} if out is None else {"folder": out}
    typer.echo(f"written: {keep_results(experiment_named(name), scale.value, results=results, **options)}")


@dataclass(frozen=True)
class _Shown:
    """What to show: an experiment at a scale, its runs, where they are from, and how many there are at other scales."""

    experiment: Experiment
    scale: ScaleName
    runs: Sequence[Run]
    comparison: Comparison
    source: str
    elsewhere: Mapping[ScaleName, int]


def _shown(name: str, scale: Scale | None, results: Path | None) -> _Shown:
    """Runs in the folder first, then those of the package; the largest scale first unless one is given."""
    from ..experiments import SCALES, compare, experiment_named, finished_runs, kept_runs

    experiment = experiment_named(name)
    if scale is not None:
        experiment.require_scale(scale.value)
    folder = results if results is not None else RESULTS
    every = [s for s in reversed(SCALES) if s in experiment.scales]
    scales = every if scale is None else [s for s in every if s == scale.value]
    sources = [(s, finished_runs(experiment, s, results=folder), f"runs in {folder}") for s in scales]
    if results is None:
        sources += [(s, kept_runs(experiment, s), "results that come with the package") for s in scales]
    nothing = (scales[-1], sources[0][1], f"no finished runs in {folder}")
    chosen, runs, source = next((entry for entry in sources if entry[1]), nothing)
    elsewhere: dict[ScaleName, int] = {}
    for other, more, _ in sources:
        if more and other != chosen:
            elsewhere.setdefault(other, len(more))  # of two sources, --scale shows the first
    by_row: dict[str, list[Mapping[str, float]]] = {row.name: [] for row in experiment.rows}
    for run in runs:
        by_row[run.row].append(run.metrics)
    return _Shown(experiment, chosen, runs, compare(experiment, by_row, scale=chosen), source, elsewhere)


def _cost(runs: Sequence[Run]) -> str:
    measured = [run.cpu_seconds for run in runs if run.cpu_seconds is not None]
    return f"; training took {sum(measured) / 3600:.1f} CPU hours for {len(measured)} runs" if measured else ""


def _outcome_line(experiment: Experiment, outcome: Outcome) -> str:
    spec = outcome.spec
    numbers = ", ".join(
        f"{metric.name} {outcome.metrics[metric.name]:.4g}{' ' + metric.unit if metric.unit else ''}"
        for metric in experiment.metrics
        if metric.name in outcome.metrics
    )
    line = f"{spec.row} seed {spec.seed}: {outcome.state}"
    if outcome.state == "failed":
        return f"{line}: {' '.join((outcome.error or '').split())}"
    return (
        f"{line} in {outcome.seconds:.1f} s: {numbers}" if outcome.state == "finished" else f"{line} {numbers}".rstrip()
    )


def _as_json(shown: _Shown) -> dict[str, Any]:
    experiment, comparison = shown.experiment, shown.comparison
    return {
        "experiment": experiment.name,
        "scale": shown.scale,
        "source": shown.source,
        "runs": [{"row": run.row, "seed": run.seed, "cpu_seconds": run.cpu_seconds} for run in shown.runs],
        "rows": [
            {
                "row": row.name,
                "title": row.title,
                "metrics": {
                    metric.name: {
                        "published": cell.published.mean if cell.published is not None else None,
                        "published_spread": cell.published.spread if cell.published is not None else None,
                        "mean": cell.mean,
                        "spread": cell.spread,
                        "values": list(cell.values),
                    }
                    for metric in experiment.metrics
                    for cell in [comparison.cells[row.name, metric.name]]
                },
            }
            for row in experiment.rows
        ],
        "orderings": [
            {
                "better": verdict.ordering.first,
                "worse": verdict.ordering.second,
                "metric": verdict.ordering.metric,
                "published": verdict.published,
                "holds": verdict.holds,
                "confidence": verdict.confidence,
            }
            for verdict in comparison.verdicts
        ],
    }
