"""Ethanol: energies and forces from positions.

Frames of molecular dynamics at 500 K with GFN2-xTB, a semi-empirical quantum-chemical method, from three independent
trajectories for training, validation and test. The network returns an energy, the sum over atoms of an invariant
number; the forces are its gradient. The rows differ in the highest degree of the hidden fields: with scalars alone, an
atom learns about its surroundings only through distances. There are no published numbers for these trajectories.
``benchmarks/molecules.py`` trains an e3nn network of the same size next to ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from ...models import point_network
from ...nn import Sequential
from ...spaces import Cloud3d
from ...train import seed_all
from ..lab._classifier import PARAMETERS
from ..lab._experiment import Experiment, ExperimentRow, Job, Metric, Ordering
from ._energy_network import EnergyModel, energy_and_force_loss, mean_absolute_errors, relative
from ._training import train_average
from ._trajectory import Trajectory, morse_cluster, quantum_trajectory

FORCES = Metric("force_error", "meV/Å", "lower", "mean absolute error of a component of a force")
ENERGY = Metric("energy_error", "meV", "lower", "mean absolute error of the energy")
MEAN_FORCE = Metric("mean_force", "meV/Å", "lower", "the same if all forces are zero", beside=FORCES.name)
_SPLITS = ("train", "val", "test")


def trajectories(job: Job) -> dict[str, Trajectory]:
    """The frames for training, validation and test, each from a trajectory of its own."""
    s = job.settings
    if s["molecule"] == "morse":
        return {name: morse_cluster(s[f"{name}_frames"], seed=seed) for seed, name in enumerate(_SPLITS)}
    return {
        name: quantum_trajectory(
            s["molecule"],
            s[f"{name}_frames"],
            every=s["every"],
            temperature=s["temperature"],
            seed=seed,
            folder=(job.data or job.folder) / "trajectories",
        )
        for seed, name in enumerate(_SPLITS)
    }


def energy_network(elements: int, *, scalars: int, fields: int, degree: int, layers: int, radius: float) -> Sequential:
    """A point network from elements to one invariant number per atom.

    Args:
        elements: the number of chemical elements.
        scalars: hidden scalars.
        fields: hidden fields of each degree from 1.
        degree: the highest degree.
        layers: the number of blocks.
        radius: the reach of the convolutions, in Å.
    """
    space = Cloud3d("O(3)")
    hidden = " + ".join([f"{scalars}*irrep0", *(f"{fields}*irrep{l}" for l in range(1, degree + 1))])
    return point_network(
        space.field(f"{elements}*irrep0"),
        space.field(hidden),
        space.field("irrep0"),
        layers=layers,
        radius=radius,
        neighbors=8.0,
        functions=16,
        basis="bessel",
    )


def run(job: Job) -> Mapping[str, float]:
    """Train one network and test it."""
    s = job.settings
    data = trajectories(job)
    train, val, test = (relative(data[name], data["train"]) for name in _SPLITS)
    numbers, scale = data["train"].numbers, float(data["train"].forces.std())
    seed_all(job.seed)
    sizes = {key: s[key] for key in ("scalars", "fields", "degree", "layers", "radius")}
    model = EnergyModel(energy_network(len(numbers.unique()), **sizes), numbers, scale)
    loss = partial(energy_and_force_loss, energy_weight=s["energy_weight"], scale=scale)
    train_average(job, model, loss, train, val, clip_norm=10.0)
    energy_error, force_error = mean_absolute_errors(model, test)
    return {
        FORCES.name: force_error,
        ENERGY.name: energy_error,
        MEAN_FORCE.name: 1e3 * float(torch.as_tensor(test[2]).abs().mean()),
        PARAMETERS.name: sum(p.numel() for p in model.parameters()),
    }


_RECIPE = {
    "temperature": 500.0,
    "every": 20,
    "radius": 5.0,
    "layers": 2,
    "batch_size": 10,
    "lr": 5e-3,
    "weight_decay": 1e-3,
    "ema": 0.99,
    "energy_weight": 0.1,
    "validate_every": 10,
}
_ETHANOL = {"molecule": "CH3CH2OH", "train_frames": 500, "val_frames": 200, "test_frames": 500}

EXPERIMENT = Experiment(
    name="molecules",
    title="Energies and forces of ethanol",
    reference="no publication; trajectories made with GFN2-xTB (Bannwarth, Ehlert & Grimme 2019)",
    metrics=(FORCES, ENERGY, MEAN_FORCE, PARAMETERS),
    rows=(
        ExperimentRow("degree0", "scalars", {"degree": 0, "scalars": 64, "fields": 0}),
        ExperimentRow("degree1", "scalars and vectors", {"degree": 1, "scalars": 32, "fields": 16}),
        ExperimentRow("degree2", "scalars, vectors and degree 2", {"degree": 2, "scalars": 32, "fields": 16}),
    ),
    scales={
        "smoke": {
            **_RECIPE,
            "molecule": "morse",
            "train_frames": 20,
            "val_frames": 10,
            "test_frames": 10,
            "epochs": 1,
            "layers": 1,
            "validate_every": 1,
            "ema": 0.5,
        },
        "small": {**_RECIPE, **_ETHANOL, "epochs": 60},
        "paper": {**_RECIPE, **_ETHANOL, "train_frames": 1000, "epochs": 1000, "layers": 3, "lr": 2e-3},
    },
    seeds={"smoke": 1, "small": 2, "paper": 3},
    orderings=(Ordering("degree1", "degree0", FORCES.name), Ordering("degree2", "degree1", FORCES.name)),
    run=run,
    data={"smoke": "Morse clusters", "small": "simulated with GFN2-xTB", "paper": "simulated with GFN2-xTB"},
)
