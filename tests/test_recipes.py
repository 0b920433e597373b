"""What docs/recipes.md shows besides what test_docs.py runs: a workflow for CI, and programs for other packages."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

import intertwine
from intertwine.data import load

PAGE = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
PACKAGES = ["lightning", "transformers"]
NET = """\
import torch
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
"""


def gate() -> list[str]:
    """The command of the workflow on the page."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (job,) = yaml.safe_load(text)["jobs"].values()
    (command,) = (step["run"] for step in job["steps"] if step.get("run", "").startswith("intertwine"))
    return shlex.split(command)[1:]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    for number, (image, label) in enumerate(zip(*load("digits").test.subset(20).as_tensors(), strict=True)):
        path = tmp_path / "images" / str(int(label)) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * image[0]).byte().numpy()).save(path)
    return tmp_path


@pytest.mark.usefixtures("forked_children")
@pytest.mark.parametrize(("symmetric", "code"), [(True, 0), (False, 1)])
def test_the_gate_passes_a_symmetric_network_and_no_other(repository: Path, symmetric: bool, code: int) -> None:
    conv, linear = torch.randn(4, 1, 3, 3), torch.randn(10, 4, 8, 8)
    if symmetric:
        conv, linear = (w + w.flip(-1) for w in (conv, linear))
    weights = {"0.weight": conv, "0.bias": torch.zeros(4), "3.weight": linear.flatten(1), "3.bias": torch.zeros(10)}
    save_file(weights, repository / "net.safetensors")
    command = [sys.executable, "-m", "intertwine", *gate()]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert (repository / "audit" / "audit.xml").is_file()


def names_in(program: str) -> set[str]:
    """The names below ``tw`` that a program uses, such as ``tw.models.resnet``."""
    chains = {ast.unparse(node) for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Attribute)}
    return {chain for chain in chains if re.fullmatch(r"tw(\.\w+)+", chain)}


def missing(program: str) -> set[str]:
    return {name for name in names_in(program) if not _resolves(name)}


def _resolves(name: str) -> bool:
    value: object = intertwine
    for part in name.split(".")[1:]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def test_a_name_that_is_gone_is_noticed() -> None:
    assert missing("tw.models.resnet(18); tw.models.resnot()") == {"tw.models.resnot"}


@pytest.mark.parametrize(("package", "program"), [*zip(PACKAGES, PROGRAMS, strict=True)], ids=PACKAGES)
def test_programs_for_other_packages(package: str, program: str) -> None:
    """They run where the package is installed; elsewhere, at least all names must exist."""
    assert package in program
    assert names_in(program)
    assert missing(program) == set()
    pytest.importorskip(package)
    exec(compile(program, package, "exec"), {"__name__": "__main__"})
