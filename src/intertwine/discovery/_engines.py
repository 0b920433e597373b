"""Where runs are executed: in this process, in several, or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .._ray import ray_session
from ..errors import InputError
from ._runs import Answer, Run, Study, execute

EngineName = Literal["local", "process", "ray"]
Progress = Callable[[str, int, int], None]


class Engine(Protocol):
    """Executes runs; those that have not begun at the deadline are left out."""

    def run(self, study: Study, runs: Sequence[Run], deadline: float, show: Callable[[Run], None]) -> dict[Run, Answer]:
        """The answers of the runs that were executed, or whose answers were stored."""
        ...


def stored(study: Study, runs: Sequence[Run]) -> dict[Run, Answer]:
    """The answers of runs that an earlier call finished."""
    answers = ((run, study.answer(run)) for run in runs)
    return {run: answer for run, answer in answers if answer is not None}


@dataclass
class Local:
    """One run after the other, in this process."""

    def run(self, study: Study, runs: Sequence[Run], deadline: float, show: Callable[[Run], None]) -> dict[Run, Answer]:
        """See :class:`Engine`."""
        answers = stored(study, runs)
        for run in runs:
            if run not in answers and time.monotonic() < deadline:
                show(run)
                answers[run] = execute(study, run)
        return answers


@dataclass
class Processes:
    """Several processes on this machine."""

    pool: ProcessPoolExecutor
    workers: int

    def run(self, study: Study, runs: Sequence[Run], deadline: float, show: Callable[[Run], None]) -> dict[Run, Answer]:
        """See :class:`Engine`."""
        _require_picklable(study)

        def submit(run: Run) -> Future[Answer]:
            show(run)
            return self.pool.submit(execute, study, run)

        def finished(pending: Collection[Future[Answer]]) -> dict[Future[Answer], Answer]:
            return {future: future.result() for future in wait(pending, return_when=FIRST_COMPLETED).done}

        return _spread(stored(study, runs), runs, self.workers, deadline, submit, finished)


@dataclass
class OnRay:
    """Ray tasks. If a worker is lost, its run continues elsewhere from its checkpoint."""

    ray: Any
    workers: int

    def run(self, study: Study, runs: Sequence[Run], deadline: float, show: Callable[[Run], None]) -> dict[Run, Answer]:
        """See :class:`Engine`."""
        task = self.ray.remote(num_cpus=1, max_retries=2)(execute)
        shared = self.ray.put(study)

        def submit(run: Run) -> Any:
            show(run)
            return task.remote(shared, run)

        def finished(pending: Collection[Any]) -> dict[Any, Answer]:
            (done,), _ = self.ray.wait(list(pending), num_returns=1)
            return {done: self.ray.get(done)}

        return _spread(stored(study, runs), runs, self.workers, deadline, submit, finished)


def _spread(
    answers: dict[Run, Answer],
    runs: Sequence[Run],
    workers: int,
    deadline: float,
    submit: Callable[[Run], Any],
    finished: Callable[[Collection[Any]], dict[Any, Answer]],
) -> dict[Run, Answer]:
    """Keep all workers busy until the deadline, with the runs that have no answer yet."""
    waiting = [run for run in runs if run not in answers]
    pending: dict[Any, Run] = {}
    while waiting or pending:
        while waiting and len(pending) < workers and time.monotonic() < deadline:
            run = waiting.pop(0)
            pending[submit(run)] = run
        if not pending:
            break
        for job, answer in finished(pending).items():
            answers[pending.pop(job)] = answer
    return answers


@contextmanager
def start_engine(name: EngineName, workers: int | None, address: str | None) -> Iterator[Engine]:
    """An engine for the block."""
    count = workers or os.cpu_count() or 1
    if name == "local":
        yield Local()
    elif name == "process":
        # A forked process would inherit the threads of torch in an unknown state.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=context, initializer=_ignore_interrupts) as pool:
            yield Processes(pool, count)
    else:
        with ray_session(workers, address) as ray:
            yield OnRay(ray, count)


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process. A run that trains saves its state and stops; a waiting worker just waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _require_picklable(study: Study) -> None:
    try:
        pickle.dumps((study.candidates, study.network))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            "discover",
            expected="symmetries and networks that can be sent to another process, with engine process",
            got=str(error),
            fix="Define functions at the top of a module instead of lambdas, or use engine local or ray.",
        ) from error
