"""Engines: jobs run in this process, in processes on this machine, or on a Ray cluster, with the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict

from ..._checked import checked
from ..._ray import ray_session
from ...errors import InputError
from ._runner import JobSpec, Outcome, execute, finished_record

_RETRIES = 2


@checked
def run_jobs(
    specs: Sequence[JobSpec],
    *,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
    progress: bool = False,
) -> Iterator[Outcome]:
    """Run jobs and yield their outcomes as they finish.

    Args:
        specs: the jobs.
        engine: ``local``, or ``ray`` (extra ``ray``).
        workers: the number of jobs that run at the same time. A single worker runs in this process, several in
            processes of their own.
        address: the address of a Ray cluster; None starts Ray on this machine.
        progress: whether jobs in this process draw progress bars.
    """
    if workers < 1:
        raise InputError("run_jobs", expected="at least one worker", got=str(workers), fix="Use --workers 1.")
    if engine == "ray":
        yield from _on_ray(specs, workers, address)
    elif engine == "local":
        if workers == 1:
            for spec in specs:
                yield execute(spec, progress=progress)
        else:
            yield from _in_processes(specs, workers)
    else:
        raise InputError("run_jobs", expected="engine local or ray", got=repr(engine))


def _in_processes(specs: Sequence[JobSpec], workers: int) -> Iterator[Outcome]:
    """Run each job in its own process: killing one does not end the others."""
    threads = max(1, (os.cpu_count() or 1) // workers)
    with ThreadPoolExecutor(workers) as pool:
        waiting: set[Future[Outcome]] = {pool.submit(_in_process, spec, threads) for spec in specs}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in waiting:
                future.cancel()


def _in_process(spec: JobSpec, threads: int) -> Outcome:
    if finished_record(spec) is not None:  # no need to start a process
        return execute(spec)
    settings = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, "-P", "-m", "intertwine.experiments.lab._worker"]
    done = subprocess.run(command, input=json.dumps(asdict(spec)), capture_output=True, text=True, env=settings)
    try:
        outcome = json.loads(done.stdout.splitlines()[-1])
        return Outcome(spec, outcome["state"], outcome["metrics"], outcome["seconds"], outcome["error"])
    except (IndexError, ValueError, KeyError):
        reason = f"its process ended with code {done.returncode}"
        if done.returncode < 0:
            reason = f"its process was killed by signal {-done.returncode}"
        tail = " ".join(done.stderr.split()[-40:])
        return Outcome(spec, "failed", error=f"{reason}{': ' + tail if tail else ''}")


def _on_ray(specs: Sequence[JobSpec], workers: int, address: str | None) -> Iterator[Outcome]:
    """Run jobs as Ray tasks. If a worker or machine is lost, its task runs again and resumes from its checkpoint."""
    with ray_session(workers, address) as ray:
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(execute)
        pending = {task.remote(spec): spec for spec in specs}
        while pending:
            (done,), _ = ray.wait(list(pending), num_returns=1)
            spec = pending.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError as error:
                yield Outcome(spec, "failed", error=f"lost after {_RETRIES} retries: {str(error).splitlines()[0]}")
