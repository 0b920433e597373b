"""The experiments on symmetries of trained ReLU networks, at their smallest."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from intertwine.experiments import JobSpec, Panels, Table, execute, experiment_named, finished_runs
from intertwine.experiments._relu import KINDS, Counted, loss_of
from intertwine.measure import invariance_loss

QUICK = {"images": 50, "matched_images": 40}


def test_every_row(tmp_path):
    experiment = experiment_named("relu-symmetry")
    assert [row.name for row in experiment.rows] == list(KINDS)
    for name in ("cnn", "gcnn", "pgcnn-late"):
        done = execute(JobSpec("relu-symmetry", name, "smoke", 0, str(tmp_path), None, QUICK))
        assert done.state == "finished", done.error
        assert {metric.name for metric in experiment.metrics} <= set(done.metrics)
        if name == "gcnn":
            assert done.metrics["invariance_error"] < 1e-5
            assert done.metrics["order_two_or_less"] == 1.0


def test_figures(tmp_path):
    experiment = experiment_named("relu-symmetry")
    assert execute(JobSpec("relu-symmetry", "gcnn", "smoke", 0, str(tmp_path))).state == "finished"
    pictures = experiment.figures(finished_runs(experiment, "smoke", results=tmp_path))
    assert [type(figure) for figure in pictures] == [Panels, Table]
    own, moved = (torch.stack([panel.values for panel in panels]) for _, panels in pictures[0].rows)
    torch.testing.assert_close(own, moved, msg="the partners of a GCNN are the filters themselves")


def test_two_networks(tmp_path):
    done = execute(JobSpec("relu-pairs", "cnn+gcnn", "smoke", 0, str(tmp_path), None, QUICK))
    assert done.state == "finished", done.error
    assert {"barrier", "first_accuracy", "second_accuracy"} <= set(done.metrics)


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
    torch.testing.assert_close(loss(model, (x, y)), plain + invariance_loss(model, x, "hflip"))
    assert int(model.state_dict()["steps"]) == 3
