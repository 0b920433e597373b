"""Ctrl-C: one line, exit code 130, no traceback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.train.loop._interrupt import Interrupts
from tests.waiting import wait_until

NET = "intertwine.models:plain_cnn --arg channels=1 --arg classes=10 --data digits"


def interrupted(*args: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "target", "line"),
    [
        (f"audit {NET} --out audit", "intertwine.measure.audit", "stopped; the same command continues in audit"),
        (f"audit {NET}", "intertwine.measure.audit", "stopped"),
        ("discover digits --out disc", "intertwine.discovery.discover", "stopped; the same command continues in disc"),
        ("demo --out demo", "intertwine.demo.run_demo", "stopped; the same command continues in demo"),
        (f"symmetrize {NET} --out twin.safetensors", "intertwine.measure.symmetrize", "stopped"),
        ("experiment run lenet", "intertwine.experiments.run_jobs", "stopped; the same command continues in results"),
        ("theory", "intertwine.experiments.classification", "stopped"),
    ],
)
def test_a_command_says_that_it_stopped(
    command: str, target: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(target, interrupted)
    done = CliRunner().invoke(program(), shlex.split(command))
    assert (done.exit_code, done.stderr) == (130, f"{line}\n"), done.output


def test_what_fit_has_said_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_by_fit(*args: object, **options: object) -> None:
        raise Interrupts().error()

    monkeypatch.setattr("intertwine.measure.audit", stopped_by_fit)
    done = CliRunner().invoke(program(), shlex.split(f"audit {NET} --out {tmp_path / 'audit'}"))
    assert (done.exit_code, done.stderr) == (130, ""), done.output


# A command, and files that it writes after it has begun to compute.
WHOLE = {
    "demo --out demo": "demo/runs/**/metrics.jsonl",
    "discover digits --symmetry c4 --out disc": "disc/runs/**/metrics.jsonl",
    "discover digits --symmetry c4 --engine process --workers 2 --out disc": "disc/runs/**/metrics.jsonl",
    f"audit {NET} --symmetry D4 --out audit": "audit/**/*.*",
    f"symmetrize {NET} --symmetry d4 --tune 400 --out twin.safetensors": "twin.tuning/metrics.jsonl",
    "experiment run lenet --only mlp --set epochs=3000": "results/**/metrics.jsonl",
    "experiment run lenet --only mlp --set epochs=3000 --seeds 2 --workers 2": "results/**/metrics.jsonl",
    "sweep run lenet --row linear --param lr=1e-3..1e-1:log --trials 400": "results/**/metrics.jsonl",
}


@pytest.mark.whole
@pytest.mark.usefixtures("forked_children")
@pytest.mark.parametrize("command", WHOLE, ids=lambda command: command.split(" --")[0])
def test_a_real_interrupt(command: str, tmp_path: Path) -> None:
    """To the whole group of processes, as a terminal sends it."""
    words = [sys.executable, "-m", "intertwine", *shlex.split(command)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=tmp_path, start_new_session=True, **pipes) as process:
        try:
            wait_until(lambda: any(tmp_path.glob(WHOLE[command])), process)
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and its workers
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    stopped = [line for line in errors.splitlines() if "stopped" in line]
    assert len(stopped) == 1, errors
