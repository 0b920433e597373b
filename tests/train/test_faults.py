"""What goes wrong outside: disks, numbers, signals. Each is made to happen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from intertwine.errors import NonFiniteError, StorageError
from intertwine.train import RunRecord, deterministic_loader, fit, locked, read_metrics, seed_all
from tests.train import tiny
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.train.tiny"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    tiny.run(folder)
    return tiny.outcome(folder)


class At:
    """A logger that does something at a step."""

    def __init__(self, step: int, action: Callable[[], object]) -> None:
        self.step, self.action = step, action

    def rewind(self, step: int) -> None: ...

    def write(self, row: Any) -> None:
        if row["step"] == self.step:
            self.action()

    def close(self) -> None: ...


def run_with(
    monkeypatch: pytest.MonkeyPatch, folder: Path, settings: dict[str, Any] | None = None, **options: Any
) -> Any:
    original = fit
    monkeypatch.setattr(tiny, "fit", lambda *args, **others: original(*args, **{**others, **options}))
    try:
        return tiny.run(folder, **(settings or {}))
    finally:
        monkeypatch.setattr(tiny, "fit", original)


# --- disks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with room for some checkpoints of the tiny run."""
    where = tmp_path / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(where)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system is not permitted here")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


def fill(disk: Path) -> None:
    with open(disk / "ballast", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def test_a_full_disk_is_named_and_the_checkpoint_before_survives(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, Any]
) -> None:
    folder = small_disk / "run"
    with pytest.raises(StorageError) as caught:
        run_with(monkeypatch, folder, loggers=[At(9, lambda: fill(small_disk))])
    error = caught.value
    assert "No space left on device" in error.got
    assert error.expected == "room to write the checkpoint of step 10"
    assert error.fix.startswith(str(folder / "checkpoints" / "step-00000008"))
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert names == ["step-00000006", "step-00000008"], "nothing unfinished stays"
    (small_disk / "ballast").unlink()
    assert tiny.run(folder).resumed_from == 8
    assert tiny.outcome(folder) == undisturbed


def test_a_disk_too_full_for_a_row_of_metrics_is_named(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, filler = tiny.loss, [At(6, lambda: fill(small_disk))]

    # Between two checkpoints the rows are the only thing written: make them long.
    def verbose(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, float]]:
        value, _ = quiet(model, batch)
        return value, {f"{number:0100d}": 0.5 for number in range(50)}

    monkeypatch.setattr(tiny, "loss", verbose)
    with pytest.raises(StorageError, match=r"room to write a row of metrics; got No space left on device"):
        run_with(
            monkeypatch, small_disk / "run", {"checkpoint_every": None}, loggers=filler, val_loader=None, metrics=None
        )


LIMITED = """
import resource, sys
from tests.train import tiny
from tests.train.test_faults import At
original = tiny.fit
def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
more = {"loggers": [At(9, limit)], "val_loader": None, "metrics": None}
tiny.fit = lambda *args, **options: original(*args, **{**options, **more})
tiny.run(sys.argv[1], log_every=9)
"""


