"""Energies and forces of ethanol: our network next to an e3nn network of the same size, trained for the same time.

Run as ``python benchmarks/molecules.py [--seconds 300] [--degree 2] [--seeds 2]``. It needs ``ase``, ``tblite`` and
``e3nn``. Both networks have the same hidden fields, blocks, radial basis, cutoff, optimizer, loss and batches. The
blocks are alike: a convolution over the edges plus a linear map of the atom, gates, a linear map, and a shortcut. They
differ in the convolution:

- ours: ``tw.nn.PointConv``, in the frame of each edge;
- e3nn: a linear map, ``TensorProduct`` with harmonics copy by copy ("uvu") with weights from a radial network, and a
  linear map of the sums, as in interatomic potentials. Its radial network is ours, as wide as makes the numbers of
  weights agree.

Steps alternate. Each side stops when it has used its CPU seconds on one thread; the learning rate follows a cosine of
the used time. ``--lr-ours`` and ``--lr-e3nn`` set the learning rates, ``--validate`` prints errors on the validation
frames instead of the test frames, for tuning.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path

import torch
from _timing import write_result
from e3nn import nn as e3nn_nn
from e3nn import o3
from torch import Tensor, nn

from intertwine.experiments.clouds._energy_network import (
    EnergyModel,
    energy_and_force_loss,
    mean_absolute_errors,
    relative,
)
from intertwine.experiments.clouds._molecules import energy_network
from intertwine.experiments.clouds._trajectory import quantum_trajectory
from intertwine.nn.clouds._radial import RadialNetwork
from intertwine.train import Ema

FUNCTIONS, NEIGHBORS, BATCH, WARMUP = 16, 8.0, 10, 0.05


class E3nnConv(nn.Module):
    """From fields to fields over the edges."""

    def __init__(self, inputs: o3.Irreps, outputs: o3.Irreps, degree: int, radius: float, width: int) -> None:
        super().__init__()
        self.harmonics = o3.Irreps.spherical_harmonics(degree)
        known = {irrep for _, irrep in outputs}
        paths = [
            (i, j, n, irrep)
            for i, (n, a) in enumerate(inputs)
            for j, (_, b) in enumerate(self.harmonics)
            for irrep in a * b
            if irrep in known
        ]
        products = o3.Irreps([(n, irrep) for _, _, n, irrep in paths])
        rules = [(i, j, number, "uvu", True) for number, (i, j, _, _) in enumerate(paths)]
        self.before = o3.Linear(inputs, inputs)
        self.product = o3.TensorProduct(
            inputs, self.harmonics, products, rules, shared_weights=False, internal_weights=False
        )
        self.after = o3.Linear(products.simplify(), outputs, biases=True)
        self.radial = RadialNetwork(
            self.product.weight_numel, radius=radius, basis="bessel", functions=FUNCTIONS, hidden=(width,)
        )

    def forward(self, x: Tensor, positions: Tensor, edges: Tensor) -> Tensor:
        vectors = positions[edges[0]] - positions[edges[1]]
        harmonics = o3.spherical_harmonics(self.harmonics, vectors, True, "component")
        sent = self.product(self.before(x)[edges[0]], harmonics, self.radial(vectors.norm(dim=1)))
        return self.after(sent.new_zeros(len(x), sent.shape[1]).index_add(0, edges[1], sent)) / math.sqrt(NEIGHBORS)


class E3nnBlock(nn.Module):
    """h + linear(gates(convolution(h) + linear(h)))."""

    def __init__(self, hidden: o3.Irreps, degree: int, radius: float, width: int) -> None:
        super().__init__()
        scalars = o3.Irreps([(n, irrep) for n, irrep in hidden if irrep.l == 0])
        others = o3.Irreps([(n, irrep) for n, irrep in hidden if irrep.l > 0])
        gates = o3.Irreps([(others.num_irreps, "0e")])
        if others.num_irreps:
            self.gate = e3nn_nn.Gate(scalars, [nn.functional.silu], gates, [torch.sigmoid], others)
            inside = self.gate.irreps_in
        else:
            self.gate, inside = e3nn_nn.Activation(scalars, [nn.functional.silu]), scalars
        self.conv = E3nnConv(hidden, inside, degree, radius, width)
        self.itself = o3.Linear(hidden, inside, biases=True)
        self.mix = o3.Linear(hidden, hidden, biases=True)

    def forward(self, x: Tensor, positions: Tensor, edges: Tensor) -> Tensor:
        return x + self.mix(self.gate(self.conv(x, positions, edges) + self.itself(x)))


class E3nnNetwork(nn.Module):
    """Like ``intertwine.models.point_network``."""

    def __init__(self, elements: int, hidden: o3.Irreps, degree: int, layers: int, radius: float, width: int) -> None:
        super().__init__()
        inputs, scalars = o3.Irreps([(elements, "0e")]), o3.Irreps([hidden[0]])
        self.conv = E3nnConv(inputs, hidden, degree, radius, width)
        self.itself = o3.Linear(inputs, scalars, biases=True)
        self.first = o3.Linear(scalars + hidden, hidden, biases=True)
        self.blocks = nn.ModuleList(E3nnBlock(hidden, degree, radius, width) for _ in range(layers))
        self.last = o3.Linear(hidden, o3.Irreps("0e"), biases=True)

    def forward(self, x: Tensor, positions: Tensor, edges: Tensor) -> Tensor:
        h = self.first(torch.cat([self.itself(x), self.conv(x, positions, edges)], 1))
        for block in self.blocks:
            h = block(h, positions, edges)
        out: Tensor = self.last(h)
        return out


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def e3nn_of_size(size: int, elements: int, scalars: int, fields: int, degree: int, layers: int, radius: float):
    """The e3nn network whose number of weights is closest, by the width of its radial networks."""
    hidden = o3.Irreps([(scalars, "0e"), *((fields, (l, (-1) ** l)) for l in range(1, degree + 1))])

    def make(width: int) -> E3nnNetwork:
        return E3nnNetwork(elements, hidden, degree, layers, radius, width)

    low, high = (parameters(make(width)) for width in (8, 9))
    return make(max(4, 8 + round((size - low) / (high - low))))


class Side:
    """One network in training, with its own clock."""

    def __init__(self, name: str, model: EnergyModel, lr: float, options: argparse.Namespace) -> None:
        self.name, self.model, self.lr, self.used, self.steps = name, model, lr, 0.0, 0
        self.budget, self.weight = options.seconds, options.energy_weight
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=options.weight_decay)
        self.ema = Ema(model, 0.99)

    def step(self, batch: tuple[Tensor, ...]) -> None:
        begun, done = time.process_time(), self.used / self.budget
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * min(1.0, done / WARMUP + 1e-3) * (1 + math.cos(math.pi * min(1.0, done))) / 2
        self.model.train()
        self.optimizer.zero_grad()
        energy_and_force_loss(self.model, batch, energy_weight=self.weight, scale=self.model.scale).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
        self.optimizer.step()
        self.ema.update()
        self.used += time.process_time() - begun
        self.steps += 1

    @property
    def running(self) -> bool:
        return self.used < self.budget

    def errors(self, frames: tuple[Tensor, ...]) -> tuple[float, float]:
        with self.ema.applied():
            return mean_absolute_errors(self.model, frames)


def train(options: argparse.Namespace, seed: int) -> list[Side]:
    names = {"train": options.frames, "val": 200, "test": 500}
    data = {
        name: quantum_trajectory(
            "CH3CH2OH", count, every=20, temperature=500.0, seed=number, folder=Path(options.trajectories)
        )
        for number, (name, count) in enumerate(names.items())
    }
    frames = {name: relative(part, data["train"]) for name, part in data.items()}
    numbers, scale = data["train"].numbers, float(data["train"].forces.std())
    elements, degree = len(numbers.unique()), options.degree
    shape = {"scalars": options.scalars, "fields": options.fields, "degree": degree, "layers": 2, "radius": 5.0}
    torch.manual_seed(seed)
    ours = energy_network(elements, **shape)
    peer = e3nn_of_size(parameters(ours), elements, **shape)
    sides = [
        Side("ours", EnergyModel(ours, numbers, scale), options.lr_ours, options),
        Side("e3nn", EnergyModel(peer, numbers, scale), options.lr_e3nn, options),
    ]
    for side in sides:  # code that is generated at the first steps is not training
        for _ in range(3):
            few = tuple(part[:BATCH] for part in frames["val"])
            energy_and_force_loss(side.model, few, energy_weight=1.0, scale=scale).backward()
    noise = torch.Generator().manual_seed(seed)
    while any(side.running for side in sides):
        for rows in torch.randperm(options.frames, generator=noise).split(BATCH):
            for side in sides:
                if side.running:
                    side.step(tuple(part[rows] for part in frames["train"]))
    for side in sides:
        side.energy, side.force = side.errors(frames["val" if options.validate else "test"])  # type: ignore[attr-defined]
    return sides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--scalars", type=int, default=32)
    parser.add_argument("--fields", type=int, default=16)
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--lr-ours", type=float, default=5e-3)
    parser.add_argument("--lr-e3nn", type=float, default=1e-2)
    parser.add_argument("--weight-decay", type=float, default=1e-3)
    parser.add_argument("--energy-weight", type=float, default=0.1)
    parser.add_argument("--trajectories", default="trajectories")
    parser.add_argument("--validate", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in range(options.seeds):
        for side in train(options, seed):
            row = {
                "seed": seed,
                "network": side.name,
                "weights": parameters(side.model),
                "steps": side.steps,
                "milliseconds_per_step": 1e3 * side.used / side.steps,
                "energy_meV": side.energy,  # type: ignore[attr-defined]
                "force_meV_per_A": side.force,  # type: ignore[attr-defined]
            }
            print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
            rows.append(row)
    for name in ("ours", "e3nn"):
        mine = [row for row in rows if row["network"] == name]
        means = {key: statistics.mean(row[key] for row in mine) for key in ("energy_meV", "force_meV_per_A")}
        print(name, means)
    if not options.validate:
        write_result(f"molecules-degree{options.degree}", {"options": vars(options), "rows": rows})


if __name__ == "__main__":
    main()
