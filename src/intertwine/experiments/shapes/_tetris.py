"""Eight shapes of four cubes, of which two are mirror images: which one is it, at any orientation?

Thomas et al. (2018) test tensor field networks with this task: a network sees each shape in one orientation, and has to
recognize it at random rotations. Two of the eight shapes differ only by a reflection. Clouds have one point per cube,
voxels a Gaussian bump. An equivariant network on points needs no other orientation in training. On voxels, random
rotations cost the error of sampling, and quarter turns cost nothing. A plain network on voxels is the control.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from ... import nn as tnn
from ...groups import SO3, Octahedral, direct_sum
from ...models import point_network
from ...spaces import Cloud3d, Grid3d
from ...train import TrainConfig, deterministic_loader, fit, seed_all
from ..lab._classifier import PARAMETERS
from ..lab._experiment import Experiment, ExperimentRow, Job, Metric, Ordering

ROTATED = Metric("rotated", "%", "higher", "share of the shapes that are recognized at random rotations")
QUARTER = Metric("quarter_turns", "%", "higher", "the same at random quarter turns", beside=ROTATED.name)
SEEN = Metric("seen", "%", "higher", "the same in the orientation of training", beside=ROTATED.name)

SHAPES = torch.tensor(
    [
        [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 1, 0]],  # the next one is its mirror image
        [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, -1, 0]],
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],  # square
        [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3]],  # line
        [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]],  # corner
        [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0]],  # L
        [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 1]],  # T
        [[0, 0, 0], [1, 0, 0], [1, 1, 0], [2, 1, 0]],  # zigzag
    ],
    dtype=torch.float32,
)
_SIZE, _SPACING, _WIDTH = 13, 2.0, 1.2  # of the voxel array, of neighboring cubes and of a bump, in voxels


def rotated_shapes(rotations: Tensor) -> Tensor:
    """The centers of the cubes of all shapes at each rotation, about their mean: ``(rotations, 8, 4, 3)``."""
    centered = SHAPES - SHAPES.mean(1, keepdim=True)
    return torch.einsum("nij,spj->nspi", rotations.to(centered), centered)


def voxels(points: Tensor) -> Tensor:
    """Gaussian bumps at the points ``(..., 4, 3)``: ``(..., 1, 13, 13, 13)``."""
    samples = Grid3d("O").coordinates((_SIZE,) * 3).to(points)
    distance = torch.cdist(samples.reshape(-1, 3).expand(*points.shape[:-2], -1, 3), _SPACING * points)
    bumps = torch.exp(-distance.square() / (2 * _WIDTH**2)).sum(-1)
    return bumps.unflatten(-1, (1, *samples.shape[:-1]))


class CloudClassifier(nn.Module):
    """Scores of shapes given as points ``(batch, 4, 3)``."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        space = Cloud3d("SO(3)")  # with reflections, mirror images would be the same shape
        hidden = space.field("8*irrep0 + 8*irrep1 + 4*irrep2")
        scalars = space.field("16*irrep0")
        self.points = point_network(space.field("irrep0"), hidden, scalars, layers=3, radius=2.5, neighbors=3.0)
        self.pool = tnn.CloudPool(scalars)
        self.head = nn.Sequential(nn.SiLU(), nn.Linear(scalars.dim, classes))

    def forward(self, points: Tensor) -> Tensor:
        """The class scores."""
        batch, n, _ = points.shape
        flat = points.flatten(0, 1)
        edges = tnn.radius_graph(flat, 2.5, batch=torch.arange(batch).repeat_interleave(n))
        x = self.points(flat.new_ones(len(flat), 1), flat, edges)
        return self.head(self.pool(x, torch.full((batch,), n)))


