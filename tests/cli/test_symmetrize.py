"""``intertwine symmetrize`` as a user types it."""

from __future__ import annotations

import re

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
    assert re.search(r"^ +accuracy +invariance error +parameters +multiply-adds$", done.output, re.M)
    assert re.search(r"^original +0\.\d{4} +0\.\d+ +3,910 +7,296$", done.output, re.M)
    assert re.search(r"^averaged at run time +0\.\d{4} +\S+ +3,910 +14,592$", done.output, re.M)
    assert re.search(r"^refitted +0\.\d{4} +\S+e-\d\d +3,910 +7,296$", done.output, re.M)
    assert "tuned" not in done.output
    assert "costs more than averaging" not in done.output
    twin = load_network(net)
    twin.model.load_state_dict(load_file("twin.safetensors"))
    x = torch.rand(20, 1, 8, 8)
    assert invariance_error(twin.model, x).mean < 1e-5
    before = load_network(net)
    before.model.load_state_dict(load_file("net.safetensors"))
    assert invariance_error(before.model, x).mean > 0.05


def test_tuning_keeps_the_symmetry_and_repeats_by_seed(net):
    words = (net, "--weights", "net.safetensors", "--data", "digits", "--images", "300", "--tune", "3", "--lr", "0.01")
    words = (*words, "--label-weight", "1", "--batch-size", "50")
    twins = []
    for name, more in (("a", ()), ("b", ()), ("c", ("--seed", "1"))):
        done = run(*words, *more, "--out", f"{name}.safetensors")
        assert done.exit_code == 0, done.output
        scores = dict(re.findall(r"^(refitted|tuned) +(\d\.\d+)", done.output, re.M))
        assert float(scores["tuned"]) > float(scores["refitted"]) + 0.1
        twins.append(load_file(f"{name}.safetensors"))
    twin = load_network(net).model
    twin.load_state_dict(twins[0])
    assert invariance_error(twin, torch.rand(20, 1, 8, 8)).mean < 1e-5
    assert all(torch.equal(twins[0][k], twins[1][k]) for k in twins[0])
    assert not torch.equal(twins[0]["0.weight"], twins[2]["0.weight"])


def test_an_interrupted_tuning_continues(net, tmp_path, monkeypatch):
    words = (net, "--weights", "net.safetensors", "--data", "digits", "--images", "100", "--tune", "1")
    done = run(*words, "--out", "whole.safetensors")
    assert done.exit_code == 0, done.output
    with monkeypatch.context() as patch:
        patch.setattr("intertwine.train.tuning._tune.untie", stopped)  # after the training, before anything is written
        assert run(*words, "--out", "twin.safetensors").exit_code != 0
    assert not (tmp_path / "twin.safetensors").exists()
    assert (tmp_path / "twin.tuning" / "checkpoints").is_dir()
    other = run(*words, "--seed", "1", "--out", "twin.safetensors")
    assert "the configuration of the run" in " ".join(other.output.split())
    done = run(*words, "--out", "twin.safetensors")
    assert done.exit_code == 0, done.output
    assert "already finished" in done.stderr
    assert not (tmp_path / "twin.tuning").exists(), "no checkpoints stay behind"
    whole, twin = load_file("whole.safetensors"), load_file("twin.safetensors")
    assert all(torch.equal(whole[name], twin[name]) for name in whole)


