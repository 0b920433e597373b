"""Sweeps: searching, pruning, resuming, several workers, lost workers, and a real PostgreSQL."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.errors import InputError, StorageError
from intertwine.experiments import Parameter, Sweep, best, default_storage, load_study, parse_parameter, run_sweep
from tests.waiting import wait_until

pytest.importorskip("optuna")


def sweep(results: Path, **changes) -> Sweep:
    base = Sweep(
        study="test",
        experiment="lenet",
        row="linear",
        scale="smoke",
        parameters=(parse_parameter("lr=1e-3..1e-1:log"),),
        metric="test_error",
        storage=default_storage(results),
        results=str(results),
        trials=4,
        fixed={"images": 60, "epochs": 1},
    )
    return replace(base, **changes)


def states(study) -> list[str]:
    return [trial.state.name for trial in study.trials if not trial.user_attrs.get("surplus")]


class TestParameters:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("lr=1e-4..1e-1:log", Parameter("lr", 1e-4, 0.1, log=True)),
            ("rank=1..8", Parameter("rank", 1, 8, whole=True)),
            ("width=0.5..2", Parameter("width", 0.5, 2)),
            ("network=mlp,lenet5", Parameter("network", choices=("mlp", "lenet5"))),
            ("flag=true,false", Parameter("flag", choices=(True, False))),
        ],
    )
    def test_read(self, text, expected):
        assert parse_parameter(text) == expected

    @pytest.mark.parametrize("text", ["lr", "lr=", "=1..2", "lr=2..1", "lr=0..1:log"])
    def test_refused(self, text):
        with pytest.raises(InputError, match=r"NAME=LOW\.\.HIGH"):
            parse_parameter(text)


def test_search_resume_and_best(tmp_path):
    study = run_sweep(sweep(tmp_path, prune=False))
    assert states(study) == ["COMPLETE"] * 4
    first = [trial.params["lr"] for trial in study.trials]
    study = run_sweep(sweep(tmp_path, prune=False, trials=6))
    assert [trial.params["lr"] for trial in study.trials[:4]] == first
    assert len(states(study)) == 6
    assert len({trial.params["lr"] for trial in study.trials}) == 6, "a later part draws new settings"
    outcomes = best(study)
    assert outcomes["value"] == min(trial.value for trial in study.trials)
    assert 1e-3 <= outcomes["settings"]["lr"] <= 1e-1
    assert outcomes["experiment"] == "lenet"
    assert len(run_sweep(sweep(tmp_path, prune=False, trials=6)).trials) == 6


def test_choices_and_whole_numbers(tmp_path):
    parameters = (parse_parameter("epochs=1..3"), parse_parameter("network=linear,mlp"))
    study = run_sweep(sweep(tmp_path, parameters=parameters, fixed={"images": 60}))
    assert all(
        trial.params["epochs"] in (1, 2, 3) and trial.params["network"] in ("linear", "mlp") for trial in study.trials
    )


def test_hopeless_trials_are_pruned(tmp_path):
    """Learning rates far too small do not learn: such trials are stopped at a validation that shows it."""
    wide = sweep(tmp_path, parameters=(parse_parameter("lr=1e-7..3e-2:log"),), fixed={"images": 200}, trials=12)
    study = run_sweep(wide)
    outcomes = states(study)
    assert len(outcomes) == 12
    assert 0 < outcomes.count("PRUNED") < 12
    assert all(trial.intermediate_values for trial in study.trials if trial.state.name == "PRUNED")
    assert best(study)["value"] == min(trial.value for trial in study.trials if trial.state.name == "COMPLETE")


def test_another_question_needs_another_name(tmp_path):
    run_sweep(sweep(tmp_path, trials=1))
    with pytest.raises(
        InputError, match=r"the question that .* created with; got a different parameters.*another --study name"
    ):
        run_sweep(sweep(tmp_path, trials=2, parameters=(parse_parameter("lr=1e-7..1e-6"),)))


@pytest.mark.usefixtures("forked_children")
def test_two_workers_share_the_trials(tmp_path):
    study = run_sweep(sweep(tmp_path, trials=6), workers=2)
    assert len(states(study)) == 6
    assert "RUNNING" not in states(study)


def test_failures_do_not_go_on_for_ever(tmp_path, capfd):
    broken = sweep(tmp_path, scale="small", data=str(tmp_path / "nowhere"), fixed={}, trials=2)
    with pytest.raises(InputError, match=r"trials that can be run; got \d+ that failed, the last with: .*mnist"):
        run_sweep(broken)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 6, lines
    assert all(line.startswith(f"sweep: trial {number} failed: mnist: expected") for number, line in enumerate(lines))


def test_errors(tmp_path):
    with pytest.raises(InputError, match=r"settings among .*; got speed"):
        run_sweep(sweep(tmp_path, parameters=(parse_parameter("speed=1..2"),)))
    run_sweep(sweep(tmp_path, trials=1))
    with pytest.raises(InputError, match=r"a study in sqlite:///.*: test; got 'other'"):
        load_study("other", default_storage(tmp_path))
    with pytest.raises(StorageError, match=r"a database at postgresql://me:\*\*\*@127.0.0.1:1/none"):
        run_sweep(sweep(tmp_path, storage="postgresql://me:secret@127.0.0.1:1/none"))
    (tmp_path / "file").write_text("no database")
    with pytest.raises(StorageError, match=r"a database at sqlite:///.*file is not a database"):
        run_sweep(sweep(tmp_path, storage=f"sqlite:///{tmp_path}/file"))


def test_commands(tmp_path):
    def run(*words):
        return CliRunner().invoke(program(), ["sweep", *words])

    words = ("--row", "linear", "--param", "lr=1e-2..1e-1:log", "--set", "images=60", "--results", str(tmp_path))
    done = run("run", "lenet", *words, "--trials", "2")
    assert done.exit_code == 0, done.output
    assert "best: trial" in done.output
    report = json.loads(run("show", "lenet-linear-smoke", "--results", str(tmp_path), "--json").output)
    assert len(report["trials"]) == 2
    shown = run("show", "lenet-linear-smoke", "--results", str(tmp_path), "--export", str(tmp_path / "best.json"))
    assert shown.exit_code == 0
    assert json.loads((tmp_path / "best.json").read_text()) == report["best"]
    assert run("show", "nothing", "--results", str(tmp_path)).exit_code == 2


def start_worker(asked: Sweep, number: int) -> subprocess.Popen:
    worker = subprocess.Popen(
        [sys.executable, "-m", "intertwine.experiments.lab._sweep_worker"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker.stdin.write(json.dumps({"sweep": asdict(asked), "worker": number}))
    worker.stdin.close()
    worker.stdin = None
    return worker


def lose_a_worker(asked: Sweep) -> list:
    """Start a worker on long trials, kill it in the middle of one, and let another finish the study."""
    from intertwine.experiments import create_study

    create_study(asked)
    lost = start_worker(asked, 0)
    wait_until(lambda: list(Path(asked.results).rglob("checkpoints/step-*")), lost)
    os.kill(lost.pid, signal.SIGKILL)
    lost.communicate()
    assert "RUNNING" in states(load_study(asked.study, asked.storage))
    other = start_worker(asked, 1)
    _, err = other.communicate(timeout=120)
    assert other.returncode == 0, err
    return load_study(asked.study, asked.storage).trials


LONG = {"images": 1000, "epochs": 5, "batch_size": 10}


@pytest.mark.usefixtures("forked_children")
@pytest.mark.whole
def test_the_trial_of_a_lost_worker_is_done_by_another(tmp_path):
    trials = lose_a_worker(sweep(tmp_path, trials=2, prune=False, fixed=LONG))
    ended = [trial for trial in trials if trial.state.name == "COMPLETE"]
    assert len(ended) == 2
    failed = [trial for trial in trials if trial.state.name == "FAIL"]
    assert [trial.params for trial in failed] == [failed[0].params]
    assert failed[0].params in [trial.params for trial in ended], "the lost settings were tried again"


# -- PostgreSQL ------------------------------------------------------------------------------------------------


def postgres_programs() -> Path | None:
    pg_ctl = shutil.which("pg_ctl")
    places = [Path(pg_ctl).parent] if pg_ctl else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL server of our own, on a free port of this machine, for as long as the tests take."""
    programs = postgres_programs()
    if programs is None:
        message = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The server refuses to run as root; its own account comes with the package.
    as_server: list[str] = []
    if os.geteuid() == 0:
        as_server = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(folder, "postgres", "postgres")
    user = "postgres" if as_server else getpass.getuser()

    def run(*words: str) -> None:
        done = subprocess.run([*as_server, *words], capture_output=True, text=True, cwd=folder, timeout=60)
        assert done.returncode == 0, done.stderr

    run(str(programs / "initdb"), "-D", str(folder / "data"), "-U", user, "--auth=trust", "-E", "UTF8", "--no-sync")
    options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off"
    control = (str(programs / "pg_ctl"), "-D", str(folder / "data"))
    server = Postgres(
        f"postgresql://{user}@127.0.0.1:{port}/postgres",
        start=lambda: run(*control, "-l", str(folder / "log"), "-o", options, "-w", "start"),
        stop=lambda: run(*control, "-m", "immediate", "stop"),
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Postgres:
    url: str
    start: Callable[[], None]
    stop: Callable[[], None]


@pytest.mark.whole
def test_many_workers_on_postgres(tmp_path, postgres):
    study = run_sweep(sweep(tmp_path, study="pg", storage=postgres.url, trials=5), workers=2)
    assert len(states(study)) == 5
    assert load_study("pg", postgres.url).best_value == study.best_value


@pytest.mark.slow  # on a database in a file it is tested always
def test_a_lost_worker_on_postgres(tmp_path, postgres):
    trials = lose_a_worker(sweep(tmp_path, study="lost", storage=postgres.url, trials=2, prune=False, fixed=LONG))
    assert sum(trial.state.name == "COMPLETE" for trial in trials) == 2


# Optuna's own heartbeat may meet the stopped server first, in its thread, where nobody can catch the error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_database_that_goes_away(tmp_path, postgres):
    asked = sweep(tmp_path, study="away", storage=postgres.url, trials=50)

    def stop() -> None:
        wait_until(lambda: len([*tmp_path.rglob("seed-*/record.json")]) > 2)
        postgres.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        with pytest.raises(StorageError, match=r"to keep answering; got .* run the same command"):
            run_sweep(asked)
    finally:
        stopping.join()
        postgres.start()
    assert states(load_study("away", postgres.url))[0] == "COMPLETE", "what was finished is kept"
