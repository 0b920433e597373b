"""Keller & Welling 2021 on dSprites: the settings and the published numbers.

The paper's CapCorr is 1 for long windows, lower for short ones and at chance for the baselines. The same is true of
latents drawn from the prior, without any network or data. The evidence of learning is the traversal gap: how well the
rolled latents of the first frame describe frames that they have never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi

import torch
from torch import Tensor

from ..._figures import Figure
from ...data import DSPRITES, FactorGrid, FactorSequences, SpriteImages, load, part_of_grid
from ...measure.metrics import capsule_correlation
from ..lab._experiment import Experiment, ExperimentRow, FinishedRun, Job, Metric, Ordering, Published
from ._figures import traversal_figures
from ._metrics import ERROR, GAP, METRICS, with_nulls
from ._network import topology_of
from ._run import run_row

FACTORS = {"x": "position x", "y": "position y", "orientation": "orientation", "scale": "scale"}

_CORRELATIONS = tuple(
    metric
    for factor, name in FACTORS.items()
    for suffix, note in (
        ("", ""),
        ("_circular", ", with the correlation of angles"),
        ("_disjoint", ", for frames that share no variable"),
        ("_pairs", ", over all pairs of frames, our reading of the equation"),
    )
    for metric in with_nulls(Metric(f"capcorr_{factor}{suffix}", "", "higher", f"CapCorr of {name}{note}"), prior=True)
)

# X, Y, orientation and scale: CapCorr, then the equivariance error; spreads over three initializations. The paper says
# that its BubbleVAE has the window 2S/3; the published code has S/3, so the numbers may belong to that.
_TABLE: dict[str, tuple[tuple[float, float | None], ...]] = {
    "half": ((1.0, None), (1.0, None), (1.0, None), (1.0, None), (344, 5)),
    "third": ((1.0, None), (1.0, None), (1.0, None), (1.0, None), (1034, 6)),
    "sixth": ((0.67, 0.02), (0.66, 0.02), (0.52, 0.01), (0.42, 0.01), (2549, 38)),
    "zero": ((0.17, 0.03), (0.21, 0.02), (0.09, 0.01), (0.51, 0.01), (2971, 9)),
    "bubble": ((0.13, 0.01), (0.12, 0.01), (0.10, 0.01), (0.50, 0.0), (1951, 34)),
    "vae": ((0.18, 0.01), (0.16, 0.01), (0.11, 0.0), (0.52, 0.0), (6934, 0)),
}
_TITLES = {
    "half": "TVAE, window S",
    "third": "TVAE, window 2S/3",
    "sixth": "TVAE, window S/3",
    "zero": "TVAE, no window in time",
    "bubble": "BubbleVAE, window 2S/3",
    "bubble-code": "BubbleVAE, window S/3, as in the published code",
    "vae": "VAE",
}
_NEIGHBORS: dict[str, dict[str, object]] = {
    "half": {"kind": "shifting", "window": 1.0, "width": 1, "band": 0, "eps": 1e-6},
    "third": {"kind": "shifting", "window": 2 / 3, "width": 1, "band": 0, "eps": 1e-6},
    "sixth": {"kind": "shifting", "window": 1 / 3, "width": 1, "band": 0, "eps": 1e-6},
    "zero": {"kind": "stationary", "window": 0.0, "width": 3, "band": 0, "eps": 1e-3},
    "bubble": {"kind": "stationary", "window": 2 / 3, "width": 1 / 3, "band": 0, "eps": 1e-6},
    "bubble-code": {"kind": "stationary", "window": 1 / 3, "width": 1 / 3, "band": 0, "eps": 1e-6},
    "vae": {"kind": "vae", "window": 0.0, "width": 1, "band": 0, "eps": 1e-6},
}


def _row(name: str) -> ExperimentRow:
    names = [*(f"capcorr_{factor}" for factor in FACTORS), ERROR.name]
    published = {metric: Published(*numbers, 3) for metric, numbers in zip(names, _TABLE.get(name, ()), strict=False)}
    return ExperimentRow(name, _TITLES[name], _NEIGHBORS[name], published)


def run(job: Job) -> Mapping[str, float]:
    """Train one network on sequences of sprites and measure it with its nulls."""
    settings = job.settings
    sequences = _sprites(job)
    generator = torch.Generator().manual_seed(job.seed + 1)
    test: dict[str, tuple[Tensor, Tensor]] = {}
    for factor in FACTORS:
        column = sequences.grid.names.index(factor)
        chosen = torch.randint(len(sequences), (settings["sequences"],), generator=generator).tolist()
        pairs = [sequences.sequence(index, factor) for index in chosen]
        test[factor] = torch.stack([x for x, _ in pairs]), torch.stack([c[:, column] for _, c in pairs])
    topology, frames = topology_of(settings), settings["frames"]

    def shared(a: int, b: int) -> bool:
        if topology is None:
            return a == b
        reach = topology.reach(frames)
        return bool({(a + d) % frames for d in reach} & {(b + d) % frames for d in reach})

    def correlate(factor: str, t: Tensor, values: Tensor) -> dict[str, float]:
        name = f"capcorr_{factor}"
        correlations = {
            name: capsule_correlation(t, values),
            f"{name}_circular": capsule_correlation(t, values, variant="circular"),
            f"{name}_pairs": capsule_correlation(t, values, variant="pairs"),
            f"{name}_disjoint": capsule_correlation(t, values, variant="disjoint", shared=shared),
        }
        return {key: value for key, value in correlations.items() if value == value}  # without NaN

    shape = sequences.images.shape
    metrics = run_row(job, (shape[1], shape[2], shape[3]), sequences, test, correlate=correlate)
    known = {metric.name for metric in EXPERIMENT.metrics}
    return {key: value for key, value in metrics.items() if key in known}


def _sprites(job: Job) -> FactorSequences:
    """The paper's part of dSprites, or sprites on a coarser grid of the same extent."""
    settings = job.settings
    frames, size, moving = settings["frames"], settings["size"], tuple(FACTORS)
    if settings["data"] == "dsprites":
        data = load("dsprites", folder=job.data)
        if data.factors is None:
            raise TypeError("dSprites has factors")
        fifteen = range(0, 30, 2)
        return part_of_grid(
            data.train,
            data.factors,
            frames=frames,
            moving=moving,
            scale=range(1, 6),
            orientation=fifteen,
            x=fifteen,
            y=fifteen,
        )
    step = 28 / (frames - 1)
    sizes = settings["scales"]
    grid = FactorGrid(
        DSPRITES.names,
        (
            DSPRITES.values[0],
            tuple(0.6 + 0.4 * k / (sizes - 1) for k in range(sizes)),
            tuple(2 * pi * step * k / 39 for k in range(frames)),
            tuple(step * k / 31 for k in range(frames)),
            tuple(step * k / 31 for k in range(frames)),
        ),
    )
    source = SpriteImages(grid, (size, size))
    images = torch.cat([source.read(indices) for indices in torch.arange(len(grid)).split(1024)])
    return FactorSequences(images, grid, frames, moving, source.white)


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Traversals of every row."""
    return traversal_figures(runs, _TITLES)


_COMMON: dict[str, object] = {
    "shift": 30.0,
    "optimizer": "adam",
    "schedule": "constant",
    "lr": 1e-3,
    "batch_size": 16,
    "precision": "32",
}

EXPERIMENT = Experiment(
    name="tvae",
    title="Capsules that roll: sprites",
    reference="Keller & Welling 2021, Table 2",
    metrics=(*METRICS, *_CORRELATIONS),
    rows=tuple(_row(name) for name in _TITLES),
    scales={
        "smoke": {
            **_COMMON,
            "data": "sprites",
            "frames": 6,
            "scales": 2,
            "size": 12,
            "capsules": 4,
            "length": 6,
            "steps": 40,
            "sequences": 12,
            "likelihood_sequences": 8,
        },
        "quick": {
            **_COMMON,
            "data": "sprites",
            "frames": 12,
            "scales": 4,
            "size": 32,
            "capsules": 18,
            "length": 12,
            "steps": 3000,
            "sequences": 256,
            "likelihood_sequences": 256,
        },
        "small": {
            **_COMMON,
            "precision": "auto",
            "data": "sprites",
            "frames": 15,
            "scales": 5,
            "size": 32,
            "capsules": 15,
            "length": 15,
            "steps": 12_000,
            "schedule": "cosine",
            "batch_size": 8,
            "sequences": 256,
            "likelihood_sequences": 256,
        },
        "paper": {
            **_COMMON,
            "data": "dsprites",
            "frames": 15,
            "scales": 5,
            "size": 64,
            "capsules": 15,
            "length": 15,
            "steps": 632_800,
            "optimizer": "sgd",
            "lr": 1e-4,
            "batch_size": 8,
            "sequences": 1000,
            "likelihood_sequences": 500,
        },
    },
    seeds={"smoke": 1, "quick": 3, "small": 2, "paper": 3},
    orderings=(
        Ordering("half", "vae", GAP.name),
        Ordering("half", "bubble", GAP.name),
        Ordering("half", "zero", GAP.name),
        Ordering("third", "vae", GAP.name),
        Ordering("half", "sixth", "capcorr_x"),
        Ordering("sixth", "vae", "capcorr_x"),
        Ordering("half", "third", ERROR.name),
        Ordering("third", "vae", ERROR.name),
    ),
    run=run,
    data={"smoke": "rendered", "quick": "rendered", "small": "rendered", "paper": "dsprites"},
    figures=figures,
)
