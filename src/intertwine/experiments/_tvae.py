"""Keller & Welling, "Topographic VAEs learn equivariant capsules", NeurIPS 2021: what its experiments share.

Every number that says something about capsules has a null beside it: the same on latents drawn from the prior, and on
the latents of the network before it was trained. Where the three agree, nothing was learned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ..measure import (
    capsule_equivariance_error,
    reconstruction_error,
    traversal_error,
)
from ..models import VAE, NotCyclicWarning, TopographicVAE, VAEOutput
from ..topographic import Topology, sample_topographic, shifting, stationary
from ..train import TrainConfig, deterministic_loader, fit, seed_all
from ._experiment import FinishedRun, Job, Metric
from ._figures import Figure, Panel, Panels, load_arrays, save_arrays

ERROR = Metric("e_eq", "", "lower", "sum over pairs of frames of |Roll(t̂) − t̂'|, capsules with norm 1")
ERROR_CENTERED = Metric("e_eq_centered", "", "lower", "the same with the mean of each capsule taken off")
ELBO = Metric("elbo", "nats", "higher", "lower bound of log p(x) of a frame")
LIKELIHOOD = Metric(
    "log_p", "nats", "higher", "importance-sampled bound of log p(x) of a frame, whole sequences weighted"
)
PUBLISHED_FORM = Metric(
    "log_p_published", "nats", "higher", "the paper's estimate: frame by frame, log 10 = 2.3 nats too high, no bound"
)
RECONSTRUCTION = Metric("reconstruction", "nats", "lower", "−log p(x_l | t_l) of a frame given its own latents")
GAP = Metric("traversal_gap", "nats", "lower", "−log p(x_δ | Roll_δ t_0), all frames, less the reconstruction error")
HELD = Metric("held_out_gap", "nats", "lower", "the same for the frames that had no share in t_0")


def with_nulls(metric: Metric, *, prior: bool = False) -> tuple[Metric, ...]:
    """The metric, and beside it the same where nothing was learned."""
    untrained = replace(metric, name=f"{metric.name}_untrained", meaning="null: before training", beside=metric.name)
    drawn = replace(
        metric, name=f"{metric.name}_prior", meaning="null: on latents drawn from the prior", beside=metric.name
    )
    return (metric, drawn, untrained) if prior else (metric, untrained)


METRICS = (
    *with_nulls(ERROR, prior=True),
    *with_nulls(ERROR_CENTERED, prior=True),
    *with_nulls(GAP),
    *with_nulls(HELD),
    *with_nulls(RECONSTRUCTION),
    *with_nulls(ELBO),
    *with_nulls(LIKELIHOOD),
    *with_nulls(PUBLISHED_FORM),
)
"""What every row reports, whatever the data."""


def topology_of(settings: Mapping[str, Any]) -> Topology | None:
    """From ``kind``, the ``window`` as a share of the frames, ``width`` and ``band``; None for the plain VAE.

    A window of less than one frame is one frame; a width of None is as wide as the window.
    """
    if settings["kind"] == "vae":
        return None
    window = max(1, round(settings["window"] * settings["frames"]))
    if settings["kind"] == "shifting":
        return shifting(window, band=settings["band"])
    return stationary(window, window if settings["width"] is None else settings["width"])


def build(settings: Mapping[str, Any], image: tuple[int, int, int]) -> VAE | TopographicVAE:
    """The network of a row."""
    options: dict[str, Any] = {"capsules": settings["capsules"], "length": settings["length"]}
    topology = topology_of(settings)
    if topology is None:
        return VAE(image, **options)
    return TopographicVAE(image, **options, topology=topology, shift=settings["shift"], eps=settings["eps"])


def train(job: Job, model: nn.Module, sequences: Dataset[Any]) -> None:
    """Maximize the ELBO."""
    wanted = job.settings
    config = TrainConfig(
        max_steps=wanted["steps"],
        batch_size=wanted["batch_size"],
        optimizer=wanted["optimizer"],
        lr=wanted["lr"],
        momentum=0.9,
        schedule="constant",
        seed=job.seed,
        log_every=50,
        checkpoint_every=500,
    )
    batches = deterministic_loader(sequences, wanted["batch_size"], seed=job.seed, shuffle=True)
    with warnings.catch_warnings():
        # Positions jump from the last value to the first; the published topology is cyclic all the same.
        warnings.simplefilter("ignore", NotCyclicWarning)
        fit(
            model,
            negative_elbo,
            batches,
            config,
            folder=job.folder / "fit",
            loggers=job.loggers(),
            about={"row": job.row, **wanted},
            progress=job.progress,
        )


def negative_elbo(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, dict[str, float]]:
    """The loss, and its parts."""
    out: VAEOutput = model(batch[0])
    parts = {"reconstruction": float(-out.likelihood.detach().mean()), "kl": float(out.kl.detach().mean())}
    return -out.elbo, parts


def prior_sampler(settings: Mapping[str, Any], sequences: int) -> Callable[[torch.Generator], Tensor]:
    """Draws latents from the prior of a row's network."""
    topology, shape = topology_of(settings), (settings["frames"], settings["capsules"], settings["length"])

    def sample(generator: torch.Generator) -> Tensor:
        if topology is None:
            return torch.randn(sequences, *shape, generator=generator)
        time, capsules, length = shape
        return sample_topographic(
            topology,
            sequences=sequences,
            time=time,
            capsules=capsules,
            length=length,
            shift=settings["shift"],
            eps=settings["eps"],
            generator=generator,
        )

    return sample


