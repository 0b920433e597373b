"""Sweeps: search for the settings of a row that optimize a metric, with Optuna, on one machine or many.

The study lives in a database: an SQLite file by default, PostgreSQL by URL for many machines. It is created once,
before any worker starts, because two workers that create the tables at the same time would race. If a worker is
killed, its heartbeat stops and its trial counts as failed. A trial with the same settings is queued, and continues from
the checkpoints of the first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..._checked import checked, describe
from ..._warn import warn_caller
from ...errors import InputError, StorageError
from ...train import derive_seed
from ._database import (
    RETRIES,
    database_error_in,
    experimental_parts,
    in_one_line,
    load_optuna,
    open_storage,
    unreachable,
    without_password,
)
from ._experiment import Scale
from ._parameter import Parameter
from ._registry import experiment_named
from ._runner import JobSpec, StopRunError, execute

if TYPE_CHECKING:
    import optuna


@checked
@dataclass(frozen=True)
class Sweep:
    """The search as plain values.

    Attributes:
        study: the study's name in the database.
        experiment: the experiment's name.
        row: the row whose settings vary.
        scale: smoke, quick, small or paper.
        parameters: the settings that vary.
        metric: the metric to optimize.
        storage: the URL of the database.
        results: the folder that holds all runs.
        data: the folder with data sets, or None.
        trials: the total number of trials over all workers, finished or pruned.
        seeds: the number of seeds that each trial averages over.
        fixed: other settings that differ from those of the scale and the row.
        prune: whether to stop hopeless trials early.
        seed: the seed of the search itself.
    """

    study: str
    experiment: str
    row: str
    scale: Scale
    parameters: tuple[Parameter, ...]
    metric: str
    storage: str
    results: str
    data: str | None = None
    trials: int = 20
    seeds: int = 1
    fixed: Mapping[str, Any] = field(default_factory=dict)
    prune: bool = True
    seed: int = 0

    @property
    def direction(self) -> str:
        """``maximize`` or ``minimize``."""
        better = experiment_named(self.experiment).metric(self.metric).better
        return "maximize" if better == "higher" else "minimize"

    def spec(self, settings: Mapping[str, Any], seed: int) -> JobSpec:
        """The job that a trial with these settings runs."""
        return JobSpec(self.experiment, self.row, self.scale, seed, self.results, self.data, {**self.fixed, **settings})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Sweep:
        """The inverse of ``dataclasses.asdict``."""
        parameters = tuple(
            Parameter(**{**parameter, "choices": tuple(parameter["choices"])}) for parameter in values["parameters"]
        )
        return cls(**{**values, "parameters": parameters})


@checked
def run_sweep(sweep: Sweep, *, workers: int = 1, engine: str = "local", address: str | None = None) -> optuna.Study:
    """Create the study unless it exists, run trials until it has enough of them, and return it."""
    experiment_named(sweep.experiment).settings(sweep.row, sweep.scale, {p.name: None for p in sweep.parameters})
    create_study(sweep)
    try:
        if engine == "ray":
            _work_on_ray(sweep, workers, address)
        elif workers == 1:
            work(sweep)
        else:
            _work_in_processes(sweep, workers)
        return load_study(sweep.study, sweep.storage)
    except Exception as error:
        lost = database_error_in(error)
        if lost is None:
            raise
        raise StorageError(
            "sweep",
            expected=f"the database at {without_password(sweep.storage)} to keep answering",
            got=in_one_line(lost),
            fix="Finished trials are kept. Start it again, then run the same command.",
        ) from error


@checked
def create_study(sweep: Sweep) -> None:
    """Create the tables and the study, or open the study with this name if it asks the same question."""
    optuna = load_optuna()
    try:
        study = optuna.create_study(
            study_name=sweep.study,
            storage=open_storage(sweep.storage),
            direction=sweep.direction,
            load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
    except Exception as error:
        raise unreachable(sweep.storage, error) from error
    question = json.loads(json.dumps(_question(sweep)))
    first_question = study.user_attrs.get("question")
    if first_question is not None and first_question != question:
        differing = sorted(key for key in question if first_question.get(key) != question[key])
        raise InputError(
            f"sweep {sweep.study}",
            expected="the question that the study was created with",
            got=f"a different {', '.join(differing)}",
            fix="Choose another --study name.",
        )
    study.set_user_attr("question", question)


def _question(sweep: Sweep) -> dict[str, Any]:
    kept = ("experiment", "row", "scale", "parameters", "metric", "seeds", "fixed")
    return {key: value for key, value in asdict(sweep).items() if key in kept}


@checked
def load_study(name: str, storage: str) -> optuna.Study:
    """The study with this name; the error for an unknown name lists the known ones."""
    optuna = load_optuna()
    try:
        return optuna.load_study(study_name=name, storage=open_storage(storage))
    except KeyError:
        known = optuna.get_all_study_names(open_storage(storage))
        raise InputError(
            "sweep",
            expected=f"a study in {without_password(storage)}: {', '.join(known) or 'none yet'}",
            got=repr(name),
            fix="" if known else "Start one with 'intertwine sweep run'.",
        ) from None
    except Exception as error:
        raise unreachable(storage, error) from error


def work(sweep: Sweep, worker: int = 0) -> None:
    """Run trials until the study has enough; several workers may do this at the same time."""
    optuna = load_optuna()
    storage = open_storage(sweep.storage)
    trials_so_far = len(optuna.load_study(study_name=sweep.study, storage=storage).trials)
    with experimental_parts(optuna):
        # The number of trials so far enters the seed: a worker that joins later must not repeat earlier draws.
        seed = derive_seed(sweep.seed, worker, trials_so_far) % 2**32
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=8)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4) if sweep.prune else optuna.pruners.NopPruner()
    study = optuna.load_study(study_name=sweep.study, storage=storage, sampler=sampler, pruner=pruner)
    while True:
        ended, running, failed = _counts(study)
        if ended >= sweep.trials:
            return
        if failed >= trials_so_far + 3 * sweep.trials:
            raise InputError(
                f"sweep {sweep.study}",
                expected="trials that can be run",
                got=f"{failed} that failed, the last with: {_last_error(study)}",
                fix="Run one by hand: intertwine experiment run NAME --only ROW --set KEY=VALUE.",
            )
        if ended + running >= sweep.trials:  # other workers run the last trials; one of them may still fail
            time.sleep(0.2)
            with experimental_parts(optuna):
                optuna.storages.fail_stale_trials(study)
            continue
        study.optimize(partial(_value_of, sweep), n_trials=1, catch=(_JobFailedError,))


def _counts(study: optuna.Study) -> tuple[int, int, int]:
    """How many trials have ended, are running, and have failed."""
    states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
    ended = sum(state in ("COMPLETE", "PRUNED") for state in states)
    return ended, states.count("RUNNING"), states.count("FAIL")


def _last_error(study: optuna.Study) -> str:
    errors = [trial.user_attrs.get("error") for trial in study.get_trials(deepcopy=False)]
    return next((error for error in reversed(errors) if error), "no message")


def _value_of(sweep: Sweep, trial: optuna.Trial) -> float:
    optuna = load_optuna()
    earlier = [t for t in trial.study.get_trials(deepcopy=False) if t.number < trial.number and t.state.name != "FAIL"]
    if len(earlier) >= sweep.trials:  # two workers started the last trial at the same time
        trial.set_user_attr("surplus", True)
        raise _JobFailedError("surplus")
    settings = {parameter.name: parameter.suggest(trial) for parameter in sweep.parameters}
    watch = experiment_named(sweep.experiment).watch

    def report(step: int, numbers: Mapping[str, float]) -> None:
        if watch in numbers:
            trial.report(numbers[watch], step)
            if trial.should_prune():
                raise StopRunError

    values = []
    for seed in range(sweep.seeds):
        spec = sweep.spec(settings, seed)
        try:
            # Only the first seed reports: Optuna takes each step of a trial once.
            outcome = execute(spec, report=report if seed == 0 and sweep.prune else None)
        except StopRunError:
            raise optuna.TrialPruned from None
        if outcome.state in ("failed", "busy"):
            error = outcome.error or "another process is running the same settings"
            trial.set_user_attr("error", error)
            # The last line: of an unexpected error, the text is its traceback.
            print(f"sweep: trial {trial.number} failed: {error.strip().splitlines()[-1]}", file=sys.stderr)
            raise _JobFailedError(outcome.error or outcome.state)
        values.append(outcome.metrics[sweep.metric])
    return sum(values) / len(values)


class _JobFailedError(Exception):
    """A trial's job failed; the sweep goes on."""


