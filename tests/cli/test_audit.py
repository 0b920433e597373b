"""``intertwine audit`` as a user types it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from intertwine.cli import program

QUICK = ("--data", "digits", "--images", "20", "--symmetry", "hflip")


def run(*words: str):
    return CliRunner().invoke(program(), ["audit", *words])


@pytest.fixture
def net(tmp_path, monkeypatch) -> str:
    """A module in the current folder with a network of one channel, and its weights beside it."""
    (tmp_path / "audited_net.py").write_text(
        "from torch import nn\n"
        "def build(channels=1, width=4):\n"
        "    return nn.Sequential(nn.Conv2d(channels, width, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))\n"
        "def small(channels=1):\n"
        "    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),\n"
        "                         nn.Linear(4, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    return "audited_net:small"


def test_table_files_and_exit_codes(net, tmp_path):
    done = run(net, *QUICK, "--out", "out", "--fail-above", "invariance=1.9")
    assert done.exit_code == 0, done.output
    assert "invariance error" in done.output
    assert "passed: invariance_error of hflip at most 1.9" in done.output
    assert {"audit.html", "audit.json", "audit.csv", "audit.xml"} <= {p.name for p in (tmp_path / "out").iterdir()}
    page = (tmp_path / "out" / "audit.html").read_text()
    assert "Audit of audited_net:small" in page
    assert "<svg" in page
    missed = run(net, *QUICK, "--fail-above", "invariance=0")
    assert missed.exit_code == 1
    assert "FAILED" in missed.output
    assert run(net, *QUICK, "--fail-below", "agreement=1.1").exit_code == 1


def test_json(net):
    report = json.loads(run(net, *QUICK, "--json", "--fail-above", "invariance=0").output)
    assert report["schema"] == 1
    assert report["gates"][0]["kept"] is False
    assert any(r["metric"] == "invariance_error" for r in report["readings"])


def test_weights_and_comparison(net, tmp_path):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    save_file(model.state_dict(), tmp_path / "a.safetensors")
    torch.save({"state_dict": {f"module.{k}": 2 * v for k, v in model.state_dict().items()}}, tmp_path / "b.pt")
    for name, weights in (("first", "a.safetensors"), ("second", "b.pt")):
        done = run(net, *QUICK, "--weights", weights, "--out", name)
        assert done.exit_code == 0, done.output
    rows = json.loads(run("--compare", "first", "second", "--json").output)
    assert {"metric", "first", "second", "change"} <= set(rows[0])
    assert any(row["layer"] == "0" for row in rows)
    assert "better or worse" in run("--compare", "first", "second").output


def test_class_folders_and_files_that_cannot_be_read(net, tmp_path):
    generator = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for k in range(4):
            pixels = generator.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{k}.png")
    (tmp_path / "pictures" / "cat" / "broken.png").write_bytes(b"no picture")
    words = (net, "--data", "pictures", "--arg", "channels=3", "--mean", "0.5,0.5,0.5", "--std", "1,1,1", "--json")
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("warning: pictures: 1 unreadable image(s) skipped: cat/broken.png")
    report = json.loads(done.stdout)
    assert "1 files could not be read" in report["data"]
    every = json.loads(run(*words, "--part", "all").stdout)
    assert every["images"] == 8 > report["images"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "MODEL and --data"),
        (("audited_net:small",), "no --data"),
        (("audited_net:small", "--data", "nothing"), "neither a name nor an existing path"),
        (("audited_net:small", *QUICK, "--symmetry", "hflop"), "Did you mean hflip?"),
        (("audited_net:small", *QUICK, "--symmetry", "Grid1d(D1)"), "a symmetry of images, such as hflip, C4 or D4"),
        (("audited_net:small", *QUICK, "--symmetry", "Grid2d(X)"), "a group such as C4"),
        (("audited_net:small", *QUICK, "--fail-above", "agreement=1"), "Use --fail-below agreement=1"),
        (("audited_net:small", *QUICK, "--fail-above", "invariance=nan"), "METRIC=BOUND, such as"),
        (("audited_net:small", *QUICK, "--budget", "soon"), "60s, 10m or 1h"),
        (("audited_net:small", *QUICK, "--mean", "0.5"), "--mean and --std together"),
        (("audited_net:small", *QUICK, "--mean", "a", "--std", "b"), "one number per channel"),
        (("audited_net:smal", *QUICK), "a function or class in audited_net, such as small, build; got"),
        (("audited_net:small", "--data", "nothing", "--symmetry", "hflop"), "Did you mean hflip?"),
        (("no_such_module:net", "--data", "nothing", "--symmetry", "hflop"), "Did you mean hflip?"),
        (("audited_net:small", *QUICK, "--weights", "none.pt"), "none.pt: expected a file with weights; got no such"),
        (("audited_net:small", *QUICK, "--weights", "none.safetensors"), "got no such file"),
        (("audited_net:small", *QUICK, "--weights", "audited_net.py"), "another kind of file"),
        (("audited_net:small", *QUICK, "--out", "audited_net.py/out"), "a folder that can be written to"),
        (("--compare", "a", "b"), "a folder with audit.json"),
    ],
)
def test_bad_input(net, words, message):
    failed = run(*words)
    assert failed.exit_code == 2, failed.output
    assert message in " ".join(failed.output.split())


def test_symmetries_by_name_of_group_and_space(net):
    words = (net, "--data", "digits", "--images", "8", "--json")
    report = json.loads(run(*words, "--symmetry", "C4", "--symmetry", "Grid2d(C4)", "--symmetry", "C8").stdout)
    assert report["symmetries"] == ["C4", "Grid2d(C4)", "C8"]
    value = {r["symmetry"]: r for r in report["readings"] if r["metric"] == "invariance_error"}
    assert value["C4"]["value"] == value["Grid2d(C4)"]["value"] != value["C8"]["value"]
    assert "floor" in value["C8"]
    assert "floor" not in value["C4"]


def test_data_of_the_wrong_channels(net):
    failed = run(net, *QUICK, "--arg", "channels=3")
    assert failed.exit_code == 2
    assert "channels" in failed.output


def test_one_image_has_no_interval(net):
    report = json.loads(run(net, "--data", "digits", "--images", "1", "--json").stdout)
    assert report["images"] == 1
    assert not any("low" in reading for reading in report["readings"])


def test_what_is_printed_and_written_is_strict_json(net, tmp_path):
    """If nothing is classified correctly, the barrier relative to the accuracy is undefined and is left out."""

    def refuse(text: str):
        raise ValueError(text)

    (tmp_path / "audited_net.py").write_text(
        "from torch import nn\n"
        "def never():\n"
        "    head = nn.Linear(4, 10)\n"
        "    head.bias.data[3] = -1e6\n"
        "    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)\n"
    )
    np.savez(tmp_path / "odd.npz", images=np.random.default_rng(0).random((6, 8, 8)), labels=np.full(6, 3))
    sys.modules.pop("audited_net", None)
    done = run("audited_net:never", "--data", "odd.npz", "--part", "all", "--json", "--out", "out")
    sys.modules.pop("audited_net", None)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout, parse_constant=refuse)
    metrics = {reading["metric"] for reading in report["readings"]}
    assert "moved_accuracy" in metrics
    assert "gcnn_barrier" not in metrics
    json.loads((tmp_path / "out" / "audit.json").read_text(), parse_constant=refuse)


def test_labels_out_of_range(net, tmp_path):
    np.savez(tmp_path / "odd.npz", images=np.random.default_rng(0).random((6, 8, 8)), labels=np.full(6, 99))
    failed = run(net, "--data", "odd.npz")
    assert failed.exit_code == 2
    assert "labels from 0 to 9, one per score of the network; got labels from 99 to 99" in " ".join(
        failed.output.split()
    )
    report = json.loads(run(net, "--data", "odd.npz", "--no-labels", "--json").stdout)
    assert not any("accuracy" in reading["metric"] for reading in report["readings"])


@pytest.mark.slow
def test_an_audit_that_was_killed_goes_on(net, tmp_path):
    """A real kill, at the moment when some steps are finished; the second run does the rest only."""
    command = [sys.executable, "-m", "intertwine", "audit", net, "--data", "digits", "--images", "300"]
    command += ["--symmetry", "hflip", "--symmetry", "c4", "--json", "--out"]
    whole = json.loads(subprocess.run([*command, "whole"], capture_output=True, text=True, check=True).stdout)
    process = subprocess.Popen([*command, "killed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parts = tmp_path / "killed" / "parts"
    while process.poll() is None and len(list(parts.glob("*.json"))) < 4:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    finished = {path: path.stat().st_mtime_ns for path in parts.glob("*.json")}
    assert 4 <= len(finished) < len(list((tmp_path / "whole" / "parts").glob("*.json")))
    assert not (tmp_path / "killed" / "audit.json").exists()
    again = json.loads(subprocess.run([*command, "killed"], capture_output=True, text=True, check=True).stdout)
    assert again["readings"] == whole["readings"]
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items()), "not done again"


def test_a_gate_on_what_was_not_measured_does_not_lose_the_rest(net, tmp_path):
    failed = run(net, *QUICK, "--fail-above", "equivariance=0.1", "--out", "out")
    assert failed.exit_code == 2
    assert "a metric that was measured" in failed.stderr
    assert "invariance error" in failed.stdout
    assert (tmp_path / "out" / "audit.json").exists()
