"""Jobs are run once, whoever runs them; a killed batch goes on; two processes on one folder do not collide."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.errors import InputError
from intertwine.experiments import JobSpec, execute, experiment_named, finished_runs, jobs_of, run_jobs
from intertwine.train import RecordWarning
from tests.waiting import wait_until

LENET = experiment_named("lenet")
QUICK = {"images": 60, "epochs": 1}
LONG = {"images": 1000, "epochs": 100_000, "batch_size": 10}  # ends only by being killed


def quick(results: Path, row="linear", seed=0, **overrides) -> JobSpec:
    return JobSpec("lenet", row, "smoke", seed, str(results), None, {**QUICK, **overrides})


def cli(*words: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "intertwine", "experiment", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@contextmanager
def killed_at_the_end(process: subprocess.Popen):
    """However the test ends, the process does not outlive it and its pipes are closed."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def job_records(results: Path) -> list[Path]:
    """The records of the jobs themselves; the training inside each one keeps its own, one folder further down."""
    return list(results.glob("lenet/*/*/*/record.json"))


def as_settings(values) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def test_a_finished_job_is_not_run_again(tmp_path):
    first = execute(quick(tmp_path))
    assert first.state == "finished"
    record = (quick(tmp_path).folder / "record.json").read_bytes()
    second = execute(quick(tmp_path))
    assert (second.state, second.metrics) == ("already finished", first.metrics)
    assert (quick(tmp_path).folder / "record.json").read_bytes() == record
    assert execute(quick(tmp_path, seed=1)).state == "finished"
    assert execute(quick(tmp_path, lr=0.02)).state == "finished"
    assert len(list(tmp_path.rglob("seed-*"))) == 3


def test_a_damaged_record_means_the_job_is_run_again(tmp_path):
    first = execute(quick(tmp_path))
    path = quick(tmp_path).folder / "record.json"
    path.write_text(path.read_text()[:50])
    again = execute(quick(tmp_path))
    assert (again.state, again.metrics) == ("finished", first.metrics)


def test_a_job_that_fails_is_an_outcome(tmp_path):
    outcome = execute(JobSpec("lenet", "linear", "small", 0, str(tmp_path), str(tmp_path / "nowhere")))
    assert outcome.state == "failed"
    assert "mnist" in outcome.error
    assert execute(quick(tmp_path)).state == "finished"
    record = json.loads(
        (tmp_path / "lenet" / "small" / "linear").glob("seed-0-*").__next__().joinpath("record.json").read_text()
    )
    assert record["status"] == "failed"
    assert record["error"] == outcome.error


def test_seeds_can_be_added_elsewhere(tmp_path):
    jobs = jobs_of(LENET, "smoke", results=tmp_path, only=["linear"], seeds=2, first_seed=3)
    assert [job.seed for job in jobs] == [3, 4]
    with pytest.raises(InputError, match="first_seed"):
        jobs_of(LENET, "smoke", results=tmp_path, first_seed=-1)


def test_runs_with_the_present_settings_make_the_table(tmp_path):
    for spec in jobs_of(LENET, "smoke", results=tmp_path, only=["linear"], seeds=2):
        assert execute(spec).state == "finished"
    execute(quick(tmp_path, "linear"))  # other settings: not part of the table
    runs = finished_runs(LENET, "smoke", results=tmp_path)
    assert [(run.row, run.seed) for run in runs] == [("linear", 0), ("linear", 1)]
    assert runs[0].history
    assert runs[0].environment["torch"]
    broken = runs[0].folder / "record.json"
    broken.write_text("{")
    with pytest.warns(RecordWarning, match=r"seed-0.*left out"):
        rest = finished_runs(LENET, "smoke", results=tmp_path)
    assert [run.seed for run in rest] == [1]


@pytest.mark.whole
def test_processes_give_the_same_results_as_this_one(tmp_path):
    here = {(o.spec.row, o.spec.seed): o.metrics for o in run_jobs([quick(tmp_path / "a", seed=s) for s in (0, 1)])}
    there = list(run_jobs([quick(tmp_path / "b", seed=s) for s in (0, 1)], workers=2))
    assert {(o.spec.row, o.spec.seed): o.metrics for o in there} == here
    assert {o.state for o in there} == {"finished"}


def test_wrong_engines(tmp_path):
    with pytest.raises(InputError, match="engine local or ray; got 'slurm'"):
        list(run_jobs([quick(tmp_path)], engine="slurm"))
    with pytest.raises(InputError, match="at least one worker; got 0"):
        list(run_jobs([quick(tmp_path)], workers=0))


