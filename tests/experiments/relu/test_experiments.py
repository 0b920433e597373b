"""The experiments on symmetries of trained ReLU networks, at their smallest."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from intertwine.errors import InputError
from intertwine.experiments import (
    Job,
    JobSpec,
    Panels,
    Plot,
    Table,
    compare,
    execute,
    experiment_named,
    finished_runs,
)
from intertwine.experiments.relu._filters import filter_figures, keep_filters
from intertwine.experiments.relu._imagenet import _weights
from intertwine.experiments.relu._run import KINDS, Counted, loss_of
from intertwine.measure import invariance_loss, load_network, match
from intertwine.models import VGG11

QUICK = {"images": 50, "matched_images": 40}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A network without symmetry, trained and measured once: the folder of its results, and the outcome."""
    results = tmp_path_factory.mktemp("plain")
    return results, execute(JobSpec("relu-symmetry", "cnn", "smoke", 0, str(results), None, QUICK))


@pytest.fixture(scope="module")
def symmetric(tmp_path_factory):
    """The same for a network with symmetry, with the settings of its scale."""
    results = tmp_path_factory.mktemp("symmetric")
    return results, execute(JobSpec("relu-symmetry", "gcnn", "smoke", 0, str(results)))


def test_every_row(tmp_path, plain, symmetric):
    experiment = experiment_named("relu-symmetry")
    assert [row.name for row in experiment.rows] == list(KINDS)
    for name in ("cnn", "gcnn", "pgcnn-late"):
        job = JobSpec("relu-symmetry", name, "smoke", 0, str(tmp_path), None, QUICK)
        done = {"cnn": plain[1], "gcnn": symmetric[1]}.get(name) or execute(job)
        assert done.state == "finished", done.error
        of_gcnn = {"partners_found", "partners_found_involution"}
        assert {metric.name for metric in experiment.metrics} - of_gcnn <= set(done.metrics)
        assert (of_gcnn <= set(done.metrics)) == (name == "gcnn")
        if name == "gcnn":
            assert done.metrics["partners_found_involution"] >= 0.99
            assert done.metrics["invariance_error"] < 1e-5
            assert done.metrics["order_two_or_less"] == 1.0


def test_networks_trained_in_other_ways(tmp_path):
    """A row changes one setting of `relu-symmetry`, and only that."""
    experiment = experiment_named("relu-training")
    changed = {"epochs": 2, **QUICK}
    sizes = {}
    for name in ("cnn-half-long", "inv-half-slow"):
        done = execute(JobSpec("relu-training", name, "smoke", 0, str(tmp_path), None, changed))
        assert done.state == "finished", done.error
        assert set(done.metrics) == {metric.name for metric in experiment.metrics}
        sizes[name] = done.metrics["parameters"]
    assert sizes["cnn-half-long"] == sizes["inv-half-slow"]
    epochs = {}
    for name in sizes:
        (log,) = (tmp_path / "relu-training" / "smoke" / name).rglob("metrics.jsonl")
        epochs[name] = max(json.loads(line)["epoch"] for line in log.read_text().splitlines()) + 1
    assert epochs == {"cnn-half-long": 6, "inv-half-slow": 2}


def test_figures(symmetric):
    experiment = experiment_named("relu-symmetry")
    results, outcome = symmetric
    assert outcome.state == "finished"
    pictures = experiment.figures(finished_runs(experiment, "smoke", results=results))
    assert [type(figure) for figure in pictures] == [Panels, Panels, Plot, Table]
    for layer in pictures[:2]:
        filters, moved = (torch.stack([panel.values for panel in panels]) for _, panels in layer.rows)
        assert filters.std() > 0.01
        if layer is pictures[0]:
            torch.testing.assert_close(filters, moved, msg="the partners of a GCNN are the filters themselves")
    plot = pictures[2]
    assert [len(series.points) for series in plot.series] == [8] * 4, "one point per layer"
    shares = torch.tensor([[values[0] for _, values in series.points] for series in plot.series])
    torch.testing.assert_close(shares.sum(0), torch.ones(8))


def test_all_filters_are_shown(tmp_path):
    """64 filters of the first layer in rows of 16, those of the second by the same projection as their partners."""
    net = VGG11(3, 10, width=1.0)
    images = torch.randn(12, 3, 32, 32)
    keep_filters(tmp_path, net, match(net, images, "hflip", constrained=False))
    run = SimpleNamespace(row="cnn", seed=0, metrics={}, folder=tmp_path)
    first, second = filter_figures([run], "cnn", "CNN")
    for figure in (first, second):
        assert [len(panels) for _, panels in figure.rows] == [16] * 8
    filters = next(net.parameters()).detach()
    colors = first.rows[0][1][0].values - 0.5
    ratio = colors / filters[0]
    torch.testing.assert_close(ratio, ratio.mean().expand_as(ratio), rtol=1e-3, atol=0)


