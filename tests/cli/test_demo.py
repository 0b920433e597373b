"""``intertwine demo``, with one epoch each: everything runs, and the page says what was found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.experiments import load_capsules
from intertwine.report import Explorer


@pytest.mark.whole
def test_the_whole_story(tmp_path):
    def run() -> str:
        done = CliRunner().invoke(program(), ["demo", "--quick", "--out", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stdout

    said = run()
    errors = {
        name.strip(): float(error)
        for name, error in re.findall(r"^([a-z\-, ]+?)\s+upright .* invariance error (\S+)$", said, re.M)
    }
    assert errors["equivariant"] < 1e-5
    assert errors["plain, symmetrized"] < 1e-5
    assert errors["plain"] > 0.1
    page = (tmp_path / "index.html").read_text()
    assert len(page) < 3_000_000
    for text in ("Every network", "Impose: kernels", "Relax: how far", "rolling capsules", "Where rotated digits"):
        assert text.lower() in page.lower()
    kept = load_capsules(tmp_path)
    assert kept is not None
    assert kept[1] == 20
    with Explorer(demo=tmp_path) as server:
        assert server.capsules.state()["state"] == "ready"
        assert {Path(name).name for name in server.answer("/api/audits", {})} == {
            "plain",
            "augmented",
            "equivariant",
            "soft",
            "low-rank",
        }
    assert "accuracy of every network" in page
    before = written(tmp_path)
    assert {path.parts[-2] for path in before} >= {"checkpoints", "parts"}
    assert run().splitlines()[-1] == said.splitlines()[-1]
    assert written(tmp_path) == before, "finished trainings and audits are not repeated"


def written(folder: Path) -> dict[Path, int]:
    """Checkpoints and finished steps of audits, and when they were written."""
    return {
        path: path.stat().st_mtime_ns
        for pattern in ("runs/*/checkpoints/*", "runs/*/audit/parts/*")
        for path in folder.glob(pattern)
    }
