"""What an experiment is: rows with their published numbers, settings per scale, and the claimed orderings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ..._checked import checked
from ..._figures import Figure
from ...errors import InputError
from ...train import Logger

Scale = Literal["smoke", "quick", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "quick", "small", "paper")
"""From seconds to days. Every experiment has all of them, except that it may leave out ``quick``."""


@checked
@dataclass(frozen=True)
class Metric:
    """A number that a run reports.

    Attributes:
        name: the key that runs report it under.
        unit: "%", "nats", …; empty for a pure number.
        better: whether higher or lower values are better.
        meaning: one sentence, with the formula if there is one.
        beside: the metric whose table shows this one as a column, if this one is a null, a control or a variant of it.
        comparable: the scales at which published numbers mean the same as ours, if not all: a sum over more frames and
            capsules is larger, for example. At other scales the published ones are left out.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"]
    meaning: str
    beside: str = ""
    comparable: tuple[Scale, ...] = SCALES


@checked
@dataclass(frozen=True)
class Published:
    """A published number: its mean and, if the paper gives them, its spread and the number of runs."""

    mean: float
    spread: float | None = None
    runs: int | None = None


@checked
@dataclass(frozen=True)
class ExperimentRow:
    """One line of a paper's table.

    Attributes:
        name: its name on the command line.
        title: its name in the paper.
        settings: the settings in which it differs from the other rows.
        published: the paper's numbers by metric.
        scales: settings that it has at one scale only, such as more epochs than other rows at ``small``.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Published] = field(default_factory=dict)
    scales: Mapping[Scale, Mapping[str, Any]] = field(default_factory=dict)

    def settings_at(self, scale: Scale) -> dict[str, Any]:
        """The settings in which the row differs from the other rows at this scale."""
        return {**self.settings, **self.scales.get(scale, {})}


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
        scale: smoke, quick, small or paper.
        seed: the seed of everything random.
        settings: the merged settings of scale, row and overrides.
        data: the folder with data sets; None allows embedded data only.
        folder: the folder for the checkpoints and the record of the run.
        download: whether to download data sets that are not in the folder.
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
        """The loggers that make :func:`fit` call ``report`` at each validation."""
        return (_Reporter(self.report),) if self.report is not None else ()


@dataclass(frozen=True)
class _Reporter:
    report: Callable[[int, Mapping[str, float]], None]

    def rewind(self, step: int) -> None:
        """Nothing to undo: repeated steps are reported again."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Pass on the numbers of a validation."""
        if row["split"] == "val":
            numbers = {key: float(value) for key, value in row.items() if isinstance(value, int | float)}
            self.report(int(row["step"]), numbers)

    def close(self) -> None:
        """Nothing to flush."""


class FinishedRun(Protocol):
    """The part of a finished run that figures read."""

    @property
    def row(self) -> str:
        """The row's name."""

    @property
    def seed(self) -> int:
        """The seed of everything random."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics that the run reported at its end."""

    @property
    def folder(self) -> Path:
        """The run's folder, with the arrays of :func:`save_arrays`."""


@checked
@dataclass(frozen=True)
class Experiment:
    """One paper, or one question.

    Attributes:
        name: its name on the command line.
        title: what it shows.
        reference: the publication.
        metrics: what runs report, the main metric first.
        rows: the lines of its table.
        scales: settings per scale: smoke runs every row in seconds, quick in minutes and small in minutes to hours on
            two cores, and paper uses the published settings. ``quick`` is optional.
        seeds: the default number of seeds per scale.
        orderings: the claims of the paper.
        run: performs one job and returns its metrics.
        data: the data sets that each scale uses.
        figures: returns the figures of this experiment, given whichever runs are finished.
        counts: whether a finished run counts, given its metrics, where a paper leaves out degenerate runs.
        watch: the validation metric that lets a sweep stop hopeless runs. Its better direction is that of the first
            metric.
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
    counts: Callable[[Mapping[str, float]], bool] = lambda metrics: True
    watch: str = "val_loss"

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise InputError(self.name, expected="rows with different names", got=str(names))
        known = {metric.name for metric in self.metrics}
        with_table = {metric.name for metric in self.metrics if not metric.beside}
        for metric in self.metrics:
            if metric.beside and metric.beside not in with_table:
                raise InputError(
                    self.name,
                    expected=f"beside to name a metric that has its own table: {', '.join(sorted(with_table))}",
                    got=f"{metric.beside}, for {metric.name}",
                )
        for claim in self.orderings:
            if claim.metric not in known or not {claim.first, claim.second} <= set(names):
                raise InputError(
                    self.name,
                    expected=f"orderings of rows {names} in metrics {sorted(known)}",
                    got=f"{claim.first} against {claim.second} in {claim.metric}",
                )
        if {*self.scales, "quick"} != set(SCALES) or set(self.seeds) != set(self.scales):
            raise InputError(
                self.name,
                expected=f"settings and seeds for {SCALES}, or for all of them except quick",
                got=f"settings for {list(self.scales)}, seeds for {list(self.seeds)}",
            )

    def row(self, name: str) -> ExperimentRow:
        """The row with this name."""
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
        """The metric with this name."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise InputError(
            f"experiment {self.name}",
            expected=f"a metric: {', '.join(metric.name for metric in self.metrics)}",
            got=repr(name),
        )

    def require_scale(self, scale: Scale) -> None:
        """Raise an error if the experiment does not have this scale."""
        if scale not in self.scales:
            offered = ", ".join(name for name in SCALES if name in self.scales)
            raise InputError(f"experiment {self.name}", expected=f"a scale: {offered}", got=repr(scale))

    def settings(self, row: str, scale: Scale, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The settings of a job: those of the scale, replaced by those of the row, replaced by overrides."""
        self.require_scale(scale)
        merged = {**self.scales[scale], **self.row(row).settings_at(scale)}
        unknown = sorted(set(overrides or {}) - set(merged))
        if unknown:
            raise InputError(
                f"experiment {self.name}",
                expected=f"settings among {', '.join(sorted(merged))}",
                got=", ".join(unknown),
            )
        return {**merged, **(overrides or {})}
