"""``intertwine demo``, with one epoch each: everything runs, and the page says what was found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from intertwine.cli import program
from intertwine.demo import load_capsules
from intertwine.report import Explorer


@pytest.mark.whole
def test_the_whole_story(tmp_path):
    def run() -> str:
        done = CliRunner().invoke(program(), ["demo", "--quick", "--out", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stdout

    said = run()
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) >= {"discover", "impose", "relax", "learn", "measure", "dials", "seeds", "cpu_seconds"}
    assert len(results["discover"]) == 2
    assert results["impose"]["equivariant"]["invariance error"]["mean"] < 1e-5
    assert results["impose"]["plain"]["invariance error"]["mean"] > 0.1
    assert results["measure"]["made symmetric, tuned"]["changed answers"]["mean"] == 0
    assert results["measure"]["trained on mirrored digits"]["invariance error"]["mean"] > 0.01
    weights = [row["weights"] for row in results["relax"].values()]
    assert max(weights) < 1.1 * min(weights), "strict, relaxed and free networks have about as many weights"
    for verb in ("impose", "relax", "learn", "measure"):
        for name in results[verb]:
            assert re.search(rf"^{verb} +{re.escape(name)} ", said, re.M)
    page = (tmp_path / "index.html").read_text()
    assert len(page) < 3_000_000
    for text in ("Discover: is it", "Impose: answers", "Relax: when", "rolling capsules", "Measure: make"):
        assert text.lower() in page.lower()
    kept = load_capsules(tmp_path)
    assert kept is not None
    assert kept[1] == 20
    with Explorer(demo=tmp_path) as server:
        assert server.capsules.state()["state"] == "ready"
        names = {Path(name).name for name in server.answer("/api/audits", {})}
        assert names == {"plain", "augmented", "equivariant", "mirrored", "symmetric"}
    before = written(tmp_path)
    assert {path.parts[-2] for path in before} >= {"checkpoints", "parts"}
    assert run().splitlines()[-1] == said.splitlines()[-1]
    assert written(tmp_path) == before, "finished trainings and audits are not repeated"


def written(folder: Path) -> dict[Path, int]:
    """Checkpoints and finished steps of audits, and when they were written."""
    return {
        path: path.stat().st_mtime_ns
        for pattern in ("runs/*/checkpoints/*", "runs/audits/*/parts/*")
        for path in folder.glob(pattern)
    }
