"""One run: train the network of a row, and measure it and its nulls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ...models import NotCyclicWarning, VAEOutput
from ...train import TrainConfig, deterministic_loader, fit, seed_all
from ..lab._arrays import save_arrays
from ..lab._experiment import Job
from ._measure import equivariance_errors, held_out, likelihoods, measured, traversal_gap
from ._metrics import gap_of
from ._network import Moving, Network, build, latents_of, one_generator, prior_sampler


def train(job: Job, model: nn.Module, sequences: Dataset[Any], moving: Moving = one_generator) -> None:
    """Maximize the ELBO."""
    settings = job.settings
    config = TrainConfig(
        max_steps=settings["steps"],
        batch_size=settings["batch_size"],
        optimizer=settings["optimizer"],
        lr=settings["lr"],
        momentum=0.9,
        schedule=settings["schedule"],
        precision=settings.get("precision", "32"),
        seed=job.seed,
        log_every=50,
        checkpoint_every=500,
    )
    batches = deterministic_loader(sequences, settings["batch_size"], seed=job.seed, shuffle=True)
    with warnings.catch_warnings():
        # Positions jump from the last value to the first; the published topology is cyclic anyway.
        warnings.simplefilter("ignore", NotCyclicWarning)
        fit(
            model,
            partial(negative_elbo, moving=moving),
            batches,
            config,
            folder=job.folder / "fit",
            loggers=job.loggers(),
            about={"row": job.row, **settings},
            progress=job.progress,
        )


def negative_elbo(
    model: nn.Module, batch: tuple[Tensor, Tensor], *, moving: Moving = one_generator
) -> tuple[Tensor, dict[str, float]]:
    """The loss and its parts."""
    frames, labels = batch
    out: VAEOutput = model(frames, moving=moving(labels))
    parts = {"reconstruction": float(-out.likelihood.detach().mean()), "kl": float(out.kl.detach().mean())}
    return -out.elbo, parts


def run_row(
    job: Job,
    image: tuple[int, int, int],
    sequences: Dataset[Any],
    test: Mapping[str, tuple[Tensor, Tensor]],
    *,
    moving: Moving = one_generator,
    correlate: Callable[[str, Tensor, Tensor], dict[str, float]] = lambda factor, t, labels: {},
    probe: Callable[[Network], dict[str, float]] = lambda model: {},
) -> dict[str, float]:
    """Train the network of a row and measure it on the sequences of each factor, with the nulls.

    Args:
        job: the run.
        image: shape of a frame.
        sequences: training sequences.
        test: frames and labels to measure on, by factor.
        moving: maps labels to the elements that move the sequences.
        correlate: maps a factor, latents and labels to further metrics; called with trained, untrained and prior
            latents.
        probe: maps a network to further metrics; called with the trained and the untrained network.
    """
    seed_all(job.seed)
    model = build(job.settings, image)
    untrained = deepcopy(model).eval()
    train(job, model, sequences, moving)
    model.eval()
    frames = torch.cat([x for x, _ in test.values()])
    elements = moving(torch.cat([labels for _, labels in test.values()]))
    few = slice(job.settings["likelihood_sequences"])
    metrics: dict[str, float] = {}
    for network, suffix in ((model, ""), (untrained, "_untrained")):
        values = measured(network, frames, latents_of(network, frames, seed=job.seed, moving=elements), elements)
        values |= likelihoods(network, frames[few], seed=job.seed, moving=None if elements is None else elements[few])
        values |= probe(network)
        for factor, (x, labels) in test.items():
            t = latents_of(network, x, seed=job.seed, moving=moving(labels))
            values[gap_of(factor)] = traversal_gap(network, x, t, moving(labels))
            values |= correlate(factor, t, labels)
        metrics |= {f"{name}{suffix}": value for name, value in values.items()}
    prior = prior_sampler(job.settings, len(frames), elements)(torch.Generator().manual_seed(job.seed))
    errors = equivariance_errors(prior, group=model.group, moving=elements)
    metrics |= {f"{name}_prior": value for name, value in errors.items()}
    for (factor, (_, labels)), t in zip(test.items(), prior.split([len(x) for x, _ in test.values()]), strict=True):
        metrics |= {f"{name}_prior": value for name, value in correlate(factor, t, labels).items()}
    _keep_pictures(job, model, test, moving)
    return metrics


@torch.no_grad()
def _keep_pictures(job: Job, model: Network, test: Mapping[str, tuple[Tensor, Tensor]], moving: Moving) -> None:
    arrays: dict[str, Tensor] = {}
    for factor, (x, labels) in test.items():
        elements = moving(labels[:1])
        t = latents_of(model, x[:1], seed=job.seed, moving=elements)
        arrays[f"{factor}/input"] = x[0]
        arrays[f"{factor}/reconstruction"] = model.pictures(t)[0]
        s = None if elements is None else int(elements)
        arrays[f"{factor}/traversal"] = model.traverse(t[:, 0], x.shape[1], moving=s)[0]
    arrays["held_out"] = torch.tensor(held_out(model, int(job.settings["frames"])), dtype=torch.int64)
    save_arrays(job.folder, arrays)