def stopped(*args, **options):
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch about its own code
def test_an_exported_program_gives_weights_for_the_network_it_came_from(net):
    model = load_network(net).model.eval()
    model.load_state_dict(load_file("net.safetensors"))
    batch = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(model, (torch.rand(2, 1, 8, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, "net.pt2")
    done = run("net.pt2", "--data", "digits", "--images", "100", "--out", "twin.safetensors")
    assert done.exit_code == 0, done.output
    model.load_state_dict(load_file("twin.safetensors"))
    assert invariance_error(model, torch.rand(20, 1, 8, 8)).mean < 1e-5


def test_networks_from_images_to_images(net, tmp_path):
    (tmp_path / "dense_net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))\n"
    )
    words = ("dense_net:build", "--data", "digits", "--images", "50", "--out", "twin.safetensors")
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert re.search(r"^refitted +\S+e-\d\d +\d+ +[\d,]+$", done.output, re.M)
    failed = run(*words, "--tune", "1", "--label-weight", "0.5")
    assert failed.exit_code == 2
    assert "images as outputs" in failed.output
    done = run(*words, "--tune", "1")
    assert done.exit_code == 0, done.output
    assert re.search(r"^tuned +\S+e-\d\d +\d+ +[\d,]+$", done.output, re.M)
    failed = run("net.onnx", *words[1:])
    assert failed.exit_code == 2
    assert "cannot be changed" in failed.output


def test_layers_without_biases_get_none(net, tmp_path):
    (tmp_path / "lean_net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Conv2d(1, 6, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(216, 10))\n"
    )
    done = run("lean_net:build", "--data", "digits", "--images", "100", "--out", "twin.safetensors")
    assert done.exit_code == 0, done.output
    load_network("lean_net:build").model.load_state_dict(load_file("twin.safetensors"))
    done = run("lean_net:build", "--data", "digits", "--no-refit", "--out", "twin.safetensors")
    assert "statistics of hidden layers are not restored" in done.stderr
    load_network("lean_net:build").model.load_state_dict(load_file("twin.safetensors"))


def test_wider_networks_and_larger_windows_load_into_the_same_architecture(tmp_path, monkeypatch):
    (tmp_path / "wide_net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    first, second = nn.Conv2d(1, 6, 3, 2, 1), nn.Conv2d(6, 8, 3, padding=1)\n"
        "    last = nn.BatchNorm2d(8), nn.MaxPool2d(3, 2, 1), nn.Flatten(), nn.Linear(32, 10)\n"
        "    return nn.Sequential(first, nn.ReLU(), second, *last)\n"
    )
    monkeypatch.chdir(tmp_path)
    options = ("--data", "digits", "--images", "100", "--symmetry", "c4", "--width", "2", "--tune", "1")
    done = run("wide_net:build", *options, "--out", "twin.safetensors")
    assert done.exit_code == 0, done.output
    twin = load_network("wide_net:build", weights=tmp_path / "twin.safetensors").model
    assert invariance_error(twin, torch.rand(20, 1, 8, 8), "c4").mean < 1e-5
    assert twin[0].weight.shape[2:] == (4, 4)
    assert twin[2].in_channels == len(twin[0].weight) > 6
    assert twin[4].kernel_size == (4, 4)
    size = f"{sum(p.numel() for p in twin.parameters()):,}"
    assert re.search(rf"^tuned .* {size} ", done.output, re.M)
    wider = run("wide_net:build", *options[:-4], "--width", "4", "--out", "wider.safetensors")
    for output, costly in ((done.output, False), (wider.output, True)):
        cost = {t: int(n.replace(",", "")) for t, n in re.findall(r"^(averaged|refitted) .* ([\d,]+)$", output, re.M)}
        assert (cost["refitted"] > cost["averaged"]) == costly
        assert ("this width costs more than averaging at run time" in output) == costly
    failed = run("wide_net:build", *options, "--width", "5", "--out", "twin.safetensors")
    assert failed.exit_code == 2
    assert "a width from 1 to 4" in failed.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "digits", "--out", "twin.pt"), "ending in .safetensors"),
        (("--data", "digits", "--out", "t.safetensors", "--symmetry", "c5"), "filters follow flips"),
        (("--data", "digits", "--out", "t.safetensors", "--symmetry", "hflop"), "Did you mean hflip?"),
        (("--data", "digits", "--out", "cut_net.py/t.safetensors"), "a folder that can be written to"),
        (("--data", "digits", "--out", "t.safetensors", "--tune", "1", "--lr", "0"), "lr > 0"),
        (("--data", "digits", "--out", "t.safetensors", "--tune", "1", "--teacher", "me"), "'average' or 'original'"),
        (("--data", "digits", "--out", "t.safetensors", "--weights", "none.safetensors"), "no such file"),
        (("--data", "digits", "--out", "t.safetensors", "--weights", "nan.safetensors"), "Check the weights"),
    ],
)
def test_bad_input(net, words, message):
    state = load_file("net.safetensors")
    state["0.weight"][0] = float("nan")
    save_file(state, "nan.safetensors")
    failed = run(net, *words)
    assert failed.exit_code == 2, failed.output
    assert message in " ".join(failed.output.split())
