"""Jobs and trials on a real Ray on this machine: the same results as here, and lost workers are replaced."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from intertwine._ray import require_reachable
from intertwine.errors import InputError
from intertwine.experiments import JobSpec, Sweep, default_storage, parse_parameter, run_jobs, run_sweep
from tests.waiting import wait_until

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its log files open
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def session():
    """One Ray for all tests here: starting it takes seconds."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def job(results: Path, seed: int, **settings) -> JobSpec:
    return JobSpec("lenet", "linear", "smoke", seed, str(results), None, {"images": 60, "epochs": 1, **settings})


@pytest.mark.whole
def test_the_same_results_as_the_local_engine(tmp_path):
    here = {o.spec.seed: dict(o.metrics) for o in run_jobs([job(tmp_path / "local", s) for s in (0, 1, 2)])}
    there = list(run_jobs([job(tmp_path / "ray", s) for s in (0, 1, 2)], engine="ray", workers=2))
    assert {o.state for o in there} == {"finished"}
    assert {o.spec.seed: dict(o.metrics) for o in there} == here
    assert {o.state for o in run_jobs([job(tmp_path / "ray", 0)], engine="ray")} == {"already finished"}


def test_a_worker_killed_in_mid_run_is_replaced(tmp_path):
    """The killed job is run again by another worker, goes on from its checkpoint, and ends as if nothing happened."""
    long = {"images": 1000, "epochs": 8, "batch_size": 10}
    expected = next(run_jobs([job(tmp_path / "local", 0, **long)])).metrics
    killed: list[int] = []

    def kill_the_worker() -> list[int]:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # processes come and go
                if (process / "cmdline").read_bytes().startswith(b"ray::execute"):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed.append(int(process.name))
        return killed

    def saved() -> list[Path]:
        return list((tmp_path / "ray").rglob("checkpoints/step-*"))

    killer = threading.Thread(target=wait_until, args=(lambda: saved() and kill_the_worker(),))
    killer.start()
    outcomes = list(run_jobs([job(tmp_path / "ray", 0, **long)], engine="ray"))
    killer.join()
    assert killed, "no worker was killed"
    assert [o.state for o in outcomes] == ["finished"]
    assert outcomes[0].metrics == expected


def test_a_failing_job_is_an_outcome(tmp_path):
    spec = JobSpec("lenet", "linear", "small", 0, str(tmp_path), str(tmp_path / "nowhere"))
    (outcome,) = run_jobs([spec], engine="ray")
    assert outcome.state == "failed"
    assert "mnist" in (outcome.error or "")


@pytest.mark.whole
def test_a_sweep(tmp_path):
    asked = Sweep(
        study="ray",
        experiment="lenet",
        row="linear",
        scale="smoke",
        parameters=(parse_parameter("lr=1e-3..1e-1:log"),),
        metric="test_error",
        storage=default_storage(tmp_path),
        results=str(tmp_path),
        trials=4,
        fixed={"images": 60, "epochs": 1},
    )
    study = run_sweep(asked, engine="ray", workers=2)
    assert sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials) == 4


def test_no_cluster_there(tmp_path):
    with pytest.raises(InputError, match=r"a Ray cluster at 127\.0\.0\.1:1; got Connection refused"):
        require_reachable("127.0.0.1:1")
