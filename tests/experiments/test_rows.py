"""The networks that train the rows of the classification: types on the plane, shapes in space, digits on the sphere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from intertwine.experiments import experiment_named
from intertwine.experiments.classics._large_network import LargeNetwork
from intertwine.experiments.classics._plane_types import plane_network
from intertwine.experiments.lab._runner import execute, jobs_of
from intertwine.experiments.shapes._tetris import SHAPES, CloudClassifier, rotated_shapes, voxel_network, voxels
from intertwine.groups import SO3, parse_finite
from intertwine.spaces import Grid3d
from intertwine.testing import assert_equivariant

KINDS = {row.settings["fields"]: row for row in experiment_named("rotated-mnist").rows if "fields" in row.settings}


@pytest.mark.parametrize("kind", KINDS)
def test_networks_on_the_plane_keep_their_claim(kind: str) -> None:
    torch.manual_seed(0)
    net = plane_network(kind, 1, 10, widths=(2, 2, 2))
    size = 17 if kind == "c6-hexagonal" else 16
    assert_equivariant(net.features, size=size)
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


@pytest.mark.parametrize("group", ["C8", "D8"])
def test_the_larger_network_ignores_quarter_turns(group: str) -> None:
    """Exactly; a mirrored digit may have another class, also for the group that has mirrors inside."""
    torch.manual_seed(0)
    net = LargeNetwork(parse_finite(group), 1, 10, widths=(2, 2, 2, 2, 3), dropout=0.3).double().eval()
    x = torch.randn(3, 1, 28, 28, dtype=torch.float64)
    before = net(x)
    torch.testing.assert_close(net(x.rot90(1, (-2, -1))), before, rtol=0, atol=1e-10)
    assert float((net(x.flip(-1)) - before).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_have_about_as_many_weights(kind: str) -> None:
    net = plane_network(kind, 1, 10, widths=KINDS[kind].settings["widths"])
    assert 26_000 < sum(p.numel() for p in net.parameters()) < 33_000


def test_two_shapes_are_mirror_images_and_no_others() -> None:
    """Sorted distances tell all shapes apart, except the first two, which differ by the sign of a volume."""
    distances = torch.stack([torch.pdist(shape).sort().values for shape in SHAPES])
    same = [(a, b) for a in range(8) for b in range(a) if torch.equal(distances[a], distances[b])]
    assert same == [(1, 0)]
    volumes = [float(torch.linalg.det(SHAPES[k, [0, 1, 3]] - SHAPES[k, 2])) for k in (0, 1)]
    assert volumes[0] == -volumes[1] != 0


def test_points_are_recognized_at_any_rotation() -> None:
    torch.manual_seed(0)
    net = CloudClassifier(8).double()
    before = net(rotated_shapes(torch.eye(3)[None])[0].double())
    turns = SO3().sample(3, torch.Generator().manual_seed(0))
    for shapes in rotated_shapes(turns).double():  # the shapes are stored in single precision
        torch.testing.assert_close(net(shapes), before, rtol=0, atol=1e-4)


def test_voxels_are_recognized_at_any_quarter_turn() -> None:
    torch.manual_seed(0)
    net = voxel_network("octahedral", 8).eval()
    before = net(voxels(rotated_shapes(torch.eye(3)[None])[0]))
    turned = voxels(rotated_shapes(Grid3d("O").action(torch.tensor([7])))[0])
    torch.testing.assert_close(net(turned), before, rtol=1e-3, atol=1e-3)
    plain = voxel_network("plain", 8).eval()
    difference = plain(turned) - plain(voxels(rotated_shapes(torch.eye(3)[None])[0]))
    assert float(difference.detach().abs().max()) > 1e-3


@pytest.mark.parametrize(("name", "row"), [("tetris", "cloud"), ("spherical-digits", "spins-upright")])
def test_a_run_from_start_to_end(name: str, row: str, tmp_path: Path) -> None:
    experiment = experiment_named(name)
    [job] = jobs_of(experiment, "smoke", results=tmp_path, only=[row], seeds=1)
    metrics = execute(job).metrics
    assert {metric.name for metric in experiment.metrics} == set(metrics)
