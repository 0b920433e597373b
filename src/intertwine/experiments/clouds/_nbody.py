"""Charged particles: where are they 1,000 steps later?

The task of Fuchs et al. 2020 as Satorras, Hoogeboom & Welling 2021 set it up: five particles per system, 3,000 systems
for training, 2,000 for validation, 2,000 for the test. Published mean squared errors: tensor field network .0155,
SE(3)-Transformer .0244, EGNN .0071, SEGNN .0043 (Brandstetter et al. 2022). Our rows are residual networks of
``PointConv`` layers under O(3), with scalars and vectors, or with degree 2 as well. The table shows two controls beside
them: particles that stay where they are, and particles that keep their velocity, times the best common factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from ...models import point_network
from ...spaces import Cloud3d
from ...train import TrainConfig, deterministic_loader, fit, seed_all
from ..lab._classifier import PARAMETERS
from ..lab._experiment import Experiment, ExperimentRow, Job, Metric, Ordering, Published
from ._charged import Trajectories, simulate

ERROR = Metric("test_error", "", "lower", "mean squared error of a coordinate of a position, 1,000 steps later")
LINEAR = Metric("linear_error", "", "lower", "the same along the velocity, times the best factor", beside=ERROR.name)
STILL = Metric("still_error", "", "lower", "the same if nothing moves", beside=ERROR.name)
_YZX, _XYZ = [1, 2, 0], [2, 0, 1]  # vectors as irreducibles of degree 1 are ordered (y, z, x)


class ParticleNetwork(nn.Module):
    """From charges, positions and velocities ``(systems, particles, ...)`` to later positions."""

    def __init__(self, *, scalars: int, vectors: int, degree: int, layers: int, radius: float) -> None:
        super().__init__()
        space = Cloud3d("O(3)")
        hidden = " + ".join([f"{scalars}*irrep0", *(f"{vectors}*irrep{l}" for l in range(1, degree + 1))])
        self.network = point_network(
            space.field("2*irrep0 + 2*irrep1"),
            space.field(hidden),
            space.field("irrep1"),
            layers=layers,
            radius=radius,
            neighbors=4.0,
            functions=16,
        )
        self.drift = nn.Parameter(torch.tensor(0.8))
        self.scale = nn.Parameter(torch.tensor(0.3))

    def forward(self, charges: Tensor, positions: Tensor, velocities: Tensor) -> Tensor:
        """Positions plus a drift along the velocities plus what the network says."""
        center = positions - positions.mean(1, keepdim=True)
        speed = velocities.norm(dim=-1, keepdim=True)
        features = torch.cat([charges[..., None], speed, velocities[..., _YZX], center[..., _YZX]], -1)
        systems, particles = charges.shape
        edges = _all_pairs(systems, particles, charges.device)
        out = self.network(features.flatten(0, 1), positions.flatten(0, 1), edges)
        return positions + self.drift * velocities + self.scale * out[:, _XYZ].view(positions.shape)


def _all_pairs(systems: int, particles: int, device: torch.device) -> Tensor:
    """Edges between all particles of each system."""
    pairs = torch.cartesian_prod(torch.arange(particles), torch.arange(particles)).T
    pairs = pairs[:, pairs[0] != pairs[1]].to(device)
    first = particles * torch.arange(systems, device=device)
    return (pairs[:, None] + first[None, :, None]).flatten(1)


def squared_error(model: nn.Module, batch: Any) -> Tensor:
    """The mean over coordinates."""
    *inputs, later = batch
    return (model(*inputs) - later).square().mean()


def run(job: Job) -> Mapping[str, float]:
    """Train one network and test it."""
    s = job.settings
    train, val, test = (simulate(s[f"{name}_systems"], seed=seed) for seed, name in enumerate(("train", "val", "test")))
    seed_all(job.seed)
    model = ParticleNetwork(**{key: s[key] for key in ("scalars", "vectors", "degree", "layers", "radius")})
    config = TrainConfig(
        epochs=s["epochs"],
        batch_size=s["batch_size"],
        optimizer="adamw",
        lr=s["lr"],
        weight_decay=s["weight_decay"],
        schedule="cosine",
        warmup_steps=s["epochs"] * (s["train_systems"] // s["batch_size"]) // 20,
        clip_norm=1.0,
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
    )
    fit(
        model,
        squared_error,
        deterministic_loader(TensorDataset(*train.tensors()), s["batch_size"], seed=job.seed, shuffle=True),
        config,
        folder=job.folder / "fit",
        val_loader=deterministic_loader(TensorDataset(*val.tensors()), 500, seed=job.seed, shuffle=False),
        loggers=job.loggers(),
        about={"row": job.row, **s},
        progress=job.progress,
    )
    model.eval()
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


EXPERIMENT = Experiment(
    name="nbody",
    title="Charged particles: steerable convolutions on point clouds",
    reference="Satorras, Hoogeboom & Welling 2021, table 2 (task of Fuchs et al. 2020)",
    metrics=(ERROR, LINEAR, STILL, PARAMETERS),
    rows=(
        ExperimentRow(
            "degree1",
            "scalars and vectors (published: tensor field network)",
            {"scalars": 32, "vectors": 16, "degree": 1},
            {ERROR.name: Published(0.0155)},
        ),
        ExperimentRow("degree2", "scalars, vectors and degree 2", {"scalars": 32, "vectors": 12, "degree": 2}),
    ),
    scales={
        "smoke": {
            "train_systems": 60,
            "val_systems": 20,
            "test_systems": 20,
            "epochs": 1,
            "batch_size": 30,
            "layers": 1,
            "lr": 4e-3,
            "weight_decay": 1e-4,
            "radius": 8.0,
        },
        "small": {
            "train_systems": 3000,
            "val_systems": 2000,
            "test_systems": 2000,
            "epochs": 80,
            "batch_size": 100,
            "layers": 4,
            "lr": 4e-3,
            "weight_decay": 1e-4,
            "radius": 8.0,
        },
        "paper": {
            "train_systems": 3000,
            "val_systems": 2000,
            "test_systems": 2000,
            "epochs": 10_000,
            "batch_size": 100,
            "layers": 4,
            "lr": 1e-3,
            "weight_decay": 1e-4,
            "radius": 8.0,
        },
    },
    seeds={"smoke": 1, "small": 2, "paper": 3},
    orderings=(Ordering("degree2", "degree1", ERROR.name),),
    run=run,
    data=dict.fromkeys(("smoke", "small", "paper"), "simulated"),
)
