"""What an experiment is: rows with their published numbers, settings at three scales, and the orderings claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ..._checked import checked
from ..._figures import Figure
from ...errors import InputError
from ...train import Logger

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")


@checked
@dataclass(frozen=True)
class Metric:
    """A number that a run reports.

    Attributes:
        name: the key under which runs report it.
        unit: "%", "nats", …; empty for a pure number.
        better: whether more or less of it is better.
        meaning: one sentence, with the formula where there is one.
        beside: the name of the metric in whose table this one is a column: a null, a control or a variant of it.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"]
    meaning: str
    beside: str = ""


@checked
@dataclass(frozen=True)
class Published:
    """A published number: its mean, its spread and the number of runs behind it where they are given."""

    mean: float
    spread: float | None = None
    runs: int | None = None


@checked
@dataclass(frozen=True)
class ExperimentRow:
    """One line of a paper's table.

    Attributes:
        name: how the command line calls it.
        title: what the paper calls it.
        settings: what distinguishes it from the other rows.
        published: the paper's numbers by metric.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Published] = field(default_factory=dict)


@checked
@dataclass(frozen=True)
class Ordering:
    """A claim of the paper: row ``first`` is better than row ``second`` in this metric."""

    first: str
    second: str
    metric: str


@checked
@dataclass(frozen=True)
class Job:
    """One run of one row.

    Attributes:
        experiment: the experiment's name.
        row: the row's name.
        scale: smoke, small or paper.
        seed: the seed of everything random.
        settings: scale, row and overrides merged.
        data: the folder with data sets, or None for embedded data only.
        folder: where the run keeps its checkpoints and its record.
        download: whether data sets that are not in the folder may be fetched.
        progress: whether to draw progress bars.
        report: called with (step, metrics) at each validation; it may raise to stop the run early.
    """

    experiment: str
    row: str
    scale: Scale
    seed: int
    settings: Mapping[str, Any]
    data: Path | None
    folder: Path
    download: bool = False
    progress: bool = False
    report: Callable[[int, Mapping[str, float]], None] | None = None

    def loggers(self) -> tuple[Logger, ...]:
        """What :func:`fit` needs in order to tell ``report`` of each validation."""
        return (_Reporter(self.report),) if self.report is not None else ()


@dataclass(frozen=True)
class _Reporter:
    report: Callable[[int, Mapping[str, float]], None]

    def rewind(self, step: int) -> None:
        """Steps that come again are reported again."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Pass on the numbers of a validation."""
        if row["split"] == "val":
            numbers = {key: float(value) for key, value in row.items() if isinstance(value, int | float)}
            self.report(int(row["step"]), numbers)

    def close(self) -> None:
        """Nothing is held back."""


class FinishedRun(Protocol):
    """A finished run, as far as figures read it."""

    @property
    def row(self) -> str:
        """The row's name."""

    @property
    def seed(self) -> int:
        """The seed of everything random."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """What the run reported at its end."""

    @property
    def folder(self) -> Path:
        """Where it lies, with what :func:`save_arrays` kept."""


@checked
@dataclass(frozen=True)
class Experiment:
    """One paper, or one question.

    Attributes:
        name: how the command line calls it.
        title: what it shows.
        reference: the publication.
        metrics: what runs report, the principal one first.
        rows: the lines of its table.
        scales: settings of each scale: smoke runs every row in seconds, small in minutes on two cores, paper is the
            published setting.
        seeds: how many seeds each scale runs unless told otherwise.
        orderings: what the paper claims.
        run: performs one job and returns its metrics.
        data: which data sets it wants at each scale.
        figures: makes the experiment's own figures from its finished runs, whichever there are.
        watch: the number of each validation by which a sweep stops hopeless runs; better in the same direction as the
            first metric.
    """

    name: str
    title: str
    reference: str
    metrics: tuple[Metric, ...]
    rows: tuple[ExperimentRow, ...]
    scales: Mapping[Scale, Mapping[str, Any]]
    seeds: Mapping[Scale, int]
    orderings: tuple[Ordering, ...]
    run: Callable[[Job], Mapping[str, float]]
    data: Mapping[Scale, str] = field(default_factory=dict)
    figures: Callable[[Sequence[FinishedRun]], Sequence[Figure]] | None = None
    watch: str = "val_loss"

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise InputError(self.name, expected="rows with different names", got=str(names), fix="Rename one.")
        known = {metric.name for metric in self.metrics}
        own = {metric.name for metric in self.metrics if not metric.beside}
        for metric in self.metrics:
            if metric.beside and metric.beside not in own:
                raise InputError(
                    self.name,
                    expected=f"metrics beside one that has a table of its own: {', '.join(sorted(own))}",
                    got=f"{metric.name} beside {metric.beside}",
                )
        for claim in self.orderings:
            if claim.metric not in known or not {claim.first, claim.second} <= set(names):
                raise InputError(
                    self.name,
                    expected=f"orderings of rows {names} in metrics {sorted(known)}",
                    got=f"{claim.first} against {claim.second} in {claim.metric}",
                    fix="An ordering names two rows and a metric of the experiment.",
                )
        if set(self.scales) != set(SCALES) or set(self.seeds) != set(SCALES):
            raise InputError(
                self.name,
                expected=f"settings and seeds for {SCALES}",
                got=str(list(self.scales)),
                fix="Give all three.",
            )

    def row(self, name: str) -> ExperimentRow:
        """The row of this name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise InputError(
            f"experiment {self.name}",
            expected=f"a row: {', '.join(row.name for row in self.rows)}",
            got=repr(name),
            fix=f"See 'intertwine experiment show {self.name}'.",
        )

    def metric(self, name: str) -> Metric:
        """The metric of this name."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise InputError(
            f"experiment {self.name}",
            expected=f"a metric: {', '.join(metric.name for metric in self.metrics)}",
            got=repr(name),
        )

    def settings(self, row: str, scale: Scale, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What a job is run with: the scale's settings, then the row's, then overrides, later ones winning."""
        merged = {**self.scales[scale], **self.row(row).settings}
        unknown = sorted(set(overrides or {}) - set(merged))
        if unknown:
            raise InputError(
                f"experiment {self.name}",
                expected=f"settings among {', '.join(sorted(merged))}",
                got=", ".join(unknown),
                fix="Override an existing setting.",
            )
        return {**merged, **(overrides or {})}