@torch.no_grad()
def latents_of(model: VAE | TopographicVAE, frames: Tensor, *, seed: int) -> Tensor:
    """t of sequences, some at a time, drawn from the seed."""
    generator = torch.Generator().manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCyclicWarning)
        return torch.cat([model.latent(part, generator=generator) for part in frames.split(32)])


def measured(model: VAE | TopographicVAE, frames: Tensor, t: Tensor) -> dict[str, float]:
    """Errors of capsules and of traversals, on given sequences and their latents."""

    def likelihood(x: Tensor, latents: Tensor) -> Tensor:
        parts = zip(x.split(32), latents.split(32), strict=True)
        return torch.cat([model.log_likelihood(a, model.decode(b)) for a, b in parts])

    own = reconstruction_error(likelihood, frames, t).mean
    found = {
        ERROR.name: capsule_equivariance_error(t).mean,
        ERROR_CENTERED.name: capsule_equivariance_error(t, centered=True).mean,
        RECONSTRUCTION.name: own,
        GAP.name: traversal_error(likelihood, frames, t).mean - own,
    }
    held = held_out(model, frames.shape[1])
    if held:
        found[HELD.name] = traversal_error(likelihood, frames, t, only=held).mean - own
    return found


def held_out(model: VAE | TopographicVAE, time: int) -> list[int]:
    """Frames that have no share in the latents of frame 0."""
    reach = model.topology.reach(time) if isinstance(model, TopographicVAE) else frozenset({0})
    return sorted(set(range(time)) - reach)


