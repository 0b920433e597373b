"""The experiments of the topographic autoencoders, at their smallest, and their pages."""

from __future__ import annotations

import json

import pytest
import torch

from intertwine.experiments import (
    JobSpec,
    Panels,
    compare,
    execute,
    experiment_named,
    finished_runs,
    load_arrays,
)
from intertwine.experiments.tvae._measure import held_out
from intertwine.experiments.tvae._mnist import _motions
from intertwine.experiments.tvae._network import group_of, prior_sampler, topology_of
from intertwine.experiments.tvae._sprites import _sprites
from intertwine.groups import parse_finite
from intertwine.models import TopographicVAE
from intertwine.report import experiment_page


@pytest.mark.parametrize("name", ["tvae", "tvae-mnist"])
class TestEveryRow:
    @pytest.mark.whole
    def test_runs_and_shows(self, name, tmp_path):
        experiment = experiment_named(name)
        for row in experiment.rows:
            done = execute(JobSpec(name, row.name, "smoke", 0, str(tmp_path), None, {"steps": 3}))
            assert done.state == "finished", done.error
            assert {"traversal_gap", "e_eq", "e_eq_prior", "e_eq_untrained", "elbo", "log_p"} <= set(done.metrics)
            if row.settings["kind"] != "vae" and row.settings["window"] < 1:  # a full window hides no frame
                assert "held_out_gap" in done.metrics
        runs = finished_runs(experiment, "smoke", results=tmp_path)
        assert runs == [], "other settings are other runs"

    def test_pictures(self, name, tmp_path):
        experiment = experiment_named(name)
        row = "third" if name == "tvae" else "partial"
        assert execute(JobSpec(name, row, "smoke", 0, str(tmp_path))).state == "finished"
        runs = finished_runs(experiment, "smoke", results=tmp_path)
        arrays = load_arrays(runs[0].folder)
        assert any(key.endswith("/traversal") for key in arrays)
        figures = experiment.figures(runs)
        assert len(figures) == 1
        assert isinstance(figures[0], Panels)
        greyed = [panel.quiet for _, panels in figures[0].rows for panel in panels]
        assert any(greyed)
        assert not all(greyed)
        comparison = compare(
            experiment, {row: [runs[0].metrics]} | {r.name: [] for r in experiment.rows if r.name != row}
        )
        page = experiment_page(experiment, comparison, runs, scale="smoke")
        assert "images from rolled capsules" in page


def test_length_of_training(tmp_path):
    """A row multiplies the steps of a row of `tvae-mnist`, and changes nothing else."""
    experiment, digits = experiment_named("tvae-length"), experiment_named("tvae-mnist")
    last = {}
    for name in ("vae-quarter", "tvae-twice"):
        settings = experiment.settings(name, "small")
        factor = settings.pop("steps_factor")
        assert settings == digits.settings({"vae": "vae", "tvae": "half"}[name.split("-")[0]], "small")
        done = execute(JobSpec("tvae-length", name, "smoke", 0, str(tmp_path), None, {"steps": 40}))
        assert done.state == "finished", done.error
        assert set(done.metrics) == {metric.name for metric in experiment.metrics}
        (folder,) = (tmp_path / "tvae-length" / "smoke" / name).iterdir()
        last[name] = max(
            json.loads(line)["step"] for line in (folder / "fit" / "metrics.jsonl").read_text().splitlines()
        )
        assert last[name] == 40 * factor
    assert last == {"vae-quarter": 10, "tvae-twice": 80}


