"""Several processes, started by torchrun as a user would: equal to one process, and never hanging."""

from __future__ import annotations

import os
import re
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from intertwine.train import RunRecord, load_weights, read_metrics
from tests.train import parallel
from tests.waiting import wait_until

pytest.importorskip("lightning_fabric")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "distributed.md"
BOUND = 180  # seconds; far more than any of this takes, far less than forever
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def clean_environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", **more}


def start(command: list[str], *, cwd: Path = ROOT, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=clean_environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        output, _ = process.communicate(timeout=BOUND)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"hung:\n{output}")
    return process.returncode, output


def start_slow_run(folder: Path, *settings: str, torchrun: tuple[str, ...] = (), **more: str) -> subprocess.Popen[str]:
    """Two processes that sleep in each step, so that they can be disturbed."""
    command = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", *torchrun, "-m", "tests.train.parallel"]
    process = start([*command, str(folder), "0.1", *settings], **more)
    wait_until(lambda: (folder / "checkpoints" / "step-00000006").exists(), process)
    return process


def pid_of(folder: Path, rank: int) -> int:
    return int((folder / f"pid-{rank}").read_text())


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def resume_without_torchrun(folder: Path) -> None:
    """Other starters set the same variables; two processes, each an interpreter of its own."""
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "tests.train.parallel", str(folder)]
    processes = [start(command, RANK=str(rank), **common) for rank in range(2)]
    for process in processes:
        code, output = finish(process)
        assert code == 0, output


def check_equal_to_one_process(folder: Path, alone: Path) -> None:
    parallel.run(alone)
    for ema in (False, True):
        torch.testing.assert_close(load_weights(folder, ema=ema), load_weights(alone, ema=ema), rtol=0, atol=1e-12)
    rows, expected = read_metrics(folder), read_metrics(alone)
    assert len(rows) == len(expected) == 5 + 6
    for row, other in zip(rows, expected, strict=True):
        del row["seconds"], other["seconds"]
        assert row == pytest.approx(other, abs=1e-9)


@pytest.mark.usefixtures("forked_children")
@pytest.mark.whole
def test_a_killed_process_ends_the_others_and_the_run_continues_equal_to_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    process = start_slow_run(folder)
    os.kill(pid_of(folder, 1), signal.SIGKILL)
    code, output = finish(process)
    assert code != 0
    said = re.search(
        r"^fit: expected all 2 processes to answer.*lost connection in process 0 after step (\d+)", output, re.M
    )
    assert said, output
    assert "Run the same command again to continue from step" in output
    record = RunRecord.read(folder / "record.json")
    assert record.status == "failed"
    assert "LostWorkerError" in (record.error or "")

    resume_without_torchrun(folder)
    assert RunRecord.read(folder / "record.json").status == "finished"
    # Weights, averages and every row, although the last batch of an epoch has a sample for one process only.
    check_equal_to_one_process(folder, tmp_path / "one")


@pytest.mark.whole
def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines, played by two torchruns, against one process; the script and the commands are the page's."""
    page = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    commands = re.findall(r"^((?:torchrun|python) .*train\.py .*)$", page, re.MULTILINE)
    assert len(commands) == 5
    alone, _, first, second, _ = (words(command) for command in commands)
    port = str(free_port())
    nodes = [[word.replace("HOST", "127.0.0.1").replace("29500", port) for word in node] for node in (first, second)]
    processes = [start(node, cwd=tmp_path) for node in nodes]
    outputs = [finish(process) for process in processes]
    assert [code for code, _ in outputs] == [0, 0], outputs
    assert "step 80" in outputs[0][1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", alone[1:])
    runpy.run_path(sys.argv[0], run_name="__main__")
    torch.testing.assert_close(
        load_weights(tmp_path / "runs/nodes"), load_weights(tmp_path / "runs/one"), rtol=1e-4, atol=1e-5
    )


def words(command: str) -> list[str]:
    program, *rest = command.split()
    return [*({"torchrun": TORCHRUN, "python": [sys.executable]}[program]), *rest]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "restarted"])
def test_the_other_commands_of_the_page_work(tmp_path: Path, name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    (command,) = re.findall(rf"^(torchrun .*train\.py runs/{name})$", page, re.MULTILINE)
    code, output = finish(start(words(command), cwd=tmp_path))
    assert code == 0, output
    assert "step 80" in output


@pytest.mark.slow
def test_the_death_of_process_0_ends_the_others(tmp_path: Path) -> None:
    process = start_slow_run(tmp_path)
    os.kill(pid_of(tmp_path, 0), signal.SIGKILL)
    code, output = finish(process)
    assert code != 0
    assert "lost connection in process 1" in output, output


@pytest.mark.slow
def test_a_silent_process_ends_the_others_after_the_timeout(tmp_path: Path) -> None:
    process = start_slow_run(tmp_path, "timeout=5")
    os.kill(pid_of(tmp_path, 1), signal.SIGSTOP)
    code, output = finish(process)  # torchrun gives the silent one 30 seconds more
    assert code != 0
    assert re.search(r"lost connection in process 0 .*[Tt]imed out", output), output


@pytest.mark.slow
def test_torchrun_starts_a_dead_process_again_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    (variable,) = re.findall(r"^export (\w+)=1$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    process = start_slow_run(folder, torchrun=("--max-restarts", "2"), **{variable: "1"})
    os.kill(pid_of(folder, 1), signal.SIGKILL)
    code, output = finish(process)
    assert code == 0, output
    check_equal_to_one_process(folder, tmp_path / "one")


@pytest.mark.slow
def test_ctrl_c_saves_in_process_0_and_ends_all(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    process = start_slow_run(folder, "checkpoint_every=6")
    wait_until(lambda: read_metrics(folder)[-1]["step"] >= 8, process)  # no checkpoint is due before step 12
    os.killpg(process.pid, signal.SIGINT)
    code, output = finish(process)
    assert code != 0
    assert re.search(r"^fit: stopped by SIGINT at step \d+ of 18; saved", output, re.M), output
    assert RunRecord.read(folder / "record.json").status == "interrupted"
    resume_without_torchrun(folder)
    torch.testing.assert_close(load_weights(folder), load_weights_of_one(tmp_path / "one"), rtol=0, atol=1e-12)


def load_weights_of_one(folder: Path) -> dict[str, torch.Tensor]:
    parallel.run(folder)
    return load_weights(folder)


@pytest.mark.whole
@pytest.mark.usefixtures("forked_children")
def test_processes_that_never_come_are_reported(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.train.parallel", str(tmp_path), "0", "timeout=3"]
    alone = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    code, output = finish(start(command, **alone))
    assert code != 0
    assert "LostWorkerError: fit: expected 2 processes to meet within 3 s" in output
