from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from intertwine.train import CheckpointWarning, read_metrics
from intertwine.train.loop._progress import Progress
from intertwine.train.records._logging import MetricsLog
from tests.train import tiny

ROOT = Path(__file__).parents[2]


def test_going_back_cuts_off_what_came_after(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.open(0)
    log.write({"step": 1, "loss": float("nan")})
    length = log.sync()
    log.write({"step": 2})
    log.close()
    log = MetricsLog(tmp_path)
    log.open(length)
    log.write({"step": 3})
    log.close()
    assert read_metrics(tmp_path) == [{"step": 1, "loss": None}, {"step": 3}]


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2, "lo')
    assert read_metrics(tmp_path) == [{"step": 1}]
    assert read_metrics(tmp_path / "nothing") == []


def test_a_log_shorter_than_the_checkpoint_says_is_reported(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    with pytest.warns(CheckpointWarning, match="10 bytes of rows before the checkpoint are lost"):
        log.open(10)
    log.close()


def test_tensorboard_has_the_numbers_of_the_rows(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tiny.run(tmp_path, tensorboard=True, epochs=2)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    rows = [row for row in read_metrics(tmp_path) if row["split"] == "train"]
    assert [event.step for event in events.Scalars("train/loss")] == [row["step"] for row in rows]
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx([row["loss"] for row in rows])
    assert len(events.Scalars("val/val_accuracy")) == 2


SCRIPT = """
import sys
from tests.train import tiny
original = tiny.fit
tiny.fit = lambda *args, **options: original(*args, **{**options, "progress": None})
tiny.run(sys.argv[1], epochs=20)
"""


@pytest.mark.usefixtures("forked_children")
def test_a_bar_with_the_time_left_is_shown_on_a_terminal(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    done = subprocess.Popen(command, cwd=ROOT, stderr=other_end, stdout=other_end, env={**os.environ, "TERM": "xterm"})
    os.close(other_end)
    shown = b""
    with suppress(OSError):  # which ends the reading once the other end is closed
        while piece := os.read(terminal, 4096):
            shown += piece
    os.close(terminal)
    text = shown.decode()
    assert done.wait(timeout=60) == 0, text
    assert "epoch" in text
    assert "left" in text
    assert "120/120" in text


def test_the_bar_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    for wanted, shown in ((None, True), (True, True), (False, False)):
        with Progress(10, 0, wanted) as bar:
            bar.update(1, 0, 0.5)
            assert (bar._bar is not None) == shown


@pytest.mark.whole
def test_nothing_is_shown_without_a_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny.run(tmp_path)
    assert capfd.readouterr() == ("", "")
