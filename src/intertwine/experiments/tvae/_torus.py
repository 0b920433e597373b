"""Keller & Welling 2021, Figure 3: digits laid out on a torus of latent variables.

Without sequences or labels, neighbors on the torus learn to respond to similar digits. The metrics say how similar, and
how much of that the shared variance gives before any training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._figures import Figure, Panel, Panels
from ...data import Split, TransformedSequences, load
from ...models import VAE, TopographicVAE
from ...topographic import TorusTopology
from ...train import seed_all
from ..lab._arrays import load_arrays, save_arrays
from ..lab._experiment import Experiment, ExperimentRow, FinishedRun, Job, Metric, Ordering
from ._measure import likelihoods
from ._metrics import ELBO, with_nulls
from ._network import latents_of
from ._run import train

AGREEMENT = Metric(
    "neighbor_agreement", "", "higher", "share of neighbors on the grid whose favorite images show the same digit"
)
DISTANT = Metric(
    "distant_agreement", "", "lower", "null: the same for random pairs of variables", beside=AGREEMENT.name
)
CORRELATION = Metric("neighbor_correlation", "", "higher", "mean correlation of t² of neighbors on the grid")


def _frame(image: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A sequence of one frame."""
    return image[None], torch.zeros(1, dtype=torch.int64)


def run(job: Job) -> Mapping[str, float]:
    """Train on single images, and find the image that excites each variable most."""
    settings = job.settings
    data = load(settings["data"], folder=job.data, download=job.download)
    images = data.train if settings["images"] is None else data.train.subset(settings["images"], seed=0)
    seed_all(job.seed)
    model, untrained = _build(settings, data.shape), _build(settings, data.shape)
    untrained.load_state_dict(model.state_dict())
    train(job, model, TransformedSequences(images.in_memory(), _frame))
    model.eval()
    test = data.test.subset(min(settings["sequences"], len(data.test)), seed=0)
    metrics, favorites = _measured(model, test, settings, job.seed)
    before, _ = _measured(untrained.eval(), test, settings, job.seed)
    frames = test.as_tensors()[0][: settings["likelihood_sequences"], None]
    save_arrays(job.folder, {"favorites": favorites})
    return {
        **metrics,
        **{f"{name}_untrained": before[name] for name in (AGREEMENT.name, CORRELATION.name)},
        ELBO.name: likelihoods(model, frames, seed=job.seed)[ELBO.name],
    }


def _build(settings: Mapping[str, Any], image: tuple[int, int, int]) -> VAE | TopographicVAE:
    side = settings["side"]
    options: dict[str, Any] = {"capsules": 1, "group": f"C{side} x C{side}"}  # its elements move along the torus
    if settings["kind"] == "vae":
        return VAE(image, **options)
    topology = TorusTopology(side, side, settings["width"])
    return TopographicVAE(image, **options, topology=topology, shift=settings["shift"], eps=settings["eps"])


def _measured(
    model: VAE | TopographicVAE, test: Split, settings: Mapping[str, Any], seed: int
) -> tuple[dict[str, float], Tensor]:
    images, labels = test.as_tensors()
    t = latents_of(model, images[:, None], seed=seed)[:, 0, 0]
    best = t.abs().argmax(0)
    side = settings["side"]
    classes = labels[best].view(side, side)
    pairs = torch.stack([classes == classes.roll(1, 0), classes == classes.roll(1, 1)])
    mixed = classes.flatten()[torch.randperm(side * side, generator=torch.Generator().manual_seed(seed))]
    squares = t.square().log1p()  # the tails of t² are too heavy for a correlation
    unit = (squares - squares.mean(0)) / squares.std(0).clamp_min(1e-12)
    grid = unit.view(-1, side, side)
    near = torch.stack([(grid * grid.roll(1, axis)).mean() for axis in (1, 2)]).mean()
    metrics = {
        AGREEMENT.name: float(pairs.double().mean()),
        DISTANT.name: float((classes.flatten() == mixed).double().mean()),
        CORRELATION.name: float(near),
    }
    return metrics, images[best, 0].view(side, side, *images.shape[-2:])


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """The map of favorites of each row, from its first seed."""
    drawn: list[Figure] = []
    for row in EXPERIMENT.rows:
        row_runs = sorted((run for run in runs if run.row == row.name), key=lambda run: run.seed)
        arrays = load_arrays(row_runs[0].folder) if row_runs else {}
        if arrays:
            tiles = arrays["favorites"]
            mosaic = tiles.permute(0, 2, 1, 3).reshape(tiles.shape[0] * tiles.shape[2], -1)
            drawn.append(
                Panels(
                    f"{row.title}: the test image that excites each variable most",
                    [("", [Panel(mosaic)])],
                    "gray",
                    "Opposite edges are neighbors. If the layout is learned, neighbors show similar digits.",
                )
            )
    return drawn


_COMMON: dict[str, object] = {
    "width": 5,
    "shift": 10.0,
    "eps": 1e-6,
    "optimizer": "adam",
    "schedule": "constant",
    "lr": 1e-3,
}

EXPERIMENT = Experiment(
    name="tvae-torus",
    title="A map of digits on a torus",
    reference="Keller & Welling 2021, Figure 3",
    metrics=(*with_nulls(AGREEMENT), DISTANT, *with_nulls(CORRELATION), ELBO),
    rows=(
        ExperimentRow("torus", "TVAE on a torus", {"kind": "torus"}),
        ExperimentRow("vae", "VAE, laid out the same way", {"kind": "vae"}),
    ),
    scales={
        "smoke": {
            **_COMMON,
            "data": "digits",
            "images": 200,
            "side": 6,
            "steps": 30,
            "batch_size": 32,
            "sequences": 100,
            "likelihood_sequences": 20,
        },
        "small": {
            **_COMMON,
            "data": "mnist",
            "images": 10_000,
            "side": 12,
            "steps": 1500,
            "batch_size": 128,
            "sequences": 2000,
            "likelihood_sequences": 500,
        },
        "paper": {
            **_COMMON,
            "data": "mnist",
            "images": 48_000,
            "side": 18,
            "steps": 93_750,
            "optimizer": "sgd",
            "lr": 1e-4,
            "batch_size": 128,
            "sequences": 10_000,
            "likelihood_sequences": 1000,
        },
    },
    seeds={"smoke": 1, "small": 3, "paper": 3},
    orderings=(Ordering("torus", "vae", AGREEMENT.name), Ordering("torus", "vae", CORRELATION.name)),
    run=run,
    data={"smoke": "digits", "small": "mnist", "paper": "mnist"},
    figures=figures,
)