@torch.no_grad()
def likelihoods(model: VAE | TopographicVAE, frames: Tensor, *, seed: int) -> dict[str, float]:
    """The ELBO and the two importance-sampled estimates with ten samples."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, list[Tensor]] = {ELBO.name: [], LIKELIHOOD.name: [], PUBLISHED_FORM.name: []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCyclicWarning)
        for part in frames.split(16):
            found[ELBO.name].append(model(part, generator=generator).elbo * len(part))
            found[LIKELIHOOD.name].append(model.importance_bound(part, generator=generator).sum())
            other = model.importance_bound(part, form="published", generator=generator)
            found[PUBLISHED_FORM.name].append(other.mean(1).sum())
    return {name: float(torch.stack(values).sum()) / len(frames) for name, values in found.items()}


def run_row(
    job: Job,
    image: tuple[int, int, int],
    sequences: Dataset[Any],
    looked_at: Mapping[str, tuple[Tensor, Tensor]],
    *,
    correlate: Callable[[str, Tensor, Tensor], dict[str, float]] = lambda factor, t, labels: {},
    probe: Callable[[VAE | TopographicVAE], dict[str, float]] = lambda model: {},
) -> dict[str, float]:
    """Train the network of a row and measure it on the sequences of each factor, with the nulls.

    Args:
        job: the run.
        image: shape of a frame.
        sequences: to learn from.
        looked_at: by factor, frames and labels to measure on.
        correlate: the factor, latents and labels to further metrics, measured on trained, untrained and prior latents.
        probe: a network to further metrics, measured on the trained and the untrained one.
    """
    seed_all(job.seed)
    model = build(job.settings, image)
    untrained = deepcopy(model).eval()
    train(job, model, sequences)
    model.eval()
    frames = torch.cat([x for x, _ in looked_at.values()])
    found: dict[str, float] = {}
    for network, suffix in ((model, ""), (untrained, "_untrained")):
        own = measured(network, frames, latents_of(network, frames, seed=job.seed))
        own |= likelihoods(network, frames[: job.settings["likelihood_sequences"]], seed=job.seed)
        own |= probe(network)
        found |= {f"{name}{suffix}": value for name, value in own.items()}
    prior = prior_sampler(job.settings, len(frames))(torch.Generator().manual_seed(job.seed))
    found[f"{ERROR.name}_prior"] = capsule_equivariance_error(prior).mean
    found[f"{ERROR_CENTERED.name}_prior"] = capsule_equivariance_error(prior, centered=True).mean
    at = 0
    for factor, (x, labels) in looked_at.items():
        for suffix, t in (
            ("", latents_of(model, x, seed=job.seed)),
            ("_prior", prior[at : at + len(x)]),
            ("_untrained", latents_of(untrained, x, seed=job.seed)),
        ):
            found |= {f"{name}{suffix}": value for name, value in correlate(factor, t, labels).items()}
        at += len(x)
    _keep_pictures(job, model, looked_at)
    return found


@torch.no_grad()
def _keep_pictures(job: Job, model: VAE | TopographicVAE, looked_at: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    arrays: dict[str, Tensor] = {}
    for factor, (x, _) in looked_at.items():
        t = latents_of(model, x[:1], seed=job.seed)
        arrays[f"{factor}/input"] = x[0]
        arrays[f"{factor}/reconstruction"] = model.pictures(t)[0]
        arrays[f"{factor}/traversal"] = model.traverse(t[:, 0], x.shape[1])[0]
    arrays["held_out"] = torch.tensor(held_out(model, int(job.settings["frames"])), dtype=torch.int64)
    save_arrays(job.folder, arrays)


def traversal_figures(runs: Sequence[FinishedRun], titles: Mapping[str, str]) -> list[Figure]:
    """For each row, from its first seed: sequences, their reconstructions, and the rolled first frame."""
    figures: list[Figure] = []
    for row, title in titles.items():
        own = sorted((run for run in runs if run.row == row), key=lambda run: run.seed)
        arrays = load_arrays(own[0].folder) if own else {}
        if not arrays:
            continue
        held = set(arrays["held_out"].tolist())
        lines = []
        for factor in dict.fromkeys(name.partition("/")[0] for name in arrays if "/" in name):
            for kind, label in (
                ("input", f"{factor}: input"),
                ("reconstruction", "reconstructed"),
                ("traversal", "first frame, rolled"),
            ):
                frames = arrays[f"{factor}/{kind}"]
                panels = [
                    Panel(frame[0] if len(frame) == 1 else frame.clamp(0, 1), quiet=kind == "input" and k in held)
                    for k, frame in enumerate(frames)
                ]
                lines.append((label, panels))
        figures.append(
            Panels(
                f"{title}: what rolling the capsules shows",
                lines,
                "gray",
                "Grayed frames had no share in the latents of the first frame.",
                shared=True,
            )
        )
    return figures