@pytest.mark.usefixtures("forked_children")
def test_files_that_cannot_grow_are_a_full_disk_too(tmp_path: Path) -> None:
    """The same without a file system of one's own: the system refuses to let a file grow."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "StorageError: fit: expected room to write the checkpoint of step 10; got File too large" in done.stderr
    assert "step-00000008 is intact" in done.stderr
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000006", "step-00000008"]
    assert tiny.run(tmp_path).resumed_from == 8


def test_a_read_only_folder_is_refused_at_once(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageError, match=r"a folder to write to; got Read-only file system .*disk/run"):
        tiny.run(small_disk / "run")


def test_a_folder_below_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"a folder to write to; got Not a directory"):
        tiny.run(tmp_path / "file" / "run")


@pytest.mark.usefixtures("forked_children")
def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from intertwine.train import locked
with locked(Path(sys.argv[1])):
    print(1, flush=True)
    time.sleep(60)
"""
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert other.stdout is not None
    other.stdout.readline()
    with pytest.raises(StorageError, match="a folder that no other run is using"):
        tiny.run(tmp_path)
    other.kill()
    other.wait(timeout=60)
    other.stdout.close()
    with locked(tmp_path):
        pass  # the lock of a killed process is gone


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_batch(tmp_path: Path, bad: float) -> None:
    data = [(torch.full((3,), float(index)), torch.tensor(index)) for index in range(12)]
    loader = deterministic_loader(data, 4, seed=0)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        value = model(x).square().mean()
        return value * bad if 7 in y and len(read_metrics(tmp_path)) >= 3 else value  # in the second epoch

    seed_all(0)
    config = tiny.config(batch_size=4, log_every=1, epochs=3)
    with pytest.raises(NonFiniteError) as caught:
        fit(nn.Linear(3, 2), loss, loader, config, folder=tmp_path)
    where = next(k for k, (_, y) in enumerate(loader.batches(1)) if 7 in y)
    step = 3 + where + 1
    assert f"{bad} at step {step} (epoch 1, batch {where})" in caught.value.got
    path = tmp_path / f"nonfinite-step-{step:08d}-rank-0.safetensors"
    assert str(path) in caught.value.fix
    saved = load_file(path)
    batch = list(loader.batches(1))[where]
    assert torch.equal(saved["0"], batch[0])
    assert torch.equal(saved["1"], batch[1])
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"step": str(step), "epoch": "1", "position": str(where), "loss": str(bad)}
    assert read_metrics(tmp_path)[-1]["step"] == step - 1
    record = RunRecord.read(tmp_path / "record.json")
    assert record.status == "failed"
    assert f"at step {step}" in (record.error or "")


def test_broken_weights_are_never_saved(tmp_path: Path) -> None:
    class Explodes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * float("inf")

    steps = []

    def loss(model: nn.Module, batch: Any) -> Tensor:
        steps.append(1)
        value = model(batch).square().mean()
        return Explodes.apply(value) if len(steps) == 4 else value  # type: ignore[no-untyped-call]

    config = tiny.config(batch_size=4, epochs=3, optimizer="sgd", clip_norm=None, ema=None)
    with pytest.raises(NonFiniteError, match=r"finite weights; got weight with NaN or infinity, at step 4"):
        fit(nn.Linear(3, 2), loss, [torch.randn(4, 3)] * 4, config, folder=tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("long")
    tiny.run(folder, epochs=100, checkpoint_every=None)
    return tiny.outcome(folder)


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("forked_children")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_continue(
    tmp_path: Path, long_run: dict[str, Any], number: signal.Signals, code: int
) -> None:
    folder = tmp_path / "run"
    settings = ["epochs=100", "checkpoint_every=null"]  # only what the signal saves
    process = subprocess.Popen([*COMMAND, str(folder), *settings], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(read_metrics(folder)) > 5)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    (saved,) = (folder / "checkpoints").iterdir()
    step = int(saved.name.removeprefix("step-"))
    message = f"fit: stopped by {number.name} at step {step} of 600; saved {saved}. Run the same command again"
    assert message in errors
    assert "Traceback" not in errors
    assert RunRecord.read(folder / "record.json").status == "interrupted"

    result = tiny.run(folder, epochs=100, checkpoint_every=None)
    assert result.resumed_from == step
    assert tiny.outcome(folder) == long_run


def test_a_second_press_stops_at_once() -> None:
    from intertwine.train.loop import _interrupt

    before = signal.getsignal(signal.SIGINT)
    with _interrupt.Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: interrupts.caught == signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # torchrun passes the same press on: not a second one
        time.sleep(1.1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_press_is_answered_only_during_a_long_step(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from intertwine.train.loop import _interrupt

    monkeypatch.setattr(_interrupt, "_PATIENCE", 0.01)
    with _interrupt.Interrupts():
        signal.raise_signal(signal.SIGINT)
        wait_until(lambda: "finishing this step" in capfd.readouterr().err)
    monkeypatch.setattr(_interrupt, "_PATIENCE", 60.0)
    with _interrupt.Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
    assert interrupts._reminder is not None
    interrupts._reminder.join(30)  # canceled: it ends without waiting
    assert not interrupts._reminder.is_alive()
    assert capfd.readouterr().err == ""


def test_a_run_in_a_thread_leaves_the_signals_alone(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(tiny.run, tmp_path, epochs=1).result().step == 6
