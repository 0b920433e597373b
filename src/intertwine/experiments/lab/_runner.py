"""Runs the jobs of an experiment. A finished job never runs again.

Each job has its own folder, named by row, seed and a digest of the settings, with a record of how it ended. A job whose
record says ``finished`` is not run again. A lock on the folder keeps two processes from running the same job; the
operating system releases it when the process ends, even if it crashes.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..._checked import NonNegative, checked
from ..._warn import warn_caller
from ...errors import BusyError, IntertwineError, StorageError
from ...train import RecordWarning, RunRecord, content_hash, locked, read_metrics
from ._experiment import Experiment, Job, Scale
from ._registry import experiment_named

State = Literal["finished", "already finished", "busy", "failed"]
RECORD = "record.json"


@checked
@dataclass(frozen=True)
class JobSpec:
    """A job as plain values that can be sent to another process or machine.

    Attributes:
        experiment: the experiment's name.
        row: the row's name.
        scale: smoke, quick, small or paper.
        seed: the seed.
        results: the folder that holds all runs.
        data: the folder with data sets, or None.
        overrides: settings that differ from those of the scale and the row.
        download: whether to download data sets that are not in the folder.
    """

    experiment: str
    row: str
    scale: Scale
    seed: int
    results: str
    data: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    download: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the job."""
        return experiment_named(self.experiment).settings(self.row, self.scale, self.overrides)

    @property
    def config(self) -> dict[str, Any]:
        """Everything that determines the result, except the seed."""
        return {"experiment": self.experiment, "row": self.row, "scale": self.scale, "settings": self.settings}

    @property
    def folder(self) -> Path:
        """The folder of this job's files."""
        digest = content_hash(self.config)[:10]
        return Path(self.results) / self.experiment / self.scale / self.row / f"seed-{self.seed}-{digest}"


@checked
@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        spec: the job.
        state: ``finished`` now, ``already finished`` before, ``busy`` in another process, or ``failed``.
        metrics: the metrics that it reported.
        seconds: its duration.
        error: the reason if it failed.
    """

    spec: JobSpec
    state: State
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None


class StopRunError(Exception):
    """Raised from a job's ``report`` to end the run early, as a sweep does with hopeless trials."""


@checked
def jobs_of(
    experiment: Experiment,
    scale: Scale,
    *,
    results: Path,
    data: Path | None = None,
    only: Sequence[str] = (),
    seeds: int | None = None,
    first_seed: NonNegative = 0,
    overrides: Mapping[str, Any] | None = None,
    download: bool = False,
) -> list[JobSpec]:
    """The jobs of an experiment, seed by seed: an interrupted batch still compares all rows at some seeds.

    ``first_seed`` continues runs whose records are elsewhere, or splits them between machines that share no folder.
    """
    experiment.require_scale(scale)
    rows = [experiment.row(name).name for name in only] or [row.name for row in experiment.rows]
    count = experiment.seeds[scale] if seeds is None else seeds
    folders: dict[str, Any] = {
        "results": str(results),
        "data": str(data) if data is not None else None,
        "download": download,
    }
    return [
        JobSpec(experiment.name, row, scale, seed, overrides=dict(overrides or {}), **folders)
        for seed in range(first_seed, first_seed + count)
        for row in rows
    ]


@checked
def execute(
    spec: JobSpec, *, progress: bool = False, report: Callable[[int, Mapping[str, float]], None] | None = None
) -> Outcome:
    """Run a job unless it is finished or another process is running it. An error in the job becomes its outcome."""
    experiment = experiment_named(spec.experiment)
    record = finished_record(spec)
    if record is not None:
        return Outcome(spec, "already finished", _numbers(record), record.duration)
    with _claimed(spec.folder) as is_ours:
        if not is_ours:
            return Outcome(spec, "busy")
        record = finished_record(spec)  # another process may have finished it while we waited for the lock
        if record is not None:
            return Outcome(spec, "already finished", _numbers(record), record.duration)
        return _run(experiment, spec, progress, report)


