"""Results that come with the package."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from intertwine.cli._app import program
from intertwine.errors import InputError
from intertwine.experiments import experiment_named, experiments, keep_results, kept_runs, kept_scales
from intertwine.experiments.lab._kept_results import FOLDER
from intertwine.experiments.lab._runner import JobSpec, execute, finished_runs

LENET = experiment_named("lenet")


@pytest.fixture
def finished(tmp_path):
    spec = JobSpec("lenet", "linear", "smoke", 0, str(tmp_path / "runs"))
    assert execute(spec).state == "finished"
    return tmp_path / "runs"


def test_kept_runs_are_the_finished_ones(finished, tmp_path):
    path = keep_results(LENET, "smoke", results=finished, folder=tmp_path)
    (kept,) = kept_runs(LENET, "smoke", folder=tmp_path)
    (run,) = finished_runs(LENET, "smoke", results=finished)
    assert kept.metrics == pytest.approx(run.metrics, rel=1e-5)
    assert (kept.row, kept.seed) == ("linear", 0)
    assert run.cpu_seconds is not None
    assert kept.cpu_seconds == pytest.approx(run.cpu_seconds, abs=0.06)
    assert kept.history[-1]["step"] == run.history[-1]["step"]
    assert len(kept.history) <= 40
    assert path.stat().st_size < 20_000
    assert kept_scales(LENET, folder=tmp_path) == ["smoke"]


def test_runs_made_again_replace_theirs_and_others_stay(finished, tmp_path):
    path = keep_results(LENET, "smoke", results=finished, folder=tmp_path)
    content = json.loads(path.read_text())
    (entry,) = content["runs"]
    other = {**entry, "seed": 1}
    stale = {**entry, "seed": 2, "settings": {**entry["settings"], "epochs": 1000}}
    worse = {**entry, "metrics": {"test_error": 100.0}}
    path.write_text(json.dumps({**content, "runs": [worse, other, stale]}))
    assert [run.seed for run in kept_runs(LENET, "smoke", folder=tmp_path)] == [0, 1], "settings of long ago"
    keep_results(LENET, "smoke", results=finished, folder=tmp_path)
    assert json.loads(path.read_text())["runs"] == [entry, other]


def test_there_must_be_runs(tmp_path):
    with pytest.raises(InputError, match="finished runs at scale smoke"):
        keep_results(LENET, "smoke", results=tmp_path)


def test_settings_that_changed_drop_the_results(finished, tmp_path):
    keep_results(LENET, "smoke", results=finished, folder=tmp_path)
    rows = tuple(row for row in LENET.rows if row.name != "linear")
    without = replace(LENET, rows=rows, orderings=())
    assert kept_runs(without, "smoke", folder=tmp_path) == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_kept_result_is_of_the_experiment_as_it_is_now(path):
    content = json.loads(path.read_text())
    experiment = experiments()[content["experiment"]]
    assert path.stem == f"{experiment.name}-{content['scale']}"
    assert len(kept_runs(experiment, content["scale"])) == len(content["runs"]), "run it again, or drop it"
    assert path.stat().st_size < 500_000


def test_a_fresh_install_shows_them_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = next(iter(sorted(FOLDER.glob("*.json")))).stem.rpartition("-")[0]
    result = CliRunner().invoke(program(), ["experiment", "show", name])
    assert result.exit_code == 0
    assert "results that come with the package" in result.output
    assert "published" in result.output
    as_json = json.loads(CliRunner().invoke(program(), ["experiment", "show", name, "--json"]).output)
    assert any(cell["values"] for row in as_json["rows"] for cell in row["metrics"].values())
    own = CliRunner().invoke(program(), ["experiment", "show", name, "--results", str(tmp_path)])
    assert "no finished runs" in own.output


def test_show_names_the_other_scales_that_have_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small, quick = (len(kept_runs(experiments()["lrlc"], scale)) for scale in ("small", "quick"))
    assert small > 0 < quick
    largest = CliRunner().invoke(program(), ["experiment", "show", "lrlc"]).output
    assert "scale small\n" in largest
    assert f"--scale quick shows {quick} more" in largest
    chosen = CliRunner().invoke(program(), ["experiment", "show", "lrlc", "--scale", "quick"]).output
    assert "more" not in chosen
