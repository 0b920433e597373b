"""Every example runs, says what it found, and notices when its own claim is not kept."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = {  # the fewest epochs that show the claim, and a line of the output
    "rotated_digits": (1, r"^D4 +\d+ weights  upright (\S+)%  any orientation \1%  error \S+e-0[678]$"),
    "hexagonal_digits": (2, r"^C6 +\d+ weights  at 0° to 300°: (\d+%)(  \1){5}  error \S+e-0[678]$"),
    "signals": (1, r"^symmetric +\d+ weights  correct \S+%  error under reversal \S+e-0[678]$"),
    "scaled_digits": (2, r"^scales +1058 weights +size 16: \S+%( +size \d+: \S+%){4}$"),
    "relax_resnet": (3, r"^2\.conv2  LowRankConv  0\.\d+ +combining weights 0\.\d+$"),
    "low_rank_layer": (2, r"^share of the first bank, row by row:( [01]\.\d\d){10}$"),
    "own_sequences": (8, r"^squared error of frames predicted by rolling the first: 0\.\d+; by repeating it: 0\.\d+$"),
    "inertia": (3, r"^equivariant +42801 weights  misses \S+% of the variance  error under a rotation \S+e-0[678]$"),
    "audit_and_symmetrize": (1, r"^averaged and tuned +accuracy \S+%  invariance error \S+e-0[678]$"),
}


def run(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """As a user would, in a folder of their own; in this process, which has imported torch already."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")


def test_the_list_is_complete() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.whole
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs, line = EXAMPLES[name]
    run(name, "--epochs", str(epochs), monkeypatch=monkeypatch, folder=tmp_path)
    said = capsys.readouterr().out
    assert re.search(line, said, re.MULTILINE), said
    assert list(tmp_path.iterdir()) == [], "an example writes only where it is told to"


def test_an_example_notices_a_claim_that_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="should tell the halves apart"):
        run("low_rank_layer", "--epochs", "0", monkeypatch=monkeypatch, folder=tmp_path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_imports_what_is_installed(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert text.count("\n") < 70
    assert "sys.path" not in text


QUOTED = {
    "rotated_digits": ("impose", r"upright (\S+)%", [(87.5, 91.5), (66, 86)]),
    "relax_resnet": ("relax", r"(\S+?)%", [(46.9, 48.9), (46.9, 48.9), (47.9, 49.2), (96.1, 98.1)]),
    "low_rank_layer": ("relax", r"accuracy (\S+)%", [(57, 58), (99.8, 100), (99.7, 100)]),
    "own_sequences": ("learn", r"rolling the first: (\S+);", [(0.0015, 0.0035)]),
    "audit_and_symmetrize": ("measure", r"accuracy (\S+)%", [(47, 62), (59, 69), (78, 84)]),
}
"""What the tutorials say that the scripts print, over three seeds."""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUOTED)
def test_the_tutorials_quote_what_the_scripts_print(name: str) -> None:
    page, pattern, ranges = QUOTED[name]
    assert f"examples/{name}.py" in (FOLDER.parent / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], capture_output=True, text=True, check=True)
    printed = [float(value) for value in re.findall(pattern, done.stdout)]
    slack = 0.1  # other machines round differently, and so train differently
    assert len(printed) == len(ranges)
    for value, (low, high) in zip(printed, ranges, strict=True):
        assert low * (1 - slack) <= value <= high * (1 + slack)