@pytest.mark.whole
@pytest.mark.usefixtures("forked_children")
def test_a_killed_batch_goes_on_where_it_stopped(tmp_path):
    """Killed in the middle of a run; continued, it ends with what an uninterrupted batch gives."""
    settings = {**LONG, "epochs": 6}
    words = ("run", "lenet", "--only", "mlp", "--seeds", "1", *as_settings(settings))
    [whole] = jobs_of(LENET, "smoke", results=tmp_path / "whole", only=["mlp"], seeds=1, overrides=settings)
    assert execute(whole).state == "finished"
    with killed_at_the_end(cli(*words, "--results", str(tmp_path / "part"))):
        wait_until(lambda: list((tmp_path / "part").rglob("checkpoints/step-*")))
    [record] = job_records(tmp_path / "part")
    assert json.loads(record.read_text())["status"] == "running"
    again = cli(*words, "--results", str(tmp_path / "part"))
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert "finished" in out
    fit = json.loads(next((tmp_path / "part").rglob("fit/record.json")).read_text())
    assert fit["status"] == "finished"
    ends = [json.loads(job_records(tmp_path / name)[0].read_text()) for name in ("whole", "part")]
    assert ends[0]["metrics"] == ends[1]["metrics"]


@pytest.mark.usefixtures("forked_children")
def test_two_processes_on_one_folder_do_not_collide(tmp_path):
    words = ("run", "lenet", "--seeds", "2", *as_settings({"images": 100, "epochs": 1}), "--results", str(tmp_path))
    both = [cli(*words), cli(*words)]
    outs = [process.communicate(timeout=180) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    did = [line for out, _ in outs for line in out.splitlines() if ": finished" in line]
    assert len(did) == 6, outs  # three rows, two seeds, each done by one of the two
    assert len(list(tmp_path.rglob("seed-*"))) == 6


@pytest.mark.usefixtures("forked_children")
def test_a_busy_job_is_left_to_the_process_that_has_it(tmp_path):
    words = ("run", "lenet", "--only", "mlp", "--seeds", "1", *as_settings(LONG), "--results", str(tmp_path))
    with killed_at_the_end(cli(*words)):
        wait_until(lambda: job_records(tmp_path))
        second = CliRunner().invoke(program(), ["experiment", *words])
        assert second.exit_code == 0
        assert "busy" in second.output
        assert "being run by another process" in second.output


@pytest.mark.usefixtures("forked_children")
def test_a_worker_process_that_is_killed_is_reported(tmp_path):
    words = ("run", "lenet", "--only", "mlp", "--seeds", "2", "--workers", "2", "--results", str(tmp_path))
    with killed_at_the_end(cli(*words, *as_settings(LONG))) as batch:
        wait_until(lambda: len(job_records(tmp_path)) == 2)
        for pid in children_of(batch.pid):
            os.kill(pid, signal.SIGKILL)
        out, _ = batch.communicate(timeout=60)
    assert batch.returncode == 1
    assert out.count("its process was killed by signal 9") == 2


def children_of(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


class TestCommands:
    def run(self, *words):
        return CliRunner().invoke(program(), ["experiment", *words])

    def test_the_whole_way(self, tmp_path):
        done = self.run("run", "lenet", "--results", str(tmp_path))
        assert done.exit_code == 0, done.output
        assert "[3/3] lenet5 seed 0: finished" in done.output
        shown = self.run("show", "lenet", "--results", str(tmp_path))
        assert "LeNet-5" in shown.output
        assert "needs 2 seeds" in shown.output
        report = json.loads(self.run("show", "lenet", "--results", str(tmp_path), "--json").output)
        assert report["rows"][0]["metrics"]["test_error"]["published"] == 12.0
        assert len(report["rows"][0]["metrics"]["test_error"]["values"]) == 1
        assert report["orderings"][0]["holds"] in (True, False)
        written = self.run("report", "lenet", "--results", str(tmp_path))
        assert written.exit_code == 0, written.output
        assert "LeNet-5" in (tmp_path / "lenet-smoke.html").read_text()

    def test_list(self):
        assert "lenet" in self.run("list").output
        assert any(entry["name"] == "lenet" for entry in json.loads(self.run("list", "--json").output))

    def test_bad_input(self, tmp_path):
        assert self.run("run", "nothing", "--results", str(tmp_path)).exit_code == 2
        wrong = self.run("run", "lenet", "--set", "speed", "--results", str(tmp_path))
        assert wrong.exit_code == 2
        assert "KEY=VALUE" in wrong.output
        failed = self.run(
            "run",
            "lenet",
            "--scale",
            "small",
            "--data",
            str(tmp_path),
            "--seeds",
            "1",
            "--only",
            "mlp",
            "--results",
            str(tmp_path),
        )
        assert failed.exit_code == 1
        assert "mnist" in failed.output
