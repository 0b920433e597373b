"""Runs killed with SIGKILL from outside, at random moments and in the middle of saving, then continued: the end must
be the same, byte for byte, as that of a run that was never disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.train.tiny import outcome

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.train.tiny"]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be killed")


class ForkServer:
    """Starts runs as children of one process that has torch imported already."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--fork"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, folder: Path, *settings: str) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join([str(folder), *settings]) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def wait(self) -> int:
        """Exit code of the run; negative for the signal that ended it."""
        return self._answer()

    def _answer(self) -> int:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the fork server is gone"
        return int(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass
class Kills:
    at_random: int = 0
    while_saving: int = 0
    steps: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        return self.at_random + self.while_saving


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], float]:
    """The undisturbed run, in an interpreter of its own, and how many seconds it trained."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([*COMMAND, str(folder)], cwd=ROOT, check=True, timeout=120)
    seconds = json.loads((folder / "record.json").read_bytes())["duration"]
    return outcome(folder), seconds


def chain(server: ForkServer, folder: Path, kills: Kills, draw: random.Random, seconds: float, *settings: str) -> None:
    """Run, kill, continue, kill, ... until a run comes to its end."""
    checkpoints = folder / "checkpoints"
    for attempt in range(60):
        pid = server.start(folder, *settings)
        if attempt < 12:
            saving = draw.random() < 0.4
            if saving:
                wait_for_a_save(checkpoints, draw)
            else:
                time.sleep(draw.uniform(0, seconds / 3))
            with suppress(ProcessLookupError):  # it may have come to its end
                os.kill(pid, signal.SIGKILL)
        code = server.wait()
        if code == 0:
            return
        assert code == -signal.SIGKILL, f"ended by itself with {code}"
        names = sorted(path.name for path in checkpoints.glob("*")) if checkpoints.exists() else []
        if any(name.startswith(".part-") for name in names):
            kills.while_saving += 1
        else:
            kills.at_random += 1
        kills.steps.add(next((name for name in reversed(names) if name.startswith("step-")), "none"))
    pytest.fail("never finished")


def wait_for_a_save(checkpoints: Path, draw: random.Random) -> None:
    """Until an unfinished checkpoint is seen, some saves from now, or for two seconds."""
    until = time.monotonic() + 2
    skip, seen = draw.randint(0, 3), set[str]()
    while time.monotonic() < until:
        names = set(os.listdir(checkpoints)) if checkpoints.exists() else set()
        seen |= {name for name in names if name.startswith(".part-")}
        if len(seen) > skip:
            time.sleep(draw.uniform(0, 0.01))  # which of the files is being written varies
            return


def differences(result: dict[str, object], expected: dict[str, object]) -> list[str]:
    return [key for key in sorted({*result, *expected}) if result.get(key) != expected.get(key)]


def check_chains(
    server: ForkServer, folder: Path, reference: tuple[dict[str, object], float], chains: list[list[str]], seed: int
) -> Kills:
    expected, seconds = reference
    kills, draw = Kills(), random.Random(seed)
    for number, settings in enumerate(chains):
        where = folder / str(number)
        chain(server, where, kills, draw, seconds, *settings)
        assert differences(outcome(where), expected) == [], f"chain {number} of seed {seed} ended differently"
        assert not list((where / "checkpoints").glob(".part-*")), "unfinished files are cleaned up"
    return kills


@pytest.mark.whole
def test_killed_runs_end_as_if_nothing_had_happened(
    server: ForkServer, reference: tuple[dict[str, object], float], tmp_path: Path
) -> None:
    kills = check_chains(server, tmp_path, reference, [[], [], [], [], ["workers=2"]], seed=0)
    # Seen: more than 50 kills, a quarter to a half of them while saving, after 7 to 17 different checkpoints; the
    # bounds leave room for a busy machine, on which the kills fall more closely.
    assert kills.total >= 20, kills
    assert kills.while_saving >= 3, kills
    assert len(kills.steps) >= 4, kills


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_killed_runs(
    server: ForkServer, reference: tuple[dict[str, object], float], tmp_path: Path, seed: int
) -> None:
    kills = check_chains(server, tmp_path, reference, [[]] * 6 + [["workers=1"], ["keep=1"]], seed)
    assert kills.total >= 40, kills


@pytest.mark.whole
def test_the_comparison_notices_a_difference(
    reference: tuple[dict[str, object], float], server: ForkServer, tmp_path: Path
) -> None:
    server.start(tmp_path, "seed=1")
    assert server.wait() == 0
    difference = differences(outcome(tmp_path), reference[0])
    assert {"model.safetensors", "optimizer.safetensors", "ema.safetensors", "rows"} <= set(difference)
