"""Results that come with the package: one small file per experiment and scale, made from finished runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._checked import checked
from ..._files import replace_file
from ...errors import InputError
from ._experiment import SCALES, Experiment, Scale
from ._runner import JobSpec, Run, finished_runs

FOLDER = Path(__file__).parents[1] / "results"
"""The results in the package."""

_POINTS = 20
"""Points of a learning curve to keep."""

_FACTS = ("python", "torch", "machine", "threads", "cpus", "bfloat16", "version", "commit")


@checked
def kept_runs(experiment: Experiment, scale: Scale, *, folder: Path = FOLDER) -> list[Run]:
    """The runs of an experiment whose results come with the package; none if nobody ran it at this scale.

    A run counts only if its settings are those that the experiment has now.

    >>> from intertwine.experiments import experiment_named
    >>> kept_runs(experiment_named("lenet"), "paper")
    []
    """
    entries = _read(experiment, scale, folder)
    return [_run(entry) for entry in entries if _is_current(experiment, scale, entry)]


@checked
def kept_scales(experiment: Experiment, *, folder: Path = FOLDER) -> list[Scale]:
    """The scales at which results come with the package, the largest last."""
    return [scale for scale in SCALES if scale in experiment.scales and kept_runs(experiment, scale, folder=folder)]


@checked
def keep_results(experiment: Experiment, scale: Scale, *, results: Path, folder: Path = FOLDER) -> Path:
    """Write the finished runs of an experiment to its file in the package.

    A run that is made again replaces its old result; results with settings that the experiment no longer has are
    dropped.

    Args:
        experiment: the experiment.
        scale: the scale.
        results: the folder of all runs.
        folder: the folder of the results that come with the package.

    Returns:
        The file.
    """
    runs = finished_runs(experiment, scale, results=results)
    if not runs:
        raise InputError(
            f"experiment {experiment.name}",
            expected=f"finished runs at scale {scale} in {results}",
            got="none",
            fix=f"Run 'intertwine experiment run {experiment.name} --scale {scale} --results {results}'.",
        )
    entries = {
        (entry["row"], entry["seed"]): entry
        for entry in _read(experiment, scale, folder)
        if _is_current(experiment, scale, entry)
    }
    entries |= {(run.row, run.seed): _entry(experiment, scale, run) for run in runs}
    order = [row.name for row in experiment.rows]
    kept = [entries[key] for key in sorted(entries, key=lambda key: (order.index(key[0]), key[1]))]
    path = _file(experiment, scale, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in kept)  # one run per line: small differences
    replace_file(path, f'{{"experiment": "{experiment.name}", "scale": "{scale}", "runs": [\n{lines}\n]}}\n'.encode())
    return path


def _file(experiment: Experiment, scale: Scale, folder: Path) -> Path:
    return folder / f"{experiment.name}-{scale}.json"


def _read(experiment: Experiment, scale: Scale, folder: Path) -> list[dict[str, Any]]:
    try:
        entries: list[dict[str, Any]] = json.loads(_file(experiment, scale, folder).read_bytes())["runs"]
    except FileNotFoundError:
        return []
    return entries


def _is_current(experiment: Experiment, scale: Scale, entry: Mapping[str, Any]) -> bool:
    known = {row.name for row in experiment.rows}
    return entry["row"] in known and entry["settings"] == _settings(experiment, scale, entry["row"])


def _settings(experiment: Experiment, scale: Scale, row: str) -> Any:
    """The settings of a row as JSON values."""
    return json.loads(json.dumps(JobSpec(experiment.name, row, scale, 0, "").settings))


def _entry(experiment: Experiment, scale: Scale, run: Run) -> dict[str, Any]:
    return {
        "row": run.row,
        "seed": run.seed,
        "metrics": {name: _rounded(value) for name, value in run.metrics.items()},
        "seconds": round(run.seconds, 1),
        "cpu_seconds": None if run.cpu_seconds is None else round(run.cpu_seconds, 1),
        "settings": _settings(experiment, scale, run.row),
        "environment": {key: run.environment[key] for key in _FACTS if key in run.environment},
        "curve": _thinned(run.history),
    }


def _thinned(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All validations if they are few, and evenly spaced training steps: enough to see whether a run had converged."""
    chosen: list[Mapping[str, Any]] = []
    for split in ("train", "val"):
        rows = [row for row in history if row.get("split") == split]
        stride = max(1, -(-len(rows) // _POINTS))
        chosen += rows[::-1][::stride][::-1]  # always the last one
    return [
        {key: _rounded(value) for key, value in row.items() if key not in ("seconds", "lr")}
        for row in sorted(chosen, key=lambda row: row["step"])
    ]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.6g}")
    return value


def _run(entry: Mapping[str, Any]) -> Run:
    return Run(
        row=entry["row"],
        seed=entry["seed"],
        metrics={name: float(value) for name, value in entry["metrics"].items()},
        history=entry["curve"],
        seconds=entry["seconds"],
        environment=entry["environment"],
        folder=FOLDER / "without-arrays",
        cpu_seconds=entry["cpu_seconds"],
    )