@checked
def best(sweep_study: optuna.Study) -> dict[str, Any]:
    """The best trial: its value, its settings, and the search that it won."""
    optuna = load_optuna()
    if not isinstance(sweep_study, optuna.Study):
        raise InputError("best", expected="an optuna study", got=describe(sweep_study))
    done = sweep_study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    if not done:
        raise InputError(f"sweep {sweep_study.study_name}", expected="a finished trial", got="none yet")
    trial = sweep_study.best_trial
    question = sweep_study.user_attrs.get("question", {})
    return {
        "study": sweep_study.study_name,
        "value": trial.value,
        "settings": dict(trial.params),
        "trial": trial.number,
        "finished": len(done),
        **{key: question.get(key) for key in ("experiment", "row", "scale", "metric", "fixed", "seeds")},
    }


def _work_in_processes(sweep: Sweep, workers: int) -> None:
    threads = max(1, (os.cpu_count() or 1) // workers)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, "-P", "-m", "intertwine.experiments.lab._sweep_worker"]

    def start(number: int) -> subprocess.CompletedProcess[str]:
        request = json.dumps({"sweep": asdict(sweep), "worker": number})
        return subprocess.run(command, input=request, capture_output=True, text=True, env=environment)

    with ThreadPoolExecutor(workers) as pool:
        ended = list(pool.map(start, range(workers)))
    failed = [(number, process) for number, process in enumerate(ended) if process.returncode != 0]
    for number, process in failed:
        reason = " ".join(process.stderr.split()[-30:])
        warn_caller(f"worker {number} ended with code {process.returncode} {reason}".strip(), RuntimeWarning)
    if failed:  # finish its trials here
        work(sweep, worker=workers)


def _work_on_ray(sweep: Sweep, workers: int, address: str | None) -> None:
    from ..._ray import ray_session

    with ray_session(workers, address) as ray:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(work)
        ray.get([task.remote(sweep, number) for number in range(workers)])