def _run(
    experiment: Experiment,
    spec: JobSpec,
    progress: bool,
    report: Callable[[int, Mapping[str, float]], None] | None,
) -> Outcome:
    record = RunRecord.start(spec.config, seed=spec.seed)
    path = spec.folder / RECORD
    job = Job(
        experiment=spec.experiment,
        row=spec.row,
        scale=spec.scale,
        seed=spec.seed,
        settings=spec.settings,
        data=Path(spec.data) if spec.data is not None else None,
        folder=spec.folder,
        download=spec.download,
        progress=progress,
        report=report,
    )
    record.write(path)
    start = time.perf_counter()
    try:
        metrics = dict(experiment.run(job))
    except (KeyboardInterrupt, StopRunError):
        record.ended("interrupted", metrics={}, duration=time.perf_counter() - start).write(path)
        raise
    except Exception as error:
        seconds = time.perf_counter() - start
        text = str(error) if isinstance(error, IntertwineError) else traceback.format_exc(limit=-4).strip()
        record.ended("failed", metrics={}, duration=seconds, error=text).write(path)
        return Outcome(spec, "failed", {}, seconds, text)
    seconds = time.perf_counter() - start
    record.ended("finished", metrics=metrics, duration=seconds).write(path)
    return Outcome(spec, "finished", metrics, seconds)


def finished_record(spec: JobSpec) -> RunRecord | None:
    """The record of this job if it is finished; a damaged record counts as missing."""
    try:
        record = RunRecord.read(spec.folder / RECORD)
    except StorageError:
        return None
    same = record.config == spec.config and record.seed == spec.seed
    return record if same and record.status == "finished" else None


@checked
@dataclass(frozen=True)
class Run:
    """A finished run, for tables and plots.

    Attributes:
        row: the row's name.
        seed: its seed.
        metrics: the metrics that it reported.
        history: one mapping per logged step.
        seconds: its duration.
        environment: versions of Python, torch and the code.
        folder: the folder of its files.
        cpu_seconds: the CPU seconds of its trainings, if they were measured.
    """

    row: str
    seed: int
    metrics: Mapping[str, float]
    history: Sequence[Mapping[str, Any]]
    seconds: float
    environment: Mapping[str, str]
    folder: Path
    cpu_seconds: float | None = None


@checked
def finished_runs(experiment: Experiment, scale: Scale, *, results: Path) -> list[Run]:
    """All finished runs of an experiment with its current settings, by row and seed.

    Damaged records are left out with a warning. Runs with other settings (from an older version of the
    experiment, or a sweep) are not part of its table.
    """
    runs = []
    for row in experiment.rows:
        config = JobSpec(experiment.name, row.name, scale, 0, str(results)).config
        for path in sorted((results / experiment.name / scale / row.name).glob(f"seed-*/{RECORD}")):
            try:
                record = RunRecord.read(path)
            except StorageError as error:
                warn_caller(f"{path}: left out: {error.got}", RecordWarning)
                continue
            if record.status == "finished" and record.config == config:
                facts = {**record.environment, **record.code}
                environment = {key: str(value) for key, value in facts.items() if value is not None}
                history = read_metrics(path.parent / "fit")
                costs = [_cpu_seconds(fit) for fit in sorted(path.parent.glob(f"**/fit/{RECORD}"))]
                runs.append(
                    Run(
                        row.name,
                        record.seed,
                        _numbers(record),
                        history,
                        record.duration,
                        environment,
                        path.parent,
                        sum(cost for cost in costs if cost is not None) or None,
                    )
                )
    return sorted(runs, key=lambda run: ([row.name for row in experiment.rows].index(run.row), run.seed))


def _cpu_seconds(path: Path) -> float | None:
    try:
        return RunRecord.read(path).cpu_seconds
    except StorageError:
        return None


def _numbers(record: RunRecord) -> dict[str, float]:
    return {key: float(value) for key, value in record.metrics.items() if isinstance(value, int | float)}


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Whether this process got the lock on the folder, which it holds during the block."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
            is_ours = True
        except BusyError:
            is_ours = False
        yield is_ours
