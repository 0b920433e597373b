"""``intertwine train``: training, resuming, and what it writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.models import trained

runner = CliRunner()
SMALL = ["--model", "wide_resnet16_4", "--width", "1", "--batch-size", "16", "--audit-budget", "0.1s"]


@pytest.fixture(scope="module")
def bars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines and crosses on noise, which no element of D4 changes into each other."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (96, 9, 9), dtype=np.uint8)
    labels = np.arange(96) % 2
    images[:, 4] = 255
    images[labels == 1, :, 4] = 255
    path = tmp_path_factory.mktemp("data") / "bars.npz"
    np.savez(path, images=images, labels=labels)
    return path


def train(*arguments: object):
    return runner.invoke(program(), ["train", *map(str, arguments)])


def test_from_a_dataset_to_a_trained_and_audited_network(bars: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [bars, *SMALL, "--group", "D4", "--epochs", 6, "--out", out]
    done = train(*command)
    assert done.exit_code == 0, done.output
    assert "epoch 6/6  validation accuracy" in done.stderr
    summary = json.loads((out / "train.json").read_text())
    assert summary["validation_accuracy"] > 0.9
    assert summary["audit"]["symmetry"] == "D4"
    assert summary["audit"]["invariance_error"] < 1e-5
    assert f"validation accuracy  {summary['validation_accuracy']:.4f}" in done.stdout
    assert {"model.json", "model.safetensors", "audit.html", "audit.json"} <= {file.name for file in out.iterdir()}
    net = trained(out)
    x = torch.rand(2, 1, 9, 9)
    with torch.no_grad():
        torch.testing.assert_close(net(x.rot90(1, (-2, -1))), net(x), rtol=1e-4, atol=1e-4)

    before = (out / "model.safetensors").stat().st_mtime_ns
    again = train(*command)
    assert (again.exit_code, again.stdout) == (0, done.stdout)
    assert "already finished, nothing to do" in again.stderr
    assert (out / "model.safetensors").stat().st_mtime_ns == before
    assert json.loads(train(*command, "--json").stdout) == summary

    other = train(*command[:-4], "--epochs", 7, "--out", out)
    assert other.exit_code == 2
    assert "a finished run with epochs 6 (now 7)" in other.stderr

    audit = ["audit", str(out), "--data", str(bars), "--symmetry", "C4", "--images", "8", "--budget", "0.1s", "--json"]
    result = runner.invoke(program(), audit)
    assert result.exit_code == 0, result.output
    errors = [r["value"] for r in json.loads(result.stdout)["readings"] if r["metric"] == "invariance_error"]
    assert errors
    assert max(errors) < 1e-5


def test_a_plain_network_is_audited_under_the_mirror(bars: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--group", "none", "--epochs", 1, "--images", 32, "--augment", "--out", out, "--json"]
    done = train(bars, *SMALL, "--width", 4, *options)
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["audit"]["symmetry"], summary["images"]["validation"]) == ("hflip", 3)
    assert summary["audit"]["invariance_error"] > 1e-3
    twin = ["--symmetry", "hflip", "--images", "16", "--no-refit", "--out", str(tmp_path / "twin.safetensors")]
    done = runner.invoke(program(), ["symmetrize", str(out), "--data", str(bars), *twin])
    assert done.exit_code == 0, done.output


@pytest.mark.whole
def test_ctrl_c_and_the_same_command_again(bars: Path, tmp_path: Path) -> None:
    """The resumed run ends with the weights of a run that was not interrupted."""
    arguments = [str(bars), *SMALL, "--group", "C4", "--epochs", "12", "--seed", "3"]
    out, other = tmp_path / "run", tmp_path / "other"
    command = [sys.executable, "-m", "intertwine", "train", *arguments, "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("epoch 2/"):
                process.send_signal(signal.SIGINT)
                break
        rest, deadline = process.stderr.read(), time.monotonic() + 60
        assert process.wait(max(1, deadline - time.monotonic())) == 130
    assert rest.count("Run the same command again to continue.") == 1
    assert "Traceback" not in rest
    assert not (out / "train.json").exists()
    resumed = train(*arguments, "--out", out)
    assert resumed.exit_code == 0, resumed.output
    assert "continues from step" in resumed.stderr
    assert train(*arguments, "--out", other).exit_code == 0
    weights = trained(out).state_dict()
    for name, value in trained(other).state_dict().items():
        torch.testing.assert_close(weights[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_wrong_input_is_explained(bars: Path, tmp_path: Path) -> None:
    for options, message in (
        (["--model", "resnet17"], "Did you mean resnet1"),
        (["--model", "unet"], "a network that returns class scores: resnet18"),
        (["--group", "SO(2)"], "a finite group of the plane"),
        (["--group", "D44x"], "symmetry: expected"),
        (["--audit-budget", "soon"], "a time such as 60s"),
        (["--width", "0"], "a finite width above 0"),
        (["--images", "2"], "training images to set some aside"),
    ):
        done = train(bars, "--out", tmp_path / "run", *options)
        assert done.exit_code == 2, done.output
        assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_quarter_turns_need_square_images(tmp_path: Path) -> None:
    wide = tmp_path / "wide.npz"
    np.savez(wide, images=np.arange(40 * 63, dtype=np.uint8).reshape(40, 7, 9), labels=np.arange(40) % 2)
    done = train(wide, *SMALL, "--group", "D4", "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "expected square images, whose shape D4 does not change; got 7 x 9. Resize them with --size" in done.stderr
    assert not (tmp_path / "run").exists()
    done = train(wide, *SMALL, "--group", "flips", "--epochs", 1, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