def voxel_network(kind: str, classes: int) -> nn.Module:
    """A classifier of voxels: regular fields of the rotations of the cube, irreducibles of SO(3), or plain."""
    if kind == "plain":
        return nn.Sequential(
            *(nn.Conv3d(1, 12, 5, padding=2), nn.BatchNorm3d(12), nn.ReLU(), nn.AvgPool3d(3, stride=2, padding=1)),
            *(nn.Conv3d(12, 24, 5, padding=2), nn.BatchNorm3d(24), nn.ReLU(), nn.AdaptiveAvgPool3d(1)),
            *(nn.Flatten(), nn.Linear(24, classes)),
        )
    space = Grid3d(Octahedral() if kind == "octahedral" else SO3())
    field = space.field("trivial")
    layers: list[tnn.Layer] = []
    for width in (3, 6):
        if kind == "octahedral":
            after = space.field(f"{width}*regular")
            nonlinearity: tnn.Layer = tnn.ReLU(after)
        else:
            one = space.field("2*irrep0 + 2*irrep1 + irrep2").rho
            nonlinearity = tnn.Gated(space.field(direct_sum([one] * width)))
        layers += [
            tnn.Conv3d(field, nonlinearity.in_type, 5, padding=2, bias=False),
            tnn.BatchNorm(nonlinearity.in_type),
            nonlinearity,
        ]
        field = nonlinearity.out_type
        if width == 3:
            layers.append(tnn.AvgPool3d(field, 3, stride=2, padding=1))
    scalars = space.field("24*trivial")
    layers += [tnn.Conv3d(field, scalars, 3, padding=1, bias=False), tnn.BatchNorm(scalars), tnn.ReLU(scalars)]
    return nn.Sequential(*layers, tnn.GlobalPool(scalars), nn.Linear(scalars.dim, classes))


def run(job: Job) -> Mapping[str, float]:
    """Train on one orientation per shape, and test on others."""
    s = job.settings
    seed_all(job.seed)
    on_points = s["network"] == "cloud"
    model = CloudClassifier(len(SHAPES)) if on_points else voxel_network(s["network"], len(SHAPES))

    def prepared(rotations: Tensor) -> tuple[Tensor, Tensor]:
        shapes = rotated_shapes(rotations).flatten(0, 1)
        return (shapes if on_points else voxels(shapes)), torch.arange(len(SHAPES)).repeat(len(rotations))

    seen = prepared(torch.eye(3)[None])
    config = TrainConfig(
        epochs=s["steps"], batch_size=len(SHAPES), optimizer="adam", lr=s["lr"], schedule="cosine", seed=job.seed
    )
    fit(
        model,
        lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        deterministic_loader(TensorDataset(*seen), len(SHAPES), seed=job.seed, shuffle=True),
        config,
        folder=job.folder / "fit",
        loggers=job.loggers(),
        about={"row": job.row, **s},
        progress=job.progress,
    )
    noise = torch.Generator().manual_seed(1000 + job.seed)
    cube = Grid3d("O")
    turns = cube.action(torch.randint(24, (s["tests"],), generator=noise))
    tests = {SEEN: seen, ROTATED: prepared(SO3().sample(s["tests"], noise)), QUARTER: prepared(turns)}
    scores = {metric.name: 100 * _accuracy(model, *test) for metric, test in tests.items()}
    return {**scores, PARAMETERS.name: sum(p.numel() for p in model.parameters())}


@torch.no_grad()
def _accuracy(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    model.eval()
    correct = sum(
        int((model(part).argmax(1) == answer).sum()) for part, answer in zip(x.split(64), labels.split(64), strict=True)
    )
    return correct / len(labels)


EXPERIMENT = Experiment(
    name="tetris",
    title="Shapes of four cubes: orientations never seen in training",
    reference="Thomas et al. 2018, section 6 (the task)",
    metrics=(ROTATED, QUARTER, SEEN, PARAMETERS),
    rows=(
        ExperimentRow("plain", "plain network on voxels", {"network": "plain"}),
        ExperimentRow(
            "octahedral", "voxels, regular fields of the cube (Winkels & Cohen 2018)", {"network": "octahedral"}
        ),
        ExperimentRow("so3", "voxels, irreducibles of SO(3) (Weiler et al. 2018)", {"network": "so3"}),
        ExperimentRow("cloud", "points, irreducibles of SO(3) (Thomas et al. 2018)", {"network": "cloud"}),
    ),
    scales={
        "smoke": {"steps": 2, "tests": 2, "lr": 1e-2},
        "small": {"steps": 200, "tests": 50, "lr": 1e-2},
        "paper": {"steps": 1000, "tests": 1000, "lr": 5e-3},
    },
    seeds={"smoke": 1, "small": 3, "paper": 3},
    orderings=(Ordering("cloud", "plain", ROTATED.name), Ordering("octahedral", "plain", QUARTER.name)),
    run=run,
    data=dict.fromkeys(("smoke", "small", "paper"), "computed"),
)
