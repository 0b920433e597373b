"""A file beside the model does not take the place of an installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from intertwine.errors import InputError
from intertwine.measure import load_network

NET = """
import torch
from torch import nn
import helper_beside_net

def build(widths=(4,)):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, widths[0]), nn.ReLU(), nn.Linear(widths[0], 10))
"""
SCRIPT = Path(sys.executable).with_name("intertwine")
COMMANDS = {"module": [sys.executable, "-m", "intertwine"], "script": [str(SCRIPT)]}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "helper_beside_net.py").write_text("")
    for name in ("jinja2", "yaml", "safetensors", "rich", "timm", "onnx"):
        (tmp_path / f"{name}.py").write_text(f"open('{name}-ran', 'w').close()\nraise ImportError('planted')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.whole
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_installed_packages_go_first(folder, command):
    """The page of an audit needs jinja2; the model itself is found, and what it imports from beside it."""
    if not Path(command[0]).exists():
        pytest.skip("the command is not installed")
    audit = ["audit", "net:build", "--arg", "widths=8,8", "--data", "digits", "--images", "8", "--out", "out"]
    done = subprocess.run([*command, *audit], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "audit.html").exists()
    assert not list(folder.glob("*-ran"))


def test_the_folder_is_there_only_while_the_network_is_built(folder, monkeypatch):
    path = [place for place in sys.path if place not in ("", str(folder))]
    monkeypatch.setattr(sys, "path", list(path))
    assert load_network("net:build").model is not None
    assert sys.path == path
    with pytest.raises(InputError, match="No module named"):
        load_network("no_such_module:build")
    assert sys.path == path
    for name in ("net", "helper_beside_net"):
        del sys.modules[name]


def test_which_of_two_modules_was_taken_is_said(folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(folder))])
    (folder / "textwrap.py").write_text("from torch import nn\ndef build(): return nn.Identity()\n")
    with pytest.raises(InputError, match=r"not textwrap\.py in this folder: installed packages come first"):
        load_network("textwrap:build")
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("")
    network = load_network("torch.nn:Identity")
    assert len(network.notes) == 1
    assert "not torch" in network.notes[0]
