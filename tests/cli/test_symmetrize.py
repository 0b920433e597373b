"""``intertwine symmetrize`` as a user types it."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.measure import invariance_error, load_network


def run(*words: str):
    return CliRunner().invoke(program(), ["symmetrize", *words])


@pytest.fixture
def net(tmp_path, monkeypatch) -> str:
    (tmp_path / "cut_net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(384, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    save_file(load_network("cut_net:build").model.state_dict(), "net.safetensors")
    return "cut_net:build"


def test_the_twin_is_invariant_and_loads_into_the_same_architecture(net):
    done = run(net, "--weights", "net.safetensors", "--data", "digits", "--images", "100", "--out", "twin.safetensors")
    assert done.exit_code == 0, done.output
    assert "before" in done.output
    assert "after" in done.output
    twin = load_network(net)
    twin.model.load_state_dict(load_file("twin.safetensors"))
    x = torch.rand(20, 1, 8, 8)
    assert invariance_error(twin.model, x).mean < 1e-5
    before = load_network(net)
    before.model.load_state_dict(load_file("net.safetensors"))
    assert invariance_error(before.model, x).mean > 0.05


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "digits", "--out", "twin.pt"), "ending in .safetensors"),
        (("--data", "digits", "--out", "t.safetensors", "--symmetry", "c5"), "hflip, vflip"),
    ],
)
def test_bad_input(net, words, message):
    failed = run(net, *words)
    assert failed.exit_code == 2
    assert message in " ".join(failed.output.split())