def test_degenerate_runs_do_not_count():
    experiment = experiment_named("relu-symmetry")
    runs = [{"accuracy": 0.1, "gcnn_barrier": 0.0}, {"accuracy": 0.8, "gcnn_barrier": 0.05}]
    cell = compare(experiment, {"cnn": runs}).cells["cnn", "gcnn_barrier"]
    assert cell.values == (0.05,)


def test_rows_at_225_pixels_use_weights_of_224_if_they_have_none(tmp_path):
    weights = tmp_path / "weights"
    weights.mkdir()
    experiment = experiment_named("relu-imagenet")

    def path(row: str) -> Path | None:
        return _weights(Job("relu-imagenet", row, "small", 0, experiment.settings(row, "small"), tmp_path, tmp_path))

    with pytest.raises(InputError, match="resnet50-225"):
        path("old-225")
    (weights / "resnet50-old.pth").touch()
    with pytest.warns(UserWarning, match="trained at 224 pixels"):
        assert path("old-225") == weights / "resnet50-old.pth"
    (weights / "resnet50-225.pth").touch()
    assert path("old-225") == weights / "resnet50-225.pth"


def test_two_networks(plain):
    results, alone = plain
    trained = results / "relu-symmetry" / "smoke"
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*.safetensors")}
    done = execute(JobSpec("relu-pairs", "cnn+gcnn", "smoke", 0, str(results), None, QUICK))
    assert done.state == "finished", done.error
    assert {"barrier", "first_accuracy", "second_accuracy"} <= set(done.metrics)
    assert done.metrics["first_accuracy"] == alone.metrics["accuracy"], "the first network is the one trained there"
    assert before
    assert all(path.stat().st_mtime_ns == time for path, time in before.items()), "and not trained again"
    second = execute(JobSpec("relu-symmetry", "gcnn", "smoke", 1, str(results), None, QUICK))
    assert second.metrics["accuracy"] == done.metrics["second_accuracy"], "the other was left for relu-symmetry"


@pytest.mark.parametrize("kind", ["cnn", "gcnn", "pgcnn"])
def test_published_sizes(kind):
    published = {"cnn": 9_225_610, "gcnn": 4_612_810, "pgcnn": 9_187_786}
    from intertwine.models import GVGG11, VGG11

    with torch.device("meta"):
        mirrored = KINDS[kind][1]
        network = GVGG11(mirrored=mirrored) if mirrored else VGG11()
    assert sum(p.numel() for p in network.parameters()) == published[kind]


def test_the_loss_begins_late_and_the_count_is_saved():
    torch.manual_seed(0)
    model = Counted(nn.Sequential(nn.Flatten(), nn.Linear(48, 3)))
    x, y = torch.rand(4, 3, 4, 4), torch.tensor([0, 1, 2, 0])
    loss = loss_of(1.0, after=2)
    plain = nn.functional.cross_entropy(model(x), y)
    torch.testing.assert_close(loss(model, (x, y)), plain)
    torch.testing.assert_close(loss(model, (x, y)), plain)
    torch.testing.assert_close(loss(model, (x, y)), plain + invariance_loss(model, x, "hflip"))  # Φ(x) once, or twice
    assert int(model.state_dict()["steps"]) == 3


def test_published_networks_at_their_smallest(tmp_path):
    done = execute(JobSpec("relu-imagenet", "old-225", "smoke", 0, str(tmp_path)))
    assert done.state == "finished", done.error
    assert {metric.name for metric in experiment_named("relu-imagenet").metrics} <= set(done.metrics)


def test_missing_weights_are_named(tmp_path):
    failed = execute(JobSpec("relu-imagenet", "old", "paper", 0, str(tmp_path), str(tmp_path)))
    assert failed.state == "failed"
    assert "resnet50-old.pth" in failed.error


@pytest.mark.slow
def test_a_resnet_50_and_class_folders(tmp_path):
    """The path of the published setting, on few small images and weights that nobody trained."""
    generator = np.random.default_rng(0)
    for part in ("train", "val"):
        for name in ("cat", "dog"):
            folder = tmp_path / "imagenet" / part / name
            folder.mkdir(parents=True)
            for k in range(4):
                pixels = generator.integers(0, 255, (80, 70, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{k}.png")
    torch.manual_seed(0)
    model = load_network("timm:resnet50").model
    (tmp_path / "weights").mkdir()
    torch.save(
        {"state_dict": {f"module.{k}": v for k, v in model.state_dict().items()}}, tmp_path / "weights/resnet50-old.pth"
    )
    overrides = {"size": 64, "matched_images": 8, "test_images": 8, "batch_size": 8}
    done = execute(JobSpec("relu-imagenet", "old", "paper", 0, str(tmp_path / "results"), str(tmp_path), overrides))
    assert done.state == "finished", done.error
    assert done.metrics["layers_that_cannot_commute"] > 0
