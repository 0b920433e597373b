"""``intertwine discover`` as a user types it."""

from __future__ import annotations

import json

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.discovery import _runs


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runs, "epochs_for", lambda count: 1)


def run(*words: str):
    return CliRunner().invoke(program(), ["discover", *words])


QUICK = ("digits", "--symmetry", "brightness", "--samples", "150", "--seeds", "1")


def test_files_table_and_json(tmp_path) -> None:
    done = run(*QUICK, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert {"discover.html", "discover.json", "discover.csv", "net.py"} <= {path.name for path in tmp_path.iterdir()}
    assert "brightness" in done.stdout
    assert "do labels survive?" in done.stderr
    again = run(*QUICK, "--out", str(tmp_path), "--json")
    assert json.loads(again.stdout)["candidates"][0]["symmetry"] == "brightness"
    assert again.stderr == ""


def test_without_labels() -> None:
    done = run(*QUICK, "--no-labels", "--json")
    assert json.loads(done.stdout)["candidates"][0]["verdict"] == "can't tell"


def test_images_without_labels_in_one_folder(tmp_path) -> None:
    (tmp_path / "images").mkdir()
    generator = torch.Generator().manual_seed(0)
    for k in range(60):
        pixels = torch.randint(256, (8, 8), generator=generator, dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(tmp_path / "images" / f"{k}.png")
    words = (str(tmp_path), "--symmetry", "hflip")
    refused = run(*words)
    assert refused.exit_code == 2
    assert "(--no-labels)" in refused.stderr
    done = run(*words, "--no-labels", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["candidates"][0]["auc"]["p_value"] > 0.001


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digits", "--budget", "soon"), "a time such as 60s, 10m or 1h"),
        (("digits", "--symmetry", "hflop"), "Did you mean hflip?"),
        (("digits", "--symmetry", "hue"), "images with 3 channels"),
        (("digits", "--samples", "20"), "at least 40 samples; got 20"),
        (("digitz",), "Did you mean 'digits'?"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
