"""``intertwine sweep``: search for the settings of a row that optimize a metric."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ._experiment import RESULTS, Engine, ResultsOption, Scale, ScaleOption
from ._options import AddressOption
from ._stopping import resuming_in
from ._values import parse_settings

StudyOption = Annotated[str | None, typer.Option(help="Name of the study; default: NAME-ROW-SCALE.")]
StorageOption = Annotated[
    str | None,
    typer.Option(help="Database: sqlite:///FILE or postgresql://USER@HOST/DB. Default: RESULTS/sweeps.db."),
]


_EXAMPLE = "intertwine sweep run lenet --row mlp --param lr=1e-3..1e-1:log --trials 2"


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    group = typer.Typer(
        help="Search the settings of an experiment's row with Optuna; a killed sweep resumes where it stopped.",
        epilog=f"Example:  {_EXAMPLE}",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("run", epilog=f"Example:  {_EXAMPLE}")(run)
    group.command("show", epilog=f"Example:  {_EXAMPLE}\nintertwine sweep show lenet-mlp-smoke")(show)
    app.add_typer(group, name="sweep")


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the experiment.")],
    row: Annotated[str, typer.Option(help="The row whose settings vary.")],
    param: Annotated[
        list[str],
        typer.Option(metavar="NAME=RANGE", help="lr=1e-4..1e-1:log, rank=1..8, or network=mlp,lenet5; repeatable."),
    ],
    scale: ScaleOption = Scale.smoke,
    trials: Annotated[int, typer.Option(min=1, help="Total number of trials, including earlier ones.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds that each trial averages over.")] = 1,
    metric: Annotated[
        str | None, typer.Option(help="Metric to optimize; default: the first metric of the experiment.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with data sets.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of parallel trials.")] = 1,
    engine: Annotated[Engine, typer.Option(help="Where trials run.")] = Engine.local,
    address: AddressOption = None,
    storage: StorageOption = None,
    study: StudyOption = None,
    results: ResultsOption = RESULTS,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting for all trials.")
    ] = None,
    prune: Annotated[bool, typer.Option(help="Stop trials that are worse than the median early.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
) -> None:
    """Search for the best settings and print them."""
    from ..experiments import Sweep, default_storage, experiment_named, parse_parameter, run_sweep

    experiment = experiment_named(name)
    sweep = Sweep(
        study=study or f"{name}-{row}-{scale.value}",
        experiment=name,
        row=experiment.row(row).name,
        scale=scale.value,
        parameters=tuple(parse_parameter(text) for text in param),
        metric=experiment.metric(metric).name if metric is not None else experiment.metrics[0].name,
        storage=storage or default_storage(results),
        results=str(results),
        data=str(data) if data is not None else None,
        trials=trials,
        seeds=seeds,
        fixed=parse_settings(setting, option="--set"),
        prune=prune,
        seed=seed,
    )
    with resuming_in(results):
        searched = run_sweep(sweep, workers=workers, engine=engine.value, address=address)
    _print(searched)


def show(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")],
    storage: StorageOption = None,
    results: ResultsOption = RESULTS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write the best trial to this JSON file.")] = None,
) -> None:
    """Print the trials of a study and its best settings."""
    from ..experiments import best, default_storage, load_study

    loaded = load_study(study, storage or default_storage(results))
    if export is not None:
        part = export.with_name(f".{export.name}.{os.getpid()}")
        part.write_text(json.dumps(best(loaded), indent=2) + "\n")
        part.replace(export)
    if as_json:
        trials = [
            {"number": t.number, "state": t.state.name.lower(), "value": t.value, "settings": dict(t.params)}
            for t in loaded.trials
            if not t.user_attrs.get("surplus")
        ]
        typer.echo(json.dumps({"best": best(loaded), "trials": trials}, indent=2))
    else:
        _print(loaded)


def _print(study: Any) -> None:
    from rich.table import Table

    from .._console import wide_console
    from ..experiments import best

    trials = [trial for trial in study.trials if not trial.user_attrs.get("surplus")]
    names = sorted({name for trial in trials for name in trial.params})
    table = Table(box=None, pad_edge=False)
    for title in ("trial", "state", "value", *names):
        table.add_column(title, justify="left" if title == "state" else "right")
    for trial in trials:
        value = "" if trial.value is None or trial.state.name != "COMPLETE" else f"{trial.value:.4g}"
        settings = [f"{v:.4g}" if isinstance(v := trial.params.get(name, ""), float) else str(v) for name in names]
        table.add_row(str(trial.number), trial.state.name.lower(), value, *settings)
    wide_console().print(table)
    winner = best(study)
    options = " ".join(f"--set {key}={value}" for key, value in winner["settings"].items())
    typer.echo(f"best: trial {winner['trial']}, {winner['metric']} = {winner['value']:.4g} with {options}")