def test_turn_and_hue_have_a_cycle_each(tmp_path):
    """Learned one at a time, each by its generator; tested together as well, by the product of the two."""
    experiment = experiment_named("tvae-mnist")
    settings = experiment.settings("product", "smoke")
    learned, tested, moving = _motions(settings)
    assert group_of(settings) == parse_finite("C6 x C6")
    seen = {"learned": set(), "tested": set()}
    for name, motion in (("learned", learned), ("tested", tested)):
        for seed in range(40):
            frames, labels = motion(torch.rand(1, 8, 8), torch.Generator().manual_seed(seed))
            turns, hues = ((labels[1, k] - labels[0, k]) % 6 for k in (1, 3))
            assert labels[0, 2] == labels[1, 2], "the scale stays"
            element = int(moving(labels[None]))
            assert element == 6 * turns + hues, "rows are turns, columns hues"
            seen[name].add(element)
            assert frames.shape == (6, 3, 8, 8)
    assert seen == {"learned": {6, 1}, "tested": {6, 1, 7}}

    done = execute(JobSpec("tvae-mnist", "product", "smoke", 0, str(tmp_path)))
    assert done.state == "finished", done.error
    assert "traversal_gap_turn_and_hue" in done.metrics
    assert "traversal_gap_turn_and_hue_untrained" in done.metrics
    run = finished_runs(experiment, "smoke", results=tmp_path)[0]
    losses = [json.loads(line)["loss"] for line in (run.folder / "fit" / "metrics.jsonl").read_text().splitlines()]
    assert losses, "it trained"
    arrays = load_arrays(run.folder)
    assert arrays["turn and hue/traversal"].shape == arrays["turn and hue/input"].shape


def test_rows_keep_their_settings():
    """A setting more would void the records of earlier runs."""
    for name in ("tvae", "tvae-mnist"):
        experiment = experiment_named(name)
        for row in experiment.rows:
            assert ("axes" in experiment.settings(row.name, "small")) == (row.name == "product")


def test_the_published_part_of_dsprites():
    experiment = experiment_named("tvae")
    settings = experiment.settings("half", "paper")

    class Asked:
        data = None

    asked = Asked()
    asked.settings = settings
    sequences = _sprites(asked)
    assert len(sequences) == 50_625
    assert sequences.images.shape == (50_625, 1, 64, 64)
    frames, classes = sequences.sequence(0, "scale")
    assert frames.shape == (15, 1, 64, 64)
    assert classes[:, 1].tolist() == [0, 1, 2, 3, 4] * 3


def test_held_out_frames():
    model = TopographicVAE((1, 8, 8), capsules=1, length=15, window=10)
    assert held_out(model, 15) == [6, 7, 8, 9, 10]


def test_prior_latents_are_those_of_the_row():
    settings = {"kind": "vae", "frames": 5, "capsules": 2, "length": 5}
    t = prior_sampler(settings, 500)(torch.Generator().manual_seed(0))
    assert t.shape == (500, 5, 2, 5)
    assert float(t.mean()) == pytest.approx(0, abs=0.05)
    shifted = {**settings, "kind": "shifting", "window": 0.6, "band": 0, "width": 1, "shift": 30.0, "eps": 1e-6}
    assert bool((prior_sampler(shifted, 50)(torch.Generator().manual_seed(0)) > 0).all())


def test_the_torus(tmp_path):
    experiment = experiment_named("tvae-torus")
    for row in experiment.rows:
        done = execute(JobSpec("tvae-torus", row.name, "smoke", 0, str(tmp_path)))
        assert done.state == "finished", done.error
        assert 0 <= done.metrics["neighbor_agreement"] <= 1
    runs = finished_runs(experiment, "smoke", results=tmp_path)
    assert [figure.title.split(":")[0] for figure in experiment.figures(runs)] == [row.title for row in experiment.rows]
    # The shared variance alone makes neighbors correlated, which the null shows.
    torus = runs[0].metrics
    assert torus["neighbor_correlation_untrained"] > 0.2
    assert abs(runs[1].metrics["neighbor_correlation_untrained"]) < 0.1


@pytest.mark.parametrize(
    ("name", "row", "published"),
    [
        ("tvae", "half", (15, 1)),
        ("tvae", "third", (10, 1)),
        ("tvae", "sixth", (5, 1)),
        ("tvae", "zero", (1, 3)),
        ("tvae", "bubble", (10, 5)),
        ("tvae", "bubble-code", (5, 5)),
        ("tvae-mnist", "half", (18, 3)),
        ("tvae-mnist", "partial", (13, 3)),
        ("tvae-mnist", "short", (5, 3)),
        ("tvae-mnist", "bubble", (5, 3)),
    ],
)
def test_published_windows(name, row, published):
    """Frames of the window, and neighbors within a frame."""
    topology = topology_of(experiment_named(name).settings(row, "paper"))
    assert topology.times.size == published[0]
    assert sum(d == 0 for d, _ in topology.offsets) == published[1]
