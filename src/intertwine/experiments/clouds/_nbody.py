"""Charged particles: where are they 1,000 steps later?

The task of Fuchs et al. 2020 as Satorras, Hoogeboom & Welling 2021 set it up: five particles per system, 3,000 systems
for training, 2,000 for validation, 2,000 for the test. Published mean squared errors: tensor field network .0155,
SE(3)-Transformer .0244, EGNN .0071, SEGNN .0043 (Brandstetter et al. 2022). Our rows are residual networks of
``PointConv`` layers under O(3). In ``fixed``, all blocks see the particles where they are at the start, as in a tensor
field network. In ``moving``, each block moves the particles and changes their velocities, as in EGNN, and the next
block sees them there. The table shows two controls beside them: particles that stay where they are, and particles that
keep their velocity, times the best common factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...models import point_block
from ...nn import Linear
from ...spaces import Cloud3d
from ...train import seed_all
from ..lab._classifier import PARAMETERS
from ..lab._experiment import Experiment, ExperimentRow, Job, Metric, Ordering, Published
from ._charged import Trajectories, simulate
from ._pairs import all_pairs
from ._training import train_average

ERROR = Metric("test_error", "", "lower", "mean squared error of a coordinate of a position, 1,000 steps later")
LINEAR = Metric("linear_error", "", "lower", "the same along the velocity, times the best factor", beside=ERROR.name)
STILL = Metric("still_error", "", "lower", "the same if nothing moves", beside=ERROR.name)
_YZX, _XYZ = [1, 2, 0], [2, 0, 1]  # vectors as irreducibles of degree 1 are ordered (y, z, x)
_PAIR_FEATURES = 7
_NEAR = 0.05
"""Below this distance, the logarithm and the direction of a pair flatten out."""


class ParticleNetwork(nn.Module):
    """From charges, positions and velocities ``(systems, particles, ...)`` to later positions.

    Each block changes the velocities and adds a share of them to the positions. Charges enter only as products of
    pairs: with all charges reversed, the motion is the same.

    Args:
        scalars: hidden scalars.
        vectors: hidden vectors, and fields of each higher degree.
        degree: the highest degree.
        layers: the number of blocks.
        radius: the reach of the convolutions.
        moving: whether blocks see the positions and velocities that earlier blocks computed, or those at the start.
    """

    def __init__(self, *, scalars: int, vectors: int, degree: int, layers: int, radius: float, moving: bool) -> None:
        super().__init__()
        space = Cloud3d("O(3)")
        low = f"{scalars}*irrep0 + {vectors}*irrep1"
        hidden = space.field(" + ".join([low, *(f"{vectors}*irrep{l}" for l in range(2, degree + 1))]))
        self.moving = moving
        self.embedding = Linear(space.field("irrep0 + irrep1"), space.field(low))
        self.higher = hidden.dim - self.embedding.out_type.dim  # fields of degree 2 and more start at zero
        self.blocks = nn.ModuleList(
            point_block(hidden, radius=radius, neighbors=4.0, functions=16, edge_features=_PAIR_FEATURES)
            for _ in range(layers)
        )
        self.kicks = nn.ModuleList(Linear(hidden, space.field("2*irrep1")) for _ in range(layers))
        self.scale = nn.Parameter(torch.full((layers, 2), 0.1))

    def forward(self, charges: Tensor, positions: Tensor, velocities: Tensor) -> Tensor:
        """The positions after all blocks."""
        systems, particles = charges.shape
        edges = all_pairs(systems, particles, charges.device)
        q, x, v = charges.flatten(), positions.flatten(0, 1), velocities.flatten(0, 1)
        h = self.embedding(torch.cat([v.norm(dim=1, keepdim=True), v[:, _YZX]], 1))
        h = nn.functional.pad(h, (0, self.higher))
        seen = x, v
        for block, kick, scale in zip(self.blocks, self.kicks, self.scale, strict=True):
            h = block(h, seen[0], edges, _pair_features(q, *seen, edges))
            push, shift = kick(h).split(3, 1)
            v = v + scale[0] * push[:, _XYZ]
            x = x + v / len(self.blocks) + scale[1] * shift[:, _XYZ]
            seen = (x, v) if self.moving else seen
        return x.view(positions.shape)


def _pair_features(charges: Tensor, positions: Tensor, velocities: Tensor, edges: Tensor) -> Tensor:
    """What motions leave unchanged about a pair: charges, distance, and velocities along the line and to each other.

    The logarithm of the distance resolves the strong forces between close particles.
    """
    source, target = edges[0], edges[1]
    apart = positions[source] - positions[target]
    distance = apart.norm(dim=1, keepdim=True)
    line = apart / (distance + _NEAR)
    v, w = velocities[source], velocities[target]
    products = [(a * b).sum(1, keepdim=True) for a, b in ((v, line), (w, line), (v, w), (v, v), (w, w))]
    return torch.cat([(distance + _NEAR).log(), (charges[source] * charges[target])[:, None], *products], 1)


def squared_error(model: nn.Module, batch: Any) -> Tensor:
    """The mean over coordinates."""
    *inputs, later = batch
    return (model(*inputs) - later).square().mean()


def run(job: Job) -> Mapping[str, float]:
    """Train one network and test it."""
    s = job.settings
    train, val, test = (simulate(s[f"{name}_systems"], seed=seed) for seed, name in enumerate(("train", "val", "test")))
    seed_all(job.seed)
    model = ParticleNetwork(**{key: s[key] for key in ("scalars", "vectors", "degree", "layers", "radius", "moving")})
    train_average(job, model, squared_error, train.tensors(), val.tensors(), clip_norm=1.0)
    with torch.no_grad():
        error = float(squared_error(model, test.tensors()))
    return {
        ERROR.name: error,
        LINEAR.name: _linear_error(train, test),
        STILL.name: float((test.later - test.positions).square().mean()),
        PARAMETERS.name: sum(p.numel() for p in model.parameters()),
    }


def _linear_error(train: Trajectories, test: Trajectories) -> float:
    moved, v = train.later - train.positions, train.velocities
    factor = (moved * v).sum() / v.square().sum()
    return float((test.positions + factor * test.velocities - test.later).square().mean())


_DATA = {"train_systems": 3000, "val_systems": 2000, "test_systems": 2000}
_NETWORK = {
    "scalars": 32,
    "vectors": 16,
    "degree": 1,
    "layers": 4,
    "radius": 10.0,
    "batch_size": 100,
    "lr": 4e-3,
    "weight_decay": 0.3,
    "ema": 0.99,
}

EXPERIMENT = Experiment(
    name="nbody",
    title="Charged particles: steerable convolutions on point clouds",
    reference="Satorras, Hoogeboom & Welling 2021, table 2 (task of Fuchs et al. 2020)",
    metrics=(ERROR, LINEAR, STILL, PARAMETERS),
    rows=(
        ExperimentRow(
            "fixed",
            "the particles stay while the network computes (published: tensor field network)",
            {"moving": False},
            {ERROR.name: Published(0.0155)},
        ),
        ExperimentRow(
            "moving",
            "the network moves the particles (published: EGNN)",
            {"moving": True},
            {ERROR.name: Published(0.0071)},
        ),
    ),
    scales={
        "smoke": {
            **_NETWORK,
            "train_systems": 60,
            "val_systems": 20,
            "test_systems": 20,
            "epochs": 1,
            "batch_size": 30,
            "layers": 1,
            "ema": 0.5,
        },
        "small": {**_NETWORK, **_DATA, "epochs": 150},
        "paper": {**_NETWORK, **_DATA, "epochs": 10_000, "lr": 1e-3},
    },
    seeds={"smoke": 1, "small": 2, "paper": 3},
    orderings=(Ordering("moving", "fixed", ERROR.name),),
    run=run,
    data=dict.fromkeys(("smoke", "small", "paper"), "simulated"),
)
